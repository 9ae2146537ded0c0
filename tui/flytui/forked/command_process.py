"""A process that works for a stub: it becomes what the stub was started as, and runs the command line."""

from __future__ import annotations

import atexit
import ctypes
import errno
import fcntl
import io
import os
import resource
import signal
import socket
import sys
import threading
import time
from ast import literal_eval
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from flysafe.command_process import work_for
from flysafe.unix_sockets import receive_descriptor, send_descriptor
from flytui.cli.main import main
from flytui.forked.request import BEGUN, CONNECT, LEAVING, LIMITS, REFUSED, STANDARD

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class Request(NamedTuple):
    """What the stub is."""

    pid: int
    argv: list[str]
    environ: dict[str, str]
    numbers: list[int]
    """The numbers that the descriptors have in the stub."""
    umask: int
    nice: int
    ignored: list[int]
    limits: list[tuple[int, int]]
    encodings: list[str]


class CannotBecome(Exception):
    """This process cannot be like the stub."""


def run_for(connection: socket.socket, descriptors: Sequence[int], stub: int, forker: int) -> NoReturn:
    """Become like the stub at the other end, run its command, and leave this process.

    `descriptors` are the request, the folder, and those that the stub has. `stub` and `forker` are process
    ids.
    """
    # Before anything else: a command whose forker is killed cleans up and ends, as after the signal itself.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != forker:
        os._exit(128 + signal.SIGTERM)
    # A session of its own: the forker's terminal is not the stub's.
    os.setsid()
    try:
        link = _become(connection, descriptors, stub)
    except (CannotBecome, OSError, ValueError, TypeError, SyntaxError):
        with suppress(OSError):
            connection.send(REFUSED)
        os._exit(0)
    process = os.pidfd_open(os.getpid())
    try:
        send_descriptor(link, BEGUN, process)
    except OSError:
        os._exit(0)  # the stub is gone, so nothing is done
    os.close(process)
    code = _run()
    with suppress(OSError):
        link.send(LEAVING + str(code << 8).encode("ascii"))
    os._exit(code)


def _run() -> int:
    """Run the command to its whole end and return the exit code."""
    try:
        code = main()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # noqa: BLE001 - the edge of the process: what an interpreter does at this place
        sys.excepthook(*sys.exc_info())
        code = 1
    # What an interpreter does at its end, except taking the modules apart: that would copy nearly all memory
    # that this process shares with the forker.
    threading._shutdown()  # type: ignore[attr-defined]  # there is no public name
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        return 120  # as the interpreter
    return code & 0xFF


def _become(connection: socket.socket, descriptors: Sequence[int], stub: int) -> socket.socket:
    """Take on everything that the stub handed over. Return the connection to it. Raises CannotBecome,
    OSError and ValueError."""
    request = _read_request(descriptors[0])
    if request.pid != stub or len(request.numbers) != len(descriptors) - 2:
        raise CannotBecome
    os.fchdir(descriptors[1])
    link = _take_descriptors(connection, descriptors[2:], request.numbers)
    _open_streams(request.encodings[1:], write_through="PYTHONUNBUFFERED" in request.environ)
    if sys.getfilesystemencoding() != request.encodings[0] or request.nice < os.nice(0):
        raise CannotBecome
    os.nice(request.nice - os.nice(0))
    os.umask(request.umask)
    for limit, values in zip(LIMITS, request.limits, strict=True):
        if resource.getrlimit(limit) != values:
            resource.setrlimit(limit, values)
    os.environ.clear()
    os.environ.update(request.environ)
    time.tzset()
    sys.argv[:] = request.argv
    for number in request.ignored:
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError), open("/proc/self/comm", "wb") as name:
        name.write(b"flytui")
    _work_for(request.pid, link)
    return link


def _read_request(descriptor: int) -> Request:
    with open(descriptor, "rb") as file:
        file.seek(0)
        facts = literal_eval(file.read().decode("ascii"))
    if not isinstance(facts, dict):
        raise CannotBecome
    return Request(**facts)


def _take_descriptors(
    connection: socket.socket, descriptors: Sequence[int], numbers: Sequence[int]
) -> socket.socket:
    """Give the descriptors the numbers that they have in the stub, and close all others. Return the
    connection."""
    beyond = max((*numbers, *descriptors, connection.fileno())) + 1
    own = fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, beyond)
    kept = [fcntl.fcntl(number, fcntl.F_DUPFD, beyond) for number in descriptors]
    connection.detach()  # one of the numbers may be its own
    for descriptor, number in zip(kept, numbers, strict=True):
        os.dup2(descriptor, number)
    first = 0
    for number in (*sorted(numbers), own):
        if first < number:  # Python 3.11 takes the empty range from 0 for all descriptors
            os.closerange(first, number)
        first = number + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    return socket.socket(fileno=own)


def _open_streams(names: Sequence[str], *, write_through: bool) -> None:
    """Open the standard streams as the interpreter does, with these encodings."""
    for number, encoding in zip(STANDARD, names, strict=True):
        name, mode = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))[number]
        stream = open(  # noqa: SIM115 - for as long as the process lives
            number,
            mode,
            1 if number == 2 or os.isatty(number) else -1,
            encoding=encoding,
            errors="backslashreplace" if number == 2 else "surrogateescape",
            newline=None if number == 0 else "\n",
            closefd=False,
        )
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(write_through=write_through)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _work_for(stub: int, link: socket.socket) -> None:
    turn = threading.Lock()

    def connect(path: str) -> socket.socket:
        with turn:
            link.send(CONNECT + os.fsencode(path))
            answer, descriptor = receive_descriptor(link)
        if descriptor is None:
            number = int(answer) if answer.isdigit() else errno.ECONNREFUSED
            raise OSError(number, os.strerror(number), path)
        return socket.socket(fileno=descriptor)

    work_for(stub, connect)
