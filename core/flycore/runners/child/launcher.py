"""The launcher of this process: it starts children below itself (`launcher_program`).

A process has one launcher, started at the first child or, by `prepare_launcher`, before it is needed. It ends
with this process, or when this process closes its end of the socket, and ends everything that is left below
it. If it is killed, what it started becomes this process's own, and the next launcher is told of it.
"""

from __future__ import annotations

import atexit
import errno
import marshal
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from flycore.model.program import RestrictionOrder
from flycore.runners.child.helper_process import HelperProcess
from flycore.runners.child.launcher_program import (
    ANSWER,
    DESCRIPTORS,
    KEEP,
    LONGEST_MESSAGE,
    MOST_DESCRIPTORS,
    START,
)
from flycore.runners.child.process import ChildProcess, is_readable, own_exit_code

ANSWER_SECONDS = 20.0
"""How long a child may take to be started. Only a machine that is overloaded takes that long."""
LOOK_SECONDS = 0.1
"""After how long without an answer the launcher is told to go on: a program of the user may have stopped it,
and the caller waits."""
_PROGRAM = Path(__file__).with_name("launcher_program.py")
_ATTEMPTS = 2
_EXIT_SECONDS = 25.0
"""How long the launcher may take to end what is left when this process ends; usually nothing is."""


_running: list[HelperProcess] = []
_launched: dict[int, LaunchedProcess] = {}
"""The children that were started and not closed, by id: no other process can have one of these ids."""


class LaunchedProcess(ChildProcess):
    """A child that the launcher started, and reaps once it is closed."""

    def __init__(self, pid: int, pidfd: int, starting: int, exits: socket.socket) -> None:
        super().__init__(pid, pidfd, starting)
        self._launcher, self._exits = _running[0], exits
        self._exit_code: int | None = None
        _launched[pid] = self

    def continue_start(self) -> OSError | None:
        """As in `ChildProcess`: the program was executed at the end of the answer."""
        try:
            answer = os.read(self.starting, ANSWER.size)
        except BlockingIOError:
            return None
        self._close_start()
        if not answer:
            return None
        number = ANSWER.unpack(answer)[0]
        return OSError(number, os.strerror(number))

    def exit_code(self) -> int | None:
        """As in `ChildProcess`."""
        if self._exit_code is None and self.has_exited():
            self._exit_code = self._told_exit_code()
        return self._exit_code

    def _told_exit_code(self) -> int:
        """The exit code that the launcher tells at once."""
        while not is_readable(self._exits.fileno(), LOOK_SECONDS) and self._launcher.process.poll() is None:
            self._launcher.resume()
        with suppress(OSError):
            if told := self._exits.recv(ANSWER.size, socket.MSG_DONTWAIT):
                return int(ANSWER.unpack(told)[0])
        # The launcher has ended, and its children are this process's own once it has gone.
        self._launcher.process.wait()
        with suppress(ChildProcessError):
            return own_exit_code(self.pid) or 0
        return -signal.SIGKILL

    def close(self) -> None:
        """As in `ChildProcess`."""
        self.exit_code()
        self._close_start()
        self._exits.close()
        os.close(self.pidfd)
        del _launched[self.pid]
        with suppress(ChildProcessError):  # usually it is the launcher's
            os.waitpid(self.pid, os.WNOHANG)

    def _close_start(self) -> None:
        if self.starting >= 0:
            os.close(self.starting)
            self.starting = -1


def prepare_launcher() -> None:
    """Start the launcher if none runs. Returns before it is ready."""
    if _running and _running[0].is_own:
        return
    if _running:
        _launched.clear()  # they are children of the process that this one was forked from
    _discard()
    _running.append(HelperProcess(_PROGRAM))
    with suppress(OSError):  # it was ended at once, and the next start notices
        for pid, process in _launched.items():
            _running[0].send([process.pidfd], KEEP + ANSWER.pack(pid))
    # It would end by itself, but a process that leaves first would not have waited for it.
    atexit.unregister(_close)
    atexit.register(_close)


def renew_launcher() -> None:
    """Let the launcher go on if a program has stopped it, and start another one if it was ended: without one,
    this process's children would outlive it if it were killed."""
    if not _running or not _running[0].is_own:
        return
    if _running[0].process.poll() is None:
        _running[0].resume()
    else:
        _discard()
        prepare_launcher()


def launcher_id() -> int:
    """Return the id of this process's launcher; 0 if there is none."""
    return _running[0].process.pid if _running and _running[0].is_own else 0


def keep(pid: int, pidfd: int) -> None:
    """Let the launcher end that process if this one is killed. Raises OSError."""
    _deliver([pidfd], KEEP + ANSWER.pack(pid))


