"""The ready child: a process that the launcher makes ahead of time, and that becomes the next program.

The launcher (`launcher_program`) loads this file by its path, with the standard library only. To fork Python
takes longer than everything else at a start, most of it in the forked process, which gets its own copy of
each page that it touches. So it is done while nothing is asked for, and a start is one message to a process
that waits for it.

A ready child is a child of the kernel from its first moment: it is made with CLONE_PARENT. Until it gets a
request it is in the kernel's session, where nobody takes it for a process of a call, and in the launcher's
process group, by which the kernel knows it. It has no descriptor besides its two sockets and the standard
streams, and knows nothing of earlier requests: no other process reads them but the child that they are for.
It leaves when the kernel closes its end of the socket, or is gone.

It takes one request: one message with the descriptors of the child's stdin, stdout and stderr, of a pipe for
the answer, of a file with the request, and of what else the child is given. Then it tells the launcher, which
has its pidfd, that it is taken; without a launcher it starts nothing. The answer is the child's id, 8 bytes,
and after it the error number, 8 bytes, where the program could not be started; the end of the pipe says that
it was. It leads a session of its own before it answers, and has been a child subreaper for long.

The resource limits are set before the program runs, so that whatever it starts has them, too. A child with a
control group gets a descriptor of the group's `cgroup.procs`, before that of the notes, and moves into the
group by itself. A program that is to be confined by its own process names, behind the first byte of the
message, the file of the module that does it: the child calls its function `restrict` after everything else
that needs a right, and executes nothing where that raises.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import gc
import marshal
import os
import resource
import signal
import socket
import struct
import time

TYPE_CHECKING = False
"""As in `typing`, which takes as long to import as all of the launcher's start."""
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ANSWER = struct.Struct("=q")
START, OBSERVED = b"+", b"o"
"""The first byte of a request: for a child, and for one with an observer. When it is taken, the child hands
the message on to the launcher, behind the time, and the descriptors that an observer needs."""
DESCRIPTORS = 5
MOST_DESCRIPTORS = 253
"""SCM_MAX_FD of the kernel's `include/net/scm.h`: how many one message can carry."""
LONGEST_PATH = 4_096
"""PATH_MAX of the kernel, with the NUL: how long the path of a module may be."""
_MOST_BYTES = max(1 + ANSWER.size * MOST_DESCRIPTORS, 1 + LONGEST_PATH)
_NUMBER_BYTES = array.array("i").itemsize
_PR_SET_CHILD_SUBREAPER = 36
_SET_OTHERWISE = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP)
"""Python ignores the first two, and the launcher has a handler of the third."""
_CLONE_PIDFD, _CLONE_PARENT = 0x1000, 0x8000
_CLONE3 = 435
"""The number of the system call, the same on every architecture."""
_CLONE = {"x86_64": 56, "aarch64": 220}
"""The number of the older call, by the name of a 64-bit machine. A container's filter of system calls often
refuses the newer one, whose flags it cannot see."""
_REFUSED_BY_FILTER = (errno.ENOSYS, errno.EPERM)


class _Arguments(ctypes.Structure):  # struct clone_args, as first published
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls")
    )


class Cloner:
    """Makes forks of this process that are children of its parent. This process must have one thread."""

    def __init__(self) -> None:
        # With the lock of the interpreter kept: the fork has to have it, as after `os.fork`.
        self._call = ctypes.PyDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._pidfd = ctypes.c_int(-1)
        # No signal of its own: with CLONE_PARENT the kernel is sent what it is sent for this process.
        self._arguments = _Arguments(_CLONE_PIDFD | _CLONE_PARENT, ctypes.addressof(self._pidfd))
        self._older = _CLONE.get(os.uname().machine, -1) if struct.calcsize("P") == 8 else -1

    def clone(self) -> tuple[int, int]:
        """Fork this process. Returns the id and a pidfd of the new process, and 0 and -1 in that. Raises
        OSError.

        The pidfd is from the call itself, so it means that process, whatever has become of it since.
        """
        # What `os.fork` does around the system call. The C library's own preparations are for its threads.
        ctypes.pythonapi.PyOS_BeforeFork()
        pid = self._call(
            ctypes.c_long(_CLONE3), ctypes.byref(self._arguments), ctypes.c_size_t(ctypes.sizeof(_Arguments))
        )
        if pid < 0 and ctypes.get_errno() in _REFUSED_BY_FILTER and self._older >= 0:
            # It stores the pidfd where the id of a thread would go. The last two arguments are in another
            # order on each architecture, and none of them is used.
            pid = self._call(
                ctypes.c_long(self._older), ctypes.c_long(_CLONE_PIDFD | _CLONE_PARENT), ctypes.c_long(0),
                ctypes.byref(self._pidfd), ctypes.c_long(0), ctypes.c_long(0),
            )  # fmt: skip
        if pid == 0:
            ctypes.pythonapi.PyOS_AfterFork_Child()
            return 0, -1
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        if pid < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return pid, self._pidfd.value


def receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """The next message with its descriptors; empty at the end."""
    try:
        # No program may get one of them: the end of the answer's pipe says that a program was executed.
        message, parts, _, _ = connection.recvmsg(
            _MOST_BYTES, socket.CMSG_LEN(MOST_DESCRIPTORS * _NUMBER_BYTES), socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionError:
        return b"", []
    received = array.array("i")
    for level, kind, data in parts:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            received.frombytes(data[: len(data) - len(data) % _NUMBER_BYTES])
    return message, list(received)


def serve_one(starts: socket.socket, notices: socket.socket, load: Callable[[str], ModuleType]) -> None:
    """In the ready child: wait for a request, and execute its program. Does not return.

    `notices` leads to the launcher. `load` returns the module in a file.
    """
    try:
        gc.disable()
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for ignored in _SET_OTHERWISE:
            signal.signal(ignored, signal.SIG_DFL)
        _rehearse()
        _close_others((starts.fileno(), notices.fileno()))
        message, received = receive(starts)
        if message:
            channel = _tell(notices, message, received)
            _start(received, channel, load)
    finally:
        os._exit(127)


def _rehearse() -> None:
    """Do once what a start does, as far as it changes nothing: this process gets its own copy of the pages
    that a start touches before there is one. The descriptors are closed by `_close_others`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        _tell(theirs, START, [])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [ours.fileno()]))]
        ours.sendmsg([START], rights, socket.MSG_NOSIGNAL)
        _, received = receive(theirs)
    ANSWER.pack(os.fstat(received[0]).st_size)
    marshal.loads(marshal.dumps(([b""], {b"": b""}, (0, None, False))))  # noqa: S302
    _hand_over([], [], -1)
    _limit([])
    os.chdir(os.curdir)
    os.dup2(os.dup(received[0]), received[0])


def _close_others(kept: tuple[int, int]) -> None:
    """Close all descriptors but those and the standard streams. The launcher's end of the kernel's socket is
    one of them: its end says that the launcher is gone."""
    below = 3
    for number in sorted(kept):
        os.closerange(below, number)
        below = number + 1
    os.closerange(below, os.sysconf("SC_OPEN_MAX"))


def _tell(notices: socket.socket, message: bytes, received: list[int]) -> int:
    """Tell the launcher that this child is taken, and when, in ticks since boot.

    Returns the channel to its observer; -1 where it has none. Raises OSError where the launcher is gone: then
    nobody could keep the child from outliving the kernel, and this process ends without an answer, so that
    the kernel tries another launcher.
    """
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    notice = ANSWER.pack(now) + message
    if message[:1] != OBSERVED:
        notices.sendmsg([notice], [], socket.MSG_NOSIGNAL)
        return -1
    ours, theirs = socket.socketpair()
    with theirs:
        handed = array.array("i", [theirs.fileno(), received.pop(), received[DESCRIPTORS - 1]])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)]
        notices.sendmsg([notice], rights, socket.MSG_NOSIGNAL)
    os.close(handed[1])  # the notes are the observer's
    return ours.detach()


def _start(received: list[int], channel: int, load: Callable[[str], ModuleType]) -> None:
    """Answer, and execute the program. Does not return."""
    stdin, stdout, stderr, answer, request, *further = received
    try:
        # First: from the answer on the kernel knows it as the leader of its session.
        os.setsid()
        os.write(answer, ANSWER.pack(os.getpid()))
        data = os.pread(request, os.fstat(request).st_size, 0)
        # The kernel itself wrote it.
        candidates, argv, environ, cwd, numbers, limits, *rest = marshal.loads(data)  # noqa: S302
        observed, restricted, grouped = rest
        os.chdir(cwd)
        # Far from 0 to 2 first: one of these numbers may be a descriptor that was received.
        for target, number in enumerate([os.dup(number) for number in (stdin, stdout, stderr)]):
            os.dup2(number, target)
        if observed:
            # Out of the way of the numbers that are handed over.
            channel = fcntl.fcntl(channel, fcntl.F_DUPFD_CLOEXEC, max(numbers, default=0) + 1)
        if grouped:
            os.write(further.pop(), b"0")
        answer = _hand_over(further, numbers, answer)
        if observed:
            load(OBSERVER_PROGRAM).install(*observed[:2], channel)
        if restricted:
            # An exception that is none of the system's ends this process before it executes anything.
            load(os.fsdecode(restricted[0])).restrict(restricted[1])
        # Last, because this process, too, is subject to them from here on.
        _limit(limits)
        _execute(candidates, argv, environ)
    except OSError as error:
        os.write(answer, ANSWER.pack(error.errno or 0))
    except MemoryError:
        os.write(answer, ANSWER.pack(errno.ENOMEM))
    finally:
        os._exit(127)


OBSERVER_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "observer_program.py")


def _hand_over(received: list[int], numbers: list[int], answer: int) -> int:
    """Give the program these descriptors under these numbers. Returns the new number of the answer's pipe."""
    if not numbers:
        return answer
    # All of them above every number that is wanted first: one that is wanted may be in use.
    above = max(numbers) + 1
    answer, *moved = (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, above) for number in (answer, *received))
    for number, descriptor in zip(numbers, moved, strict=True):
        os.dup2(descriptor, number)
    return answer


def _limit(limits: list[tuple[int, int, bool]]) -> None:
    """Set the limits: the kind, the value, and whether the program must not raise it again."""
    for kind, wanted, lasting in limits:
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value if lasting else hard))


def _execute(candidates: list[bytes], argv: list[bytes], environ: dict[bytes, bytes]) -> None:
    """Execute the first candidate that can be executed. Raises OSError for the most telling failure."""
    fault: OSError | None = None
    for candidate in candidates:
        try:
            os.execve(candidate, argv, environ)  # noqa: S606 - without a shell is what is wanted
        except (FileNotFoundError, NotADirectoryError) as error:
            fault = fault or error
        except OSError as error:
            fault = error
    raise fault if fault is not None else FileNotFoundError(2, "")
