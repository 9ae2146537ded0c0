"""The launcher of this process: it starts children that keep their own orphans (`launcher_program`).

A process has one launcher, started at the first child or, by `prepare_launcher`, before it is needed. It ends
with this process, or when this process closes its end of the socket, and ends the children that are left. A
launcher that is given up is killed, so that it ends no child, and the next one is told of the children that
run.
"""

from __future__ import annotations

import array
import atexit
import errno
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from flycore.model.program import ObserverOrder, RestrictionOrder
from flycore.model.session import CALL_ID_VARIABLE, session_mark
from flycore.runners.child.launcher_program import ADOPT, MARK
from flycore.runners.child.ready_child_program import (
    ANSWER,
    DESCRIPTORS,
    LONGEST_PATH,
    MOST_DESCRIPTORS,
    OBSERVED,
    START,
)

ANSWER_SECONDS = 20.0
"""How long a child may take to be started. Only a machine that is overloaded takes that long."""
LOOK_SECONDS = 0.1
"""After how long without an answer the launcher is looked at: a program of the user may have stopped it, and
the caller of `launch` waits."""
_PROGRAM = str(Path(__file__).with_name("launcher_program.py"))
_ATTEMPTS = 2
_FURTHER = 2
"""The descriptors of a child besides its streams and those that it is handed: its group and its notes."""
_LEAVE_SECONDS = 2.0
"""How long a ready child may take to leave when this process ends; a busy machine takes some milliseconds."""
_LEAVE_PAUSE_S = 0.002
_EXIT_SECONDS = 25.0
"""How long the launcher may take to end what is left when this process ends; usually nothing is."""


class ChildProcess:
    """A child of this process that the launcher started. Its owner reaps it by `poll`."""

    __slots__ = ("pid", "returncode", "starting")

    def __init__(self, pid: int, starting: int = -1) -> None:
        self.pid = pid
        self.starting = starting
        """The end of a pipe that can be read once the child has executed its program or could not; -1 where
        that is settled."""
        self.returncode: int | None = None
        """Negative for a signal; None until it was reaped."""

    def start_fault(self) -> OSError | None:
        """Why the child has executed no program; None where it has, or where it is not known yet."""
        if self.starting < 0:
            return None
        try:
            answer = os.read(self.starting, ANSWER.size)
        except BlockingIOError:
            return None
        self.close_start()
        if not answer:
            return None
        number = ANSWER.unpack(answer)[0]
        return OSError(number, os.strerror(number))

    def close_start(self) -> None:
        """Ask no more how the start went."""
        if self.starting >= 0:
            os.close(self.starting)
            self.starting = -1

    def poll(self) -> int | None:
        """Reap the child where it has exited, and return its exit code; None while it runs."""
        self._wait(os.WNOHANG)
        return self.returncode

    def wait(self) -> None:
        """Wait for the exit of the child, and reap it."""
        self._wait(0)

    def _wait(self, flags: int) -> None:
        if self.returncode is not None:
            return
        try:
            pid, status = os.waitpid(self.pid, flags)
        except ChildProcessError:
            self.returncode = 0
        else:
            if pid == self.pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        if self.returncode is not None:
            _unreaped.discard(self.pid)


class _Launcher(msgspec.Struct, frozen=True):
    owner: int
    """The process that started it: a fork of that process must not use it."""
    process: subprocess.Popen[bytes]
    control: socket.socket
    """What is for itself."""
    starts: socket.socket
    """The requests, which its ready child reads."""
    marks: set[bytes] = msgspec.field(default_factory=set)
    """The marks that it knows."""


_running: list[_Launcher] = []
_unreaped: set[int] = set()
"""The ids of the children that were started and not reaped: no other process can have one of them."""
_left_groups: set[int] = set()
"""The process groups of launchers that were given up, as long as they may hold a child of this process."""
_marks: set[bytes] = set()
"""How the variables begin that mark the children of this process: one for each session of calls."""


def prepare_launcher() -> None:
    """Start the launcher, where none runs. Returns before it is ready."""
    if _running and _running[0].owner == os.getpid():
        return
    if _running:
        # A fork: they are children of the process that it was forked from.
        _unreaped.clear()
        _left_groups.clear()
        _marks.clear()
    _discard()
    _running.append(_start())
    _hand_over(_running[0])
    # It would end by itself, but a process that leaves first would not have waited for it.
    atexit.unregister(_close)
    atexit.register(_close)


