"""The program of the launcher: a small process that starts the children of a kernel.

It is run by its path, with the standard library only, and imports nothing of this distribution. Each child
becomes a child subreaper before it executes its program: that setting survives `execve`, and whatever the
program starts and leaves, in however many forks and sessions, becomes a child of that program and not of the
kernel. Only when the program itself has exited do its orphans become children of the kernel.

The child is not a child of this process either. A process in between starts it and exits, so that it becomes
a child of the kernel, the nearest subreaper above: the kernel waits for it as for any child of its own.

One request is one message on the socket with the descriptors of the child's stdin, stdout and stderr, of a
pipe for the answer, of a file with the request, and of what else the child is given. The answer is the
child's id, 8 bytes, and after it the error number, 8 bytes, where the child could not be started; the end of
the pipe says that it was started.

The resource limits are set in the child before its program runs, so that whatever it starts has them, too.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import marshal
import os
import resource
import signal
import socket
import struct
import sys
import time

ANSWER = struct.Struct("=q")
DESCRIPTORS = 5
MOST_DESCRIPTORS = 253
"""SCM_MAX_FD of the kernel's `include/net/scm.h`: how many one message can carry."""
OOM_SCORE_RAISE = 500
"""How much more a child's `oom_score_adj` is than that of the process that it is started for."""
MAX_OOM_SCORE = 1000
"""From proc_pid_oom_score_adj(5)."""
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_PAUSE_S = 0.0002


def main(descriptor: int) -> None:
    """Serve requests until the kernel closes its end of the socket, or is gone."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    # A group of its own: what a terminal sends to the kernel's group is not for this process.
    os.setpgid(0, 0)
    _offer_memory()
    _raise_descriptor_limit()
    # Requests hold secrets, and no other process of the user may read them here.
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    # A child with this socket could have others started. It was inheritable for this program's own start.
    os.set_inheritable(descriptor, False)
    with socket.socket(fileno=descriptor) as control:
        while True:
            message, received, _, _ = socket.recv_fds(control, 1, MOST_DESCRIPTORS)
            if not message:
                return
            # The child must not keep the answer's pipe: its end says that the program was executed. This
            # version of Python does not hand a flag for that to `recvmsg`.
            for number in received:
                os.set_inheritable(number, False)
            between = os.fork()
            if between == 0:
                _start_between(received, prctl)
            for number in received:
                os.close(number)
            os.waitpid(between, 0)


def _offer_memory() -> None:
    """Let the system, where memory runs out, end a child and what it starts rather than the kernel."""
    # A child inherits the value. Raising it needs no privilege, but the file can only be opened as long as
    # this process can be inspected, so it is not left to the children. A system without it needs nothing.
    try:
        with open("/proc/self/oom_score_adj", "r+b", buffering=0) as score:
            own = int(score.read())
            score.write(b"%d" % min(own + OOM_SCORE_RAISE, MAX_OOM_SCORE))
    except OSError:
        return


def _raise_descriptor_limit() -> None:
    """Allow every number that a descriptor of the kernel may have. Each child gets a limit of its own."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _start_between(received: list[int], prctl: object) -> None:
    """In the process between: start the child and exit. Does not return."""
    try:
        between = os.getpid()
        if os.fork() == 0:
            _start_child(received, between, prctl)
    finally:
        os._exit(0)


def _start_child(received: list[int], between: int, prctl: object) -> None:
    """In the child: wait until it belongs to the kernel, then execute its program. Does not return."""
    stdin, stdout, stderr, answer, request, *further = received
    try:
        os.write(answer, ANSWER.pack(os.getpid()))
        data = os.pread(request, os.fstat(request).st_size, 0)
        # The kernel itself wrote it.
        candidates, argv, environ, cwd, numbers, limits = marshal.loads(data)  # noqa: S302
        while os.getppid() == between:
            time.sleep(_PAUSE_S)
        os.setsid()
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # type: ignore[operator]  # a function of ctypes
        for ignored in _CHANGED_BY_PYTHON:
            signal.signal(ignored, signal.SIG_DFL)
        os.chdir(cwd)
        # Far from 0 to 2 first: one of these numbers may be a descriptor that was received.
        for target, number in enumerate([os.dup(number) for number in (stdin, stdout, stderr)]):
            os.dup2(number, target)
        answer = _hand_over(further, numbers, answer)
        # Last, because this process, too, is subject to them from here on.
        _limit(limits)
        _execute(candidates, argv, environ)
    except OSError as error:
        os.write(answer, ANSWER.pack(error.errno or 0))
    except MemoryError:
        os.write(answer, ANSWER.pack(errno.ENOMEM))
    finally:
        os._exit(127)


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


if __name__ == "__main__":
    main(int(sys.argv[1]))
