"""Landlock, by which an unprivileged process gives up rights over files and TCP: level `degraded`.

The structures and numbers are those of `linux/landlock.h`; what each version (ABI) can do is told in the
kernel's `Documentation/userspace-api/landlock.rst`. This file says what a program gives up and what it keeps,
and `restriction_program` does it. The calls are made by ctypes, because the packages that offer them are too
young to rest a boundary on.
"""

from __future__ import annotations

import ctypes

import msgspec

_CREATE_RULESET = 444  # the same on every architecture
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
"""The rights that a rule about a single file may name; the others are about what lies in a folder."""
_SINCE = ((1, (1 << 13) - 1), (2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV))
"""The version of each right over files: the first thirteen from the beginning."""
_ALL_TCP = 0b11  # LANDLOCK_ACCESS_NET_BIND_TCP and CONNECT_TCP, from version 4
WITH_SCOPES = 6
"""The version from which on a program can be kept from signals to others and from abstract sockets."""
_ALL_SCOPES = 0b11  # LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET and SIGNAL


class Rights(msgspec.Struct, frozen=True):
    """The bits of what a ruleset takes away, before its rules give some of it back."""

    files: int
    network: int
    scopes: int


def version() -> int:
    """Return the version of Landlock that this kernel has; 0 where it has none or it is switched off."""
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    return max(0, int(syscall(_CREATE_RULESET, None, 0, _VERSION)))


def handled_rights(abi: int, *, network: bool) -> Rights:
    """Return what a program gives up on a kernel with this version. With `network` it keeps TCP."""
    files = 0
    for since, bits in _SINCE:
        if abi >= since:
            files |= bits
    return Rights(
        files, _ALL_TCP if abi >= 4 and not network else 0, _ALL_SCOPES if abi >= WITH_SCOPES else 0
    )


def mount_rights(handled: int, *, writable: bool) -> int:
    """Return the rights that a rule gives back for one mount. For a single file only those `ON_FILES`
    count."""
    return handled if writable else handled & _READ
