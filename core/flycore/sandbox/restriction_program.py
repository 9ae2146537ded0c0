"""The steps by which a process gives up its rights before it executes a program: level `degraded`.

The kernel's launcher loads this file by its path, with the standard library only, and each child calls
`restrict` between its fork and its `execve`. A trial, which belongs to no call, runs the file as a program:
`python -I -S restriction_program.py FD`, where FD is a file with the order and the command.

The values of the order are worked out in `launch`, so that nothing is decided here. The structures and
numbers are those of `linux/landlock.h`, `linux/capability.h` and `linux/filter.h`.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import stat
import sys

NOT_CONFINED = 125
"""The exit code of a trial where a right could not be given up. Then the program has not run."""
CONFINED = b'{"confined": true}\n'
"""What is reported once all rights are given up, right before the program is executed."""
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_PATH_BENEATH = 1  # LANDLOCK_RULE_PATH_BENEATH
_DROP_FROM_BOUNDING_SET, _SET_NO_NEW_PRIVS, _SET_SECCOMP, _MODE_FILTER = 24, 38, 22, 2  # of prctl
_MOST_CAPABILITIES = 64
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_INSTRUCTION_BYTES = 8


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Filter(ctypes.Structure):  # struct sock_fprog
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def restrict(order: bytes) -> None:
    """Give up every capability, all files but the granted ones, and the system calls that the filter refuses,
    for this process and all that it starts; then report it. There is no way back.

    Raises OSError where one of the steps fails. The caller must then execute nothing.
    """
    # The kernel of flytui wrote it.
    ruleset, on_files, paths, opened, steps, status = marshal.loads(order)  # noqa: S302
    for number in (status, *(number for number, _ in opened)):
        os.set_inheritable(number, False)  # the program gets none of them
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    _drop_capabilities(libc)
    # Both of the following need it of a process without capabilities, and nothing that runs gains rights.
    _checked(libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _give_up_files(libc, _Ruleset(*ruleset), on_files, paths, opened)
    # Last, because until here nothing is needed that it refuses, and it judges everything afterwards.
    _install_filter(libc, steps)
    os.write(status, CONFINED)


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    # Landlock does not stand in the way of a capability: with CAP_PERFMON a process reads the environment of
    # any other (`may_access_mm` in the kernel's `kernel/fork.c`, since Linux 6.14).
    for capability in range(_MOST_CAPABILITIES):
        if libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0) < 0:
            # EPERM: an ordinary user, who has none to drop. EINVAL: the kernel knows no further ones.
            if ctypes.get_errno() not in (errno.EPERM, errno.EINVAL):
                _checked(-1)
            break
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    empty = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice 32 bits each
    _checked(libc.capset(ctypes.byref(header), ctypes.byref(empty)))


def _give_up_files(
    libc: ctypes.CDLL,
    asked: _Ruleset,
    on_files: int,
    paths: list[tuple[bytes, int]],
    opened: list[tuple[int, int]],
) -> None:
    """Give up all files and TCP but what a path or an open descriptor is given back, by Landlock."""
    # A kernel that knows fewer fields refuses a structure in which the further ones are not zero, and takes
    # the size of the structure as the version that the program was written for.
    ruleset = _checked(libc.syscall(_CREATE_RULESET, ctypes.byref(asked), ctypes.sizeof(asked), 0))
    try:
        for number, rights in opened:
            _allow(libc, ruleset, number, rights, on_files)
        for path, rights in paths:
            try:
                number = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                _allow(libc, ruleset, number, rights, on_files)
            finally:
                os.close(number)
        _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, number: int, rights: int, on_files: int) -> None:
    # A rule about a single file may not name the rights over what lies in a folder.
    folder = stat.S_ISDIR(os.fstat(number).st_mode)
    rule = _PathRule(rights if folder else rights & on_files, number)
    _checked(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))


def _install_filter(libc: ctypes.CDLL, program: bytes) -> None:
    steps = ctypes.create_string_buffer(program, len(program))
    asked = _Filter(len(program) // _INSTRUCTION_BYTES, ctypes.addressof(steps))
    _checked(libc.prctl(_SET_SECCOMP, _MODE_FILTER, ctypes.byref(asked), 0, 0))


def _checked(answer: int) -> int:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def main(descriptor: int) -> int:
    """Give up the rights of this process and become the program; returns only where that failed."""
    with open(descriptor, "rb") as file:
        order, argv, environment, cwd = marshal.load(file)  # noqa: S302
    try:
        os.chdir(cwd)
        restrict(order)
        os.execve(argv[0], argv, environment)  # noqa: S606 - without a shell is what is wanted
    except OSError as error:
        sys.stderr.write(f"the program could not be confined: {error}\n")
    return NOT_CONFINED


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
