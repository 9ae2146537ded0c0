"""What a child of the launcher does between its fork and its program (`launcher_program`): it answers,
prepares itself by its request, and executes the program.

The launcher loads this file by its path, once, with the standard library only. It is run in the child alone:
requests hold secrets, and no later child may have them in its memory.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import marshal
import os
import resource
import signal
import struct

TYPE_CHECKING = False
"""As in `typing`, which takes as long to import as all of the launcher's start."""
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ANSWER = struct.Struct("=q")
"""As in `launcher_program`."""
_PR_SET_CHILD_SUBREAPER = 36


def become(received: list[int], load: Callable[[str], ModuleType]) -> None:
    """Answer, prepare, and execute the program. Does not return."""
    stdin, stdout, stderr, answer, request, *further = received
    try:
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(ignored, signal.SIG_DFL)
        # First: from the answer on the kernel knows it as the leader of its session.
        os.setsid()
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        os.write(answer, ANSWER.pack(os.getpid()))
        # The kernel itself wrote it.
        order = marshal.loads(os.pread(request, os.fstat(request).st_size, 0))  # noqa: S302
        candidates, argv, environ, cwd, numbers, limits, restricted, grouped = order
        os.chdir(cwd)
        # Far from 0 to 2 first: one of these numbers may be a descriptor that was received.
        for target, number in enumerate([os.dup(number) for number in (stdin, stdout, stderr)]):
            os.dup2(number, target)
        if grouped:
            os.write(further.pop(), b"0")
        answer = _hand_over(further, numbers, answer)
        for module, restriction in restricted:
            # An exception that is none of the system's ends this process before it executes anything.
            load(os.fsdecode(module)).restrict(restriction)
        # Last, because this process, too, is subject to them from here on.
        for kind, soft, hard in limits:
            resource.setrlimit(kind, (soft, hard))
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
