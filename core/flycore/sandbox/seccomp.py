"""The system call filter of a confined program, as a seccomp program in classic BPF.

The filter answers with an error number where it refuses, so that a program that only tries a call goes on
without it. What the filter does not name is allowed: it takes away what leads around namespaces, mounts and
Landlock, not what an ordinary program does. The numbers of system calls are those of Linux 6.12
(`arch/x86/entry/syscalls/syscall_64.tbl`, `scripts/syscall.tbl`); the codes are those of `linux/filter.h`
and `linux/seccomp.h`.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache

import msgspec

_LOAD_WORD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_JUMP_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_JUMP_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_ASK_LISTENER = 0x7FC00000  # SECCOMP_RET_USER_NOTIF
_KILL_PROCESS = 0x80000000

# Offsets in `struct seccomp_data`. Arguments have 64 bits, and both machines are little-endian: the word at
# the offset is the lower half, which is all that the kernel reads of an `int` or `unsigned int`.
_NUMBER, _ARCHITECTURE = 0, 4
_FIRST_ARGUMENT, _SECOND_ARGUMENT = 16, 24

_X32_BIT = 0x40000000
"""Numbers from here on are calls of x32, a second way to the same calls that would pass by the list."""

_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME, as `clone` takes them."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""Both push input into a terminal, as if a person had typed it."""

AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10