def renew_launcher() -> None:
    """Start another launcher where the one that ran was ended: without one, this process's children would
    outlive it if it were killed."""
    if _running and _running[0].owner == os.getpid() and _running[0].process.poll() is not None:
        _discard()
        prepare_launcher()


def _hand_over(launcher: _Launcher) -> None:
    """Tell a new launcher of the children that run."""
    with suppress(OSError):  # it was ended at once, and the next start notices
        _send_marks(launcher)
    pids = sorted(_unreaped)
    for first in range(0, len(pids), MOST_DESCRIPTORS):
        part = pids[first : first + MOST_DESCRIPTORS]
        pidfds: list[int] = []
        try:
            pidfds += (os.pidfd_open(pid) for pid in part)
            body = b"".join(map(ANSWER.pack, part))
            _send(launcher.control, pidfds, ADOPT + body)
        except OSError:
            # Without descriptors, or with a launcher that was ended at once. The children run on all the
            # same, and the next kernel ends what this one would leave.
            return
        finally:
            for pidfd in pidfds:
                os.close(pidfd)


def _send_marks(launcher: _Launcher) -> None:
    for mark in sorted(_marks - launcher.marks):
        _send(launcher.control, [], MARK + mark)
        launcher.marks.add(mark)


def is_launcher(pid: int) -> bool:
    """Return whether that child of this process is its launcher."""
    return bool(_running) and _running[0].process.pid == pid


def belongs_to_launcher(pid: int) -> bool:
    """Return whether that child of this process is its launcher, or a child that waits for its program."""
    # The launcher itself first: as it starts, it is not yet in the group that it makes for itself.
    try:
        return is_launcher(pid) or (bool(_running) and os.getpgid(pid) == _running[0].process.pid)
    except ProcessLookupError:
        return False


def reap_ready_children() -> bool:
    """Reap the children that have ended before they were given a program: somebody has ended them, or the
    launcher that made them was given up. Returns whether a launcher that was given up has left some."""
    if _running and _running[0].owner == os.getpid():
        _reap_group(_running[0].process.pid)
    for group in tuple(_left_groups):
        if not _reap_group(group):
            _left_groups.discard(group)
    return bool(_left_groups)


