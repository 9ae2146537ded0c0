"""One kernel per app root: the lock, and who holds it."""

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
"""Roles that keep the root until their person ends them; consoles attach to them."""


class LockHolder(Value, frozen=True, kw_only=True):
    """What the holder wrote into the lock file."""

    pid: int
    since: float
    """Unix time, seconds."""
    role: KernelRole


def lock_path(places: RootPaths) -> Path:
    """Where the lock of that root lies."""
    return places.state_dir / KERNEL_LOCK


def _reservation_path(places: RootPaths) -> Path:
    return places.state_dir / CONSOLE_LOCK


def read_holder(places: RootPaths) -> LockHolder | None:
    """Who wrote the lock file last; None where nobody did or it cannot be read."""
    try:
        data = lock_path(places).read_bytes()[:4096]
        return msgspec.json.decode(data, type=LockHolder)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None


class RootLock:
    """An exclusive `flock` on `kernel.lock`; the kernel of the operating system lets go of it when
    the holder dies, so a stale file locks nobody out."""

    @staticmethod
    @contextmanager
    def acquire(places: RootPaths, role: KernelRole) -> Iterator[LockHolder]:
        """Hold the root. Raises RootBusy with the holder's pid, start and role; a provisional kernel also
        finds it busy while a console waits for it."""
        private_folder(places.state_dir)
        fd = _open(lock_path(places))
        try:
            if not _try_lock(fd) or (role == KernelRole.PROVISIONAL and _is_reserved(places)):
                other = read_holder(places) or LockHolder(pid=0, since=0.0, role=KernelRole.UNKNOWN)
                raise RootBusy(other.pid, other.since, other.role)
            holder = LockHolder(pid=os.getpid(), since=time.time(), role=role)
            os.ftruncate(fd, 0)
            os.pwrite(fd, msgspec.json.encode(holder), 0)
            yield holder
            os.ftruncate(fd, 0)
        finally:
            os.close(fd)


@contextmanager
def reserve_for_console(places: RootPaths) -> Iterator[None]:
    """Around the waiting of a console, or of `flytui serve`: no provisional kernel takes the root in
    between, however many come."""
    private_folder(places.state_dir)
    fd = _open(_reservation_path(places))
    try:
        _try_lock(fd)  # where another console waits already, that is enough
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
    """Lock the open file for as long as it is open; False where somebody else has."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
