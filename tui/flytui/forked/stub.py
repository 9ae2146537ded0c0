"""The installed command as a stub: another process works for it, which was forked from the forker.

The stub hands over its streams, words, folder, environment, umask and limits. Then it passes signals on,
stops and goes on with that process, opens connections to kernels for it, and ends as it ends. It uses the
standard library only, and of that the parts which are imported fast.
"""

from __future__ import annotations

import _socket  # `socket` itself takes as long to import as all of this
import os
import signal
import sys
from contextlib import suppress

from flytui.forked.address import forker_socket, is_private_folder, may_replace
from flytui.forked.request import (
    BEGUN,
    CONNECT,
    ENDED,
    LEAVING,
    MAX_DESCRIPTORS,
    MAX_MESSAGE_BYTES,
    READY,
    STANDARD,
    encoded_request,
    inherited_descriptors,
    packed,
    unpacked,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

READY_SECONDS = 1.0
"""How long the forker may take until it is ready. Otherwise the command runs in this process."""
PASSED_ON = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH, signal.SIGCONT),
)
BEGINS_SECONDS = 10.0
"""How long a process may take until it begins. Then its connection is closed, which ends it."""
OWN_PROCESS = ("mcp", "serve", "demo")
"""Commands that live long, or take the terminal: each is a process itself."""
COMPLETION = "_FLYTUI_COMPLETE"
"""The variable by which a shell asks for a completion, without any word."""
_HELP = ("--help", "-h")
_READ_BY_INTERPRETER = ("PYTHON", "LD_", "MALLOC_", "GLIBC_TUNABLES")
_HARMLESS = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHON_KEYRING_BACKEND")
_UCRED_BYTES = 12
LOST = 7
"""Exit code if it is not known how the command ended, as with a kernel that was lost."""
BLOCKED = 2
"""The same for a hook: with any other code an agent would run its tool."""


def run_forked(argv: Sequence[str]) -> int | None:
    """Have another process run the command, and return its exit code; None if the command has to run in this
    process, and nothing was done."""
    try:
        return _run_forked(argv) if _may_be_forked(argv[1:]) else None
    except KeyboardInterrupt:  # before the process was there
        return BLOCKED if _command(argv[1:]) == "hook" else 128 + signal.SIGINT


def _run_forked(argv: Sequence[str]) -> int | None:
    # A signal that comes before the process is there waits for it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*PASSED_ON, signal.SIGTSTP))
    try:
        connection = _connect()
        process = None if connection is None else _begin(connection, argv)
        if connection is None or process is None:
            return None
        if process >= 0:
            _pass_signals_on(process)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    status = _follow(connection) if process >= 0 else None
    return _blocked(status) if _command(argv[1:]) == "hook" else _end_with(status)


def _may_be_forked(words: Sequence[str]) -> bool:
    name = _command(words)
    if name in OWN_PROCESS and not any(word in _HELP for word in words):
        return False
    if not name and sys.stdin.isatty() and COMPLETION not in os.environ:
        return False  # the console
    flags = sys.flags
    if flags.dev_mode or flags.optimize or flags.inspect or sys.warnoptions or sys._xoptions:
        return False
    if any(name.startswith(_READ_BY_INTERPRETER) for name in os.environ if name not in _HARMLESS):
        return False
    return not _is_in_background()


def _command(words: Sequence[str]) -> str:
    """Return the name of the command; empty if there is none."""
    rest = iter(words)
    for word in rest:
        if word in ("--root", "--workspace"):
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return ""


def _is_in_background() -> bool:
    """Return whether this process is in the background of its terminal."""
    # A terminal stops its own jobs if they read from it, and no other process.
    try:
        return os.tcgetpgrp(0) != os.getpgrp()
    except OSError:
        return False


def _connect() -> _socket.socket | None:
    """Connect to the forker and wait until it is ready; None if there is none that may work for this
    process."""
    path = forker_socket(os.environ)
    if not is_private_folder(os.path.dirname(path)):
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    with suppress(OSError):
        connection.settimeout(READY_SECONDS)
        connection.connect(path)
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _UCRED_BYTES)
        if may_replace(int.from_bytes(peer[:4], sys.byteorder)) and connection.recv(len(READY)) == READY:
            connection.settimeout(None)
            return connection
    connection.close()
    return None


def _begin(connection: _socket.socket, argv: Sequence[str]) -> int | None:
    """Hand over, and return the descriptor of the process that works for this one, or -1 if it is not known
    whether one does. None if none does."""
    inherited = inherited_descriptors()
    numbers = [*STANDARD, *inherited]
    if len(numbers) > MAX_DESCRIPTORS:
        return None
    try:
        request = os.memfd_create("flytui-request")
        os.write(request, encoded_request(argv, numbers))
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        rights = packed([request, folder, *numbers])
        connection.sendmsg([b"run"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    except OSError:
        return None
    connection.settimeout(BEGINS_SECONDS)
    message, descriptors = _receive(connection)
    connection.settimeout(None)
    if message and message != BEGUN:
        return None
    # Whoever waits for the end of a pipe must not wait for this process.
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    for number in inherited:
        os.close(number)
    return descriptors[0] if descriptors else -1


def _receive(connection: _socket.socket) -> tuple[bytes, list[int]]:
    """Return the next message with its descriptors; an empty one once nobody is at the other end."""
    try:
        message, passed, _, _ = connection.recvmsg(MAX_MESSAGE_BYTES, _socket.CMSG_SPACE(4))
    except OSError:
        return b"", []
    return message, [number for _, _, data in passed for number in unpacked(data)]


def _pass_signals_on(process: int) -> None:
    """From now on pass each signal on to the process, and stop with it."""

    def send(number: int) -> None:
        with suppress(OSError):
            signal.pidfd_send_signal(process, number)

    def stop(number: int, frame: object) -> None:
        send(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)

    for number in PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: send(number))
    if signal.getsignal(signal.SIGTSTP) != signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, stop)


def _follow(connection: _socket.socket) -> int | None:
    """Open connections until the process has ended, and return its wait status; None if it is not known."""
    status = None
    while True:
        message, _ = _receive(connection)
        if message.startswith(CONNECT):
            _open_for(connection, message[len(CONNECT) :])
        elif message.startswith(LEAVING):
            status = int(message[len(LEAVING) :])
        elif message.startswith(ENDED):
            return int(message[len(ENDED) :])
        else:
            return status


def _open_for(connection: _socket.socket, path: bytes) -> None:
    """Connect to the socket and hand the connection over, or report the error."""
    opened = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        opened.connect(path)
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed([opened.fileno()]))]
        answer = b"opened"
    except OSError as error:
        rights, answer = [], str(error.errno).encode("ascii")
    with suppress(OSError):
        connection.sendmsg([answer], rights)
    opened.close()


def _blocked(status: int | None) -> int:
    """Return the exit code of a hook: it blocks the tool if it did not answer."""
    return 0 if status == 0 else BLOCKED


def _end_with(status: int | None) -> int:
    """Return the exit code; after the end by a signal, end by the same signal."""
    if status is None:
        text = "flytui: the process that ran this command was ended; it is not known what it did\n"
        with suppress(OSError):
            os.write(2, text.encode("ascii"))
        return LOST
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        return 128 - code
    return code
