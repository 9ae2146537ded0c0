"""Landlock, by which an unprivileged process gives up rights over files and TCP: level `degraded`.

The structures and numbers are those of `linux/landlock.h`; what each version (ABI) can do is told in the
kernel's `Documentation/userspace-api/landlock.rst`. The calls are made by ctypes, because the packages that
offer them are too young to rest a boundary on.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from flycore.sandbox.confinement import Mount

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PATH_BENEATH = 1  # LANDLOCK_RULE_PATH_BENEATH
_NO_NEW_PRIVS = 38  # PR_SET_NO_NEW_PRIVS

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
"""The rights that a rule about a single file may name; the others are about what lies in a folder."""
_SINCE = ((1, (1 << 13) - 1), (2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV))
"""The version of each right over files: the first thirteen from the beginning."""
_ALL_TCP = 0b11  # LANDLOCK_ACCESS_NET_BIND_TCP and CONNECT_TCP, from version 4
WITH_SCOPES = 6
"""The version from which on a program can be kept from signals to others and from abstract sockets."""
_ALL_SCOPES = 0b11  # LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET and SIGNAL


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("parent", ctypes.c_int32))


@dataclass(frozen=True, slots=True)
class Rights:
    """The bits of what a ruleset takes away, before its rules give some of it back."""

    files: int
    network: int
    scopes: int


def version() -> int:
    """Return the version of Landlock that this kernel has; 0 where it has none or it is switched off."""
    answer = _syscall()(_CREATE_RULESET, None, 0, _VERSION)
    return max(0, int(answer))


def handled_rights(abi: int, *, network: bool) -> Rights:
    """Return what a program gives up on a kernel with this version. With `network` it keeps TCP."""
    files = 0
    for since, bits in _SINCE:
        if abi >= since:
            files |= bits
    return Rights(
        files, _ALL_TCP if abi >= 4 and not network else 0, _ALL_SCOPES if abi >= WITH_SCOPES else 0
    )


def mount_rights(handled: int, *, writable: bool, folder: bool) -> int:
    """Return the rights that a rule gives back for one mount."""
    rights = handled if writable else handled & _READ
    return rights if folder else rights & _ON_FILES


def restrict_this_process(mounts: Iterable[Mount], *, network: bool) -> None:
    """Give up everything but the mounts, for this process and all that it starts. There is no way back.

    Raises OSError where Landlock is missing or refuses; a path that does not exist is left out.
    """
    syscall = _syscall()
    abi = version()
    rights = handled_rights(abi, network=network)
    asked = _Ruleset(rights.files, rights.network, rights.scopes)
    # A kernel that knows fewer fields refuses a structure in which the further ones are not zero, and takes
    # the size of the structure as the version that the program was written for.
    ruleset = _checked(syscall(_CREATE_RULESET, ctypes.byref(asked), ctypes.sizeof(asked), 0))
    try:
        for mount in mounts:
            _add(syscall, ruleset, mount, rights.files)
        libc = ctypes.CDLL(None, use_errno=True)
        _checked(libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _add(syscall: ctypes._NamedFuncPointer, ruleset: int, mount: Mount, handled: int) -> None:
    try:
        parent = os.open(mount.path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        folder = stat.S_ISDIR(os.fstat(parent).st_mode)
        rule = _PathRule(mount_rights(handled, writable=mount.writable, folder=folder), parent)
        _checked(syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(parent)


def _syscall() -> ctypes._NamedFuncPointer:
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    return syscall


def _checked(answer: int) -> int:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer
