"""The lock that allows one kernel per app root, and the record of its holder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from flycore.model.base import Value
from flycore.model.enums import KernelRole
from flycore.model.errors import RootBusy
from flycore.registry.paths import CONSOLE_LOCK, KERNEL_LOCK, RootPaths
from flysafe.atomic import private_folder

LASTING_ROLES = (KernelRole.CONSOLE, KernelRole.SERVE)
"""The roles that hold the root until a person ends them. Other consoles attach to such a kernel."""


class LockHolder(Value, frozen=True, kw_only=True):
    """The record that the holder writes to the lock file."""

    pid: int
    since: float
    """Unix time, seconds."""
    role: KernelRole


def lock_path(places: RootPaths) -> Path:
    """Return the path of the root's lock file."""
    return places.state_dir / KERNEL_LOCK


def _reservation_path(places: RootPaths) -> Path:
    return places.state_dir / CONSOLE_LOCK


def read_holder(places: RootPaths) -> LockHolder | None:
    """Read the holder from the lock file; None if it is empty or cannot be read.

    This does not say whether the root is locked: a killed holder leaves its record.
    """
    try:
        data = lock_path(places).read_bytes()[:4096]
        return msgspec.json.decode(data, type=LockHolder)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None


class RootLock:
    """An exclusive `flock` on `kernel.lock`.

    The operating system releases it when the holder dies, so a leftover file locks nobody out.
    """

    @staticmethod
    @contextmanager
    def acquire(places: RootPaths, role: KernelRole) -> Iterator[LockHolder]:
        """Hold the root while the block runs. Raises RootBusy with the holder's pid, start and role.

        For a provisional kernel the root is also busy while a console waits for it.
        """
        private_folder(places.state_dir)
        fd = _open(lock_path(places))
        try:
            # The reservation is read once the lock is held: a console that reserves later finds this kernel
            # on the root and asks it to yield.
            if not _try_lock(fd) or (role == KernelRole.PROVISIONAL and _is_reserved(places)):
                other = read_holder(places) or LockHolder(pid=0, since=0.0, role=KernelRole.UNKNOWN)
                raise RootBusy(other.pid, other.since, other.role)
            holder = LockHolder(pid=os.getpid(), since=time.time(), role=role)
            os.ftruncate(fd, 0)
            os.pwrite(fd, msgspec.json.encode(holder), 0)
            yield holder
            os.ftruncate(fd, 0)
        finally:
            os.close(fd)  # releases the lock; the file stays, as a new one would be another lock


@contextmanager
def reserve_for_console(places: RootPaths) -> Iterator[None]:
    """Keep provisional kernels away from the root while a console or `flytui serve` waits for it."""
    private_folder(places.state_dir)
    fd = _open(_reservation_path(places))
    try:
        _try_lock(fd)  # its failure means that another console waits, which keeps them away as well
        yield
    finally:
        os.close(fd)


def _is_reserved(places: RootPaths) -> bool:
    fd = _open(_reservation_path(places))
    try:
        return not _try_lock(fd)
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _try_lock(fd: int) -> bool:
    """Lock the open file until it is closed; False if another process has it locked."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
