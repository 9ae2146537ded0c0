"""The start of an observed program: a filter of system calls whose calls wait for the observer.

The filter has to be in force before the program runs, and before what confines it: it is put in force by the
process that becomes the program, or the command that confines it. The launcher's child calls `restrict`. For
a command that is started directly this file is run as a program, which becomes the command:
`python -I -S observed_start.py ORDER COMMAND…`, where ORDER is in hexadecimal digits. The structures and
numbers are those of `linux/seccomp.h`.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import struct
import sys

# Not from `socket`, nor anything from `signal`: to import both takes half as long as Python's start.
from _socket import MSG_NOSIGNAL, SCM_RIGHTS, SOL_SOCKET, socket

NOT_STARTED = 125
"""The exit code if the filter could not be put in force, or the command not be executed."""
_SET_NO_NEW_PRIVS, _SET_MODE_FILTER = 38, 1
_NEW_LISTENER, _WAIT_KILLABLE = 8, 32
_SIGPIPE, _SIGXFSZ = 13, 25


def restrict(order: bytes) -> None:
    """Put the filter in force for this process and all that it starts, and send its listener over the
    channel. Raises OSError."""
    # The kernel of flytui wrote it.
    channel, number, program = marshal.loads(order)  # noqa: S302
    libc = ctypes.CDLL(None, use_errno=True)
    steps = ctypes.create_string_buffer(program, len(program))

    class Filter(ctypes.Structure):  # struct sock_fprog
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    asked = Filter(len(program) // 8, ctypes.addressof(steps))
    listener = -1
    sender = socket(fileno=channel)
    try:
        if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
            # A signal must not make a call wait twice; kernels before 5.19 do not know that flag.
            for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
                listener = libc.syscall(number, _SET_MODE_FILTER, flags, ctypes.byref(asked))
                if listener >= 0:
                    break
        if listener < 0:
            raise OSError(errno.ENOTRECOVERABLE, "no system call can be observed")
        sender.sendmsg([b"+"], [(SOL_SOCKET, SCM_RIGHTS, struct.pack("=i", listener))], MSG_NOSIGNAL)
    finally:
        sender.close()
    os.close(listener)


def main(order: str, command: list[str]) -> int:
    """Put the filter in force and become the command; returns only if that has failed."""
    for ignored in (_SIGPIPE, _SIGXFSZ):  # Python ignores them
        ctypes.CDLL(None).signal(ignored, None)  # SIG_DFL
    # Python sets it if there is no language.
    environment = {name: value for name, value in os.environ.items() if name != "LC_CTYPE"}
    try:
        restrict(bytes.fromhex(order))
        os.execve(command[0], command, environment)  # noqa: S606 - without a shell is what is wanted
    except OSError as error:
        sys.stderr.write(f"the program could not be observed: {error}\n")
    return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