def launch(
    argv: Sequence[str],
    *,
    executable: str | None,
    cwd: str,
    env: Mapping[str, str],
    stdin: int,
    stdout: int,
    stderr: int,
    handed: Sequence[int] = (),
    limits: Sequence[tuple[int, int, int]] = (),
    restrictions: Sequence[RestrictionOrder] = (),
    group: int = -1,
) -> LaunchedProcess:
    """Start a child in a session of its own, below the launcher, as subreaper of its descendants.

    The child is about to execute its program when this returns: its owner asks `continue_start` when
    `starting` can be read. Other tasks may run before that, but not before the child is registered
    (`process_tree`).

    The child gets the descriptors `handed` under their own numbers. `limits` are its resource limits: the
    kind, the soft and the hard one. By `restrictions` the child gives up rights, in that order, before it
    executes its program; it executes nothing if it cannot. `group` is a descriptor of the `cgroup.procs` of
    the control group that the child moves into, -1 for none. Raises OSError, and ValueError for a NUL
    character.
    """
    modules = [_encoded(restriction.module) for restriction in restrictions]
    message = START + b"\0".join(modules)
    if len(handed) >= MOST_DESCRIPTORS - DESCRIPTORS - 1 or len(message) > LONGEST_MESSAGE:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    words = [_encoded(word) for word in argv]
    variables = {_encoded(name): _encoded(value) for name, value in env.items()}
    candidates = _candidates(executable or argv[0], env)
    orders = [restriction.order for restriction in restrictions]
    restricted, grouped = list(zip(modules, orders, strict=True)), group >= 0
    folder = _encoded(cwd)
    request = (candidates, words, variables, folder, list(handed), list(limits), restricted, grouped)
    descriptor = os.memfd_create("launch", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, marshal.dumps(request))
        further = (*handed, *((group,) if grouped else ()))
        return _ask([stdin, stdout, stderr], descriptor, further, message)
    finally:
        os.close(descriptor)


def _ask(streams: list[int], request: int, further: Sequence[int], message: bytes) -> LaunchedProcess:
    # Once more with a new launcher: a tool may have ended the old one.
    for _ in range(_ATTEMPTS):
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        answer = b""
        with theirs:
            try:
                _deliver([*streams, writing, theirs.fileno(), request, *further], message)
            finally:
                os.close(writing)
        if _answers(reading):
            answer = os.read(reading, ANSWER.size)
        if answer:
            return _started(answer, reading, ours)
        os.close(reading)
        ours.close()
        _discard()
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _started(answer: bytes, reading: int, exits: socket.socket) -> LaunchedProcess:
    pid = ANSWER.unpack(answer)[0]
    try:
        # The launcher does not reap it yet, so its id cannot belong to another process by now.
        pidfd = os.pidfd_open(pid) if pid else -1
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.close(reading)
        exits.close()
        raise
    if pid:
        return LaunchedProcess(pid, pidfd, reading, exits)
    # The launcher could make no child, and has written both numbers at once.
    number = ANSWER.unpack(os.read(reading, ANSWER.size))[0]
    os.close(reading)
    exits.close()
    raise OSError(number, os.strerror(number))


def _deliver(descriptors: list[int], message: bytes) -> None:
    """Send the message to the launcher, and to another one if the first was ended. Raises OSError."""
    prepare_launcher()
    try:
        _running[0].send(descriptors, message)
    except (BrokenPipeError, ConnectionResetError):
        _discard()
        prepare_launcher()
        _running[0].send(descriptors, message)


def _answers(reading: int) -> bool:
    """Wait for an answer of the launcher, or its end; False if that takes too long."""
    for _ in range(round(ANSWER_SECONDS / LOOK_SECONDS)):
        if is_readable(reading, LOOK_SECONDS):
            return True
        _running[0].resume()
    return False


def _discard() -> None:
    """Give up the launcher. It is killed first: at the end of its socket it would end the children."""
    while _running:
        _running.pop().discard()


def _close() -> None:
    """Let the launcher end what is left, and itself."""
    while _running:
        _running.pop().end(_EXIT_SECONDS)


def _candidates(program: str, env: Mapping[str, str]) -> list[bytes]:
    """The files to try, in order: the program itself, or its name in the folders of the child's PATH."""
    if "/" in program:
        return [_encoded(program)]
    return [_encoded(os.path.join(folder, program)) for folder in os.get_exec_path(env)]


def _encoded(text: str) -> bytes:
    data = os.fsencode(text)
    if b"\0" in data:
        raise ValueError("a NUL character")
    return data