class Architecture(StrEnum):
    """A machine whose filter can be made, by the name that `uname` has for it."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"


class _Numbers(msgspec.Struct, frozen=True):
    """What differs between architectures: the audit name, and the calls by name."""

    audit: int
    refused: dict[str, int]
    socket: int
    clone: int
    ioctl: int
    has_x32: bool


_SAME_EVERYWHERE = {
    "pidfd_getfd": 438,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "open_tree_attr": 467,
}
_NUMBERS = {
    Architecture.X86_64: _Numbers(
        audit=0xC000003E,
        refused={
            "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
            "bpf": 321, "userfaultfd": 323, "perf_event_open": 298,
            "add_key": 248, "request_key": 249, "keyctl": 250,
            "open_by_handle_at": 304, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161,
            "setns": 308, "unshare": 272, "kexec_load": 246, "kexec_file_load": 320,
            "init_module": 175, "finit_module": 313, "delete_module": 176, "clone3": 435,
            **_SAME_EVERYWHERE,
        },
        socket=41, clone=56, ioctl=16, has_x32=True,
    ),
    Architecture.AARCH64: _Numbers(
        audit=0xC00000B7,
        refused={
            "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
            "bpf": 280, "userfaultfd": 282, "perf_event_open": 241,
            "add_key": 217, "request_key": 218, "keyctl": 219,
            "open_by_handle_at": 265, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51,
            "setns": 268, "unshare": 97, "kexec_load": 104, "kexec_file_load": 294,
            "init_module": 105, "finit_module": 273, "delete_module": 106, "clone3": 435,
            **_SAME_EVERYWHERE,
        },
        socket=198, clone=220, ioctl=29, has_x32=False,
    ),
}  # fmt: skip
_NOT_THERE = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")
"""Calls that answer as on a kernel that lacks them, because libraries then use the older way."""


class Instruction(msgspec.Struct, frozen=True):
    """One instruction of classic BPF: `then` and `otherwise` are how many instructions a jump leaves out."""

    code: int
    value: int
    then: int = 0
    otherwise: int = 0

    def packed(self) -> bytes:
        """Return the instruction as `struct sock_filter`."""
        return struct.pack("<HBBI", self.code, self.then, self.otherwise, self.value)


def address_families(*, network: bool, unix: bool) -> tuple[int, ...]:
    """Return the families of sockets that a program may open.

    `socketpair` is not asked: its two ends belong to the program itself.
    """
    return ((AF_UNIX,) if unix else ()) + ((AF_INET, AF_INET6) if network else ())


def assemble(architecture: Architecture, families: tuple[int, ...]) -> tuple[Instruction, ...]:
    """Return the filter for one architecture, with the families of sockets that may be opened."""
    numbers = _NUMBERS[architecture]
    return (
        Instruction(_LOAD_WORD, _ARCHITECTURE),
        # A call of another architecture has other numbers, so nothing below could judge it.
        Instruction(_JUMP_EQUAL, numbers.audit, then=1),
        Instruction(_RETURN, _KILL_PROCESS),
        Instruction(_LOAD_WORD, _NUMBER),
        *_refuse_x32(numbers),
        *_refuse_calls(numbers),
        *_with_argument(numbers.socket, _FIRST_ARGUMENT, tuple(_only_families(families))),
        *_with_argument(
            numbers.clone,
            _FIRST_ARGUMENT,
            (Instruction(_JUMP_ANY_BIT, _NEW_NAMESPACES, otherwise=1), _error(errno.EPERM)),
        ),
        *_with_argument(
            numbers.ioctl,
            _SECOND_ARGUMENT,
            (
                Instruction(_JUMP_EQUAL, _TIOCSTI, then=1),
                Instruction(_JUMP_EQUAL, _TIOCLINUX, otherwise=1),
                _error(errno.EPERM),
            ),
        ),
        Instruction(_RETURN, _ALLOW),
    )


def assemble_observing(
    architecture: Architecture, calls: Iterable[int], families: tuple[int, ...]
) -> tuple[Instruction, ...]:
    """Return the filter whose `calls`, and sockets of these families, wait for an observer's answer.

    It is put in force outside the filter of `assemble`, whose refusals come first. Calls of another
    architecture are left to that filter.
    """
    numbers = _NUMBERS[architecture]
    notified = (Instruction(_JUMP_EQUAL, number, otherwise=1) for number in sorted(calls))
    refused = (Instruction(_JUMP_EQUAL, family, otherwise=1) for family in families)
    return (
        Instruction(_LOAD_WORD, _ARCHITECTURE),
        Instruction(_JUMP_EQUAL, numbers.audit, then=1),
        Instruction(_RETURN, _ALLOW),
        Instruction(_LOAD_WORD, _NUMBER),
        *(step for jump in notified for step in (jump, _ask())),
        *_with_argument(
            numbers.socket, _FIRST_ARGUMENT, tuple(step for jump in refused for step in (jump, _ask()))
        ),
        Instruction(_RETURN, _ALLOW),
    )


def socket_call(architecture: Architecture) -> int:
    """Return the number of `socket`."""
    return _NUMBERS[architecture].socket


@lru_cache(maxsize=16)
def filter_bytes(architecture: Architecture, families: tuple[int, ...]) -> bytes:
    """Return the filter as the bytes that `bwrap --seccomp` and `prctl` take."""
    return packed(assemble(architecture, families))


def packed(program: Iterable[Instruction]) -> bytes:
    """Return the instructions as the bytes that the kernel takes."""
    return b"".join(instruction.packed() for instruction in program)


def _error(number: int) -> Instruction:
    return Instruction(_RETURN, _ERRNO | number)


def _ask() -> Instruction:
    return Instruction(_RETURN, _ASK_LISTENER)


def _refuse_x32(numbers: _Numbers) -> Iterator[Instruction]:
    if numbers.has_x32:
        yield Instruction(_JUMP_AT_LEAST, _X32_BIT, otherwise=1)
        yield _error(errno.ENOSYS)


def _refuse_calls(numbers: _Numbers) -> Iterator[Instruction]:
    for name, number in sorted(numbers.refused.items(), key=lambda pair: pair[1]):
        yield Instruction(_JUMP_EQUAL, number, otherwise=1)
        yield _error(errno.ENOSYS if name in _NOT_THERE else errno.EPERM)


def _only_families(families: tuple[int, ...]) -> Iterator[Instruction]:
    for left, family in zip(range(len(families) - 1, -1, -1), families, strict=True):
        yield Instruction(_JUMP_EQUAL, family, then=left + 1)  # to the return that follows the refusal
    yield _error(errno.EAFNOSUPPORT)


def _with_argument(number: int, argument: int, checks: tuple[Instruction, ...]) -> Iterator[Instruction]:
    """The checks of one call's argument, left out for every other call.

    The argument takes the place of the number in the accumulator, so the block ends the call: what no check
    refused is allowed.
    """
    yield Instruction(_JUMP_EQUAL, number, otherwise=len(checks) + 2)
    yield Instruction(_LOAD_WORD, argument)
    yield from checks
    yield Instruction(_RETURN, _ALLOW)
