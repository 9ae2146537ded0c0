"""The program of the launcher: a small process that starts the children of a kernel.

It is run by its path, with the standard library only, and imports nothing of this distribution. Each child
becomes a child subreaper before it executes its program: that setting survives `execve`, and whatever the
program starts and leaves, in however many forks and sessions, becomes a child of that program and not of the
kernel. Only when the program itself has exited do its orphans become children of the kernel.

The child is not a child of this process either. A process in between starts it and exits, so that it becomes
a child of the kernel, the nearest subreaper above: the kernel waits for it as for any child of its own.

One request is one message on the socket with the descriptors of the child's stdin, stdout and stderr, of a
pipe for the answer, and of a file with the request. The answer is the child's id, 8 bytes, and after it the
error number, 8 bytes, where the child could not be started; the end of the pipe says that it was started.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import signal
import socket
import struct
import sys
import time

ANSWER = struct.Struct("=q")
DESCRIPTORS = 5
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_PAUSE_S = 0.0002


def main(descriptor: int) -> None:
    """Serve requests until the kernel closes its end of the socket, or is gone."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    # A group of its own: what a terminal sends to the kernel's group is not for this process.
    os.setpgid(0, 0)
    # Requests hold secrets, and no other process of the user may read them here.
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    # A child with this socket could have others started. It was inheritable for this program's own start.
    os.set_inheritable(descriptor, False)
    with socket.socket(fileno=descriptor) as control:
        while True:
            message, received, _, _ = socket.recv_fds(control, 1, DESCRIPTORS)
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
    stdin, stdout, stderr, answer, request = received
    try:
        os.write(answer, ANSWER.pack(os.getpid()))
        data = os.pread(request, os.fstat(request).st_size, 0)
        candidates, argv, environ, cwd = marshal.loads(data)  # noqa: S302 - the kernel itself wrote it
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
        _execute(candidates, argv, environ)
    except OSError as error:
        os.write(answer, ANSWER.pack(error.errno or 0))
    finally:
        os._exit(127)


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