def _reap_group(launcher: int) -> bool:
    """Reap the children in the group of that launcher, but not the launcher. Returns whether one is left."""
    # The number of a group is not used again for a process as long as one in it is not reaped.
    try:
        while (ended := os.waitid(os.P_PGID, launcher, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == launcher:
                return True  # `renew_launcher` sees it
            os.waitpid(ended.si_pid, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


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
    limits: Sequence[tuple[int, int, bool]] = (),
    observer: ObserverOrder | None = None,
    restriction: RestrictionOrder | None = None,
    group: int = -1,
    wait: bool = True,
) -> ChildProcess:
    """Start a child in a session of its own, as a child of this process and subreaper of its descendants.

    With `wait` it has executed its program when this returns. Without, it is about to, and its owner asks
    `start_fault` once `starting` can be read. Other tasks may run meanwhile, but not before the child is
    registered (`process_tree`).

    The child gets the descriptors `handed` under their own numbers. `limits` are its resource limits: the
    kind, the value, and whether it must not raise it again. With `observer` another process notes what the
    child and its descendants ask for. With `restriction` the child gives up rights before it executes its
    program, and executes nothing where it cannot. `group` is a descriptor of the `cgroup.procs` of the
    control group that the child moves into, -1 for none. This process has to be a child subreaper itself.
    Raises OSError, and ValueError for a NUL character.
    """
    module = b"" if restriction is None else _encoded(restriction.module)
    if len(handed) >= MOST_DESCRIPTORS - DESCRIPTORS - _FURTHER or len(module) >= LONGEST_PATH:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    words = [_encoded(word) for word in argv]
    variables = {_encoded(name): _encoded(value) for name, value in env.items()}
    candidates = _candidates(executable or argv[0], env)
    observed = None if observer is None else (observer.system_call, observer.filter, observer.granted)
    restricted = None if restriction is None else (module, restriction.order)
    grouped = group >= 0
    request = (
        *(candidates, words, variables, _encoded(cwd), list(handed), list(limits)),
        *(observed, restricted, grouped),
    )
    if mark := session_mark(env.get(CALL_ID_VARIABLE, "")):
        _marks.add(mark)
    descriptor = os.memfd_create("launch", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, marshal.dumps(request))
        further = (*handed, *((group,) if grouped else ()))
        further = further if observer is None else (*further, observer.notes)
        message = START if observer is None else OBSERVED
        child = _ask([stdin, stdout, stderr], descriptor, further, message + module)
    finally:
        os.close(descriptor)
    if wait:
        _wait_for_start(child)
    return child


def _wait_for_start(child: ChildProcess) -> None:
    """Wait until the child has executed its program. Raises OSError where it could not; then it is reaped."""
    fault: OSError | None = None
    if _wait_for(child.starting, child.pid):
        fault = child.start_fault()
    else:
        child.close_start()
        os.kill(child.pid, signal.SIGKILL)
        fault = OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    if fault is not None:
        child.wait()
        raise fault


def _ask(streams: list[int], request: int, handed: Sequence[int], message: bytes) -> ChildProcess:
    # Once more with a new launcher: a tool may have ended the old one.
    for _ in range(_ATTEMPTS):
        prepare_launcher()
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        answer = b""
        try:
            _send_marks(_running[0])
            _send(_running[0].starts, [*streams, writing, request, *handed], message)
            os.close(writing)
            writing = -1
            if _wait_for(reading, _running[0].process.pid):
                answer = os.read(reading, ANSWER.size)
        except OSError:
            answer = b""
        finally:
            if writing >= 0:
                os.close(writing)
        if answer:
            return _started(answer, reading)
        os.close(reading)
        _discard()
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _started(answer: bytes, reading: int) -> ChildProcess:
    child = ChildProcess(ANSWER.unpack(answer)[0], reading)
    if not child.pid:
        # The launcher could make none, and has written both numbers at once.
        fault = child.start_fault()
        child.close_start()
        raise fault or OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    _unreaped.add(child.pid)
    return child


def _send(control: socket.socket, descriptors: list[int], message: bytes = START) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    control.sendmsg([message], rights, socket.MSG_NOSIGNAL)


def _wait_for(reading: int, leader: int) -> bool:
    """Wait until there is something to read, or the end; False where that takes too long. `leader` and its
    group are what it waits for."""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    for _ in range(round(ANSWER_SECONDS / LOOK_SECONDS)):
        if poll.poll(LOOK_SECONDS * 1000):
            return True
        _continue(leader)
    return False


def _continue(leader: int) -> None:
    """Let the launcher and its ready child, or a child that starts, go on if somebody has stopped it. The
    leader is not reaped yet, so its id and the group are its own."""
    try:
        os.killpg(leader, signal.SIGCONT)
    except ProcessLookupError:  # it has just been started, and has no group yet
        os.kill(leader, signal.SIGCONT)


def _start() -> _Launcher:
    control, controlled = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    starts, started = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with controlled, started:
        numbers = (controlled.fileno(), started.fileno())
        # No site, no environment, no folder of anybody's: nothing but the standard library is loaded.
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", _PROGRAM, *map(str, numbers)],
            cwd="/",
            env={},
            stdin=subprocess.DEVNULL,
            pass_fds=numbers,
        )
    return _Launcher(os.getpid(), process, control, starts)


def _discard() -> None:
    """Give up the launcher. One that another process started belongs to that process."""
    while _running:
        launcher = _running.pop()
        if launcher.owner == os.getpid():
            # First: at the end of its socket it would end the children.
            launcher.process.kill()
            if launcher.process.returncode is None:
                _continue(launcher.process.pid)
            launcher.process.wait()
            _left_groups.add(launcher.process.pid)
        else:
            launcher.process.returncode = 0  # a fork of the owner: nothing is waited for at the end
        launcher.control.close()
        # Its ready child, a child of this process, leaves at the end of this socket.
        launcher.starts.close()


def _close() -> None:
    """Let the launcher end what is left, and itself."""
    if _running and _running[0].owner == os.getpid():
        launcher = _running[0]
        launcher.control.close()
        with suppress(subprocess.TimeoutExpired):
            # A tool may have stopped it.
            _continue(launcher.process.pid)
            launcher.process.wait(_EXIT_SECONDS)
    _discard()
    # Its ready child leaves at the end of its socket, and nobody else would reap it.
    until = time.monotonic() + _LEAVE_SECONDS
    while reap_ready_children() and time.monotonic() < until:
        time.sleep(_LEAVE_PAUSE_S)


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
