"""The lock that allows one kernel per app root, and the record of its holder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from flycore.catalog.reasons import state_unwritable
from flycore.model.base import Value
from flycore.model.enums import KernelRole
from flycore.model.errors import RootBusy
from flycore.registry.lock_record import is_socket_path, read_lock_record
from flycore.registry.paths import CONSOLE_LOCK, KERNEL_LOCK, START_LOCK, RootPaths
from flysafe.atomic import private_folder
from flysafe.procfs import read_process


class LockHolder(Value, frozen=True, kw_only=True):
    """The record that the holder writes to the lock file."""

    pid: int
    since: float
    """Unix time, seconds."""
    role: KernelRole
    on_demand: bool = False
    """Whether a command started the kernel: it ends when nobody uses it, and gives way to a console."""
    started: int | None = None
    """Start of the process in clock ticks since boot, as /proc tells it; with `pid` it names one process."""
    socket: str = ""
    """Path of the socket on which the holder serves, or will serve."""
    app_root: str = ""
    """The root's path. Whoever reads it compares its key with the folder's; empty where the path has bytes
    that are not UTF-8."""


def lock_path(places: RootPaths) -> Path:
    """Return the path of the root's lock file."""
    return places.state_dir / KERNEL_LOCK


def _reservation_path(places: RootPaths) -> Path:
    return places.state_dir / CONSOLE_LOCK


def read_holder(places: RootPaths) -> LockHolder | None:
    """Read the holder from the lock file; None if it is empty or cannot be read.

    This does not say whether the root is locked: a killed holder leaves its record. A file that another user
    owns or may write is not read.
    """
    record = read_lock_record(lock_path(places))
    try:
        return None if record is None else msgspec.json.decode(record, type=LockHolder)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def kernel_socket(places: RootPaths) -> Path:
    """Return the socket of the kernel that holds the root, as its lock names it.

    The environment of this process may lead to another place than that of the kernel, so `places.socket`
    is only the answer where the lock names none. Whoever connects checks the owner of the folder and of the
    process that answers.
    """
    holder = read_holder(places)
    return Path(holder.socket) if holder is not None and is_socket_path(holder.socket) else places.socket


def living_holder(places: RootPaths) -> LockHolder | None:
    """Read the holder from the lock file, where its process lives; None where no process holds the root."""
    # The lock itself is not tried: for that moment it would keep others away.
    holder = read_holder(places)
    process = read_process(holder.pid) if holder is not None else None
    if holder is None or process is None or process.ended:
        return None
    # A process that was started after the record has only the number of the holder.
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / os.sysconf("SC_CLK_TCK")
    return holder if time.time() - age <= holder.since + 1.0 else None


class RootLock:
    """An exclusive `flock` on `kernel.lock`.

    The operating system releases it when the holder dies, so a leftover file locks nobody out.
    """

    @staticmethod
    @contextmanager
    def acquire(places: RootPaths, role: KernelRole, *, on_demand: bool = False) -> Iterator[LockHolder]:
        """Hold the root while the block runs. Raises RootBusy with the holder's pid, start and role, and
        StateUnwritable if the state folder cannot be written.

        For a kernel that a command starts, the root is also busy while a console waits for it.
        """
        fd = open_lock(places)
        try:
            # The reservation is read once the lock is held: a console that reserves later finds this kernel
            # on the root and asks it to yield.
            if not _lock_root(places, fd) or (on_demand and is_reserved(places)):
                other = read_holder(places) or LockHolder(pid=0, since=0.0, role=KernelRole.UNKNOWN)
                raise RootBusy(other.pid, other.since, other.role, other.on_demand)
            process = read_process(os.getpid())
            holder = LockHolder(
                pid=os.getpid(),
                since=time.time(),
                role=role,
                on_demand=on_demand,
                started=None if process is None else process.started,
                socket=str(places.socket),
                app_root=_as_text(places.app_root),
            )
            os.ftruncate(fd, 0)
            os.pwrite(fd, msgspec.json.encode(holder), 0)
            try:
                yield holder
            finally:  # also after a signal: a client tries to reach the holder that it finds here
                os.ftruncate(fd, 0)
        finally:
            os.close(fd)  # releases the lock; the file stays, as a new one would be another lock


def _lock_root(places: RootPaths, fd: int) -> bool:
    """Lock the root until the descriptor is closed; False if another process has it.

    Raises StateUnwritable if its file system has no locks.
    """
    try:
        return _try_lock(fd)
    except OSError as error:
        unwritable = state_unwritable(str(places.state_dir), error)
        if unwritable is None:
            raise
        raise unwritable from error


def open_lock(places: RootPaths) -> int:
    """Open the root's lock file and return its descriptor. Raises StateUnwritable if the state folder cannot
    be written."""
    try:
        private_folder(places.state_dir)
        return _open(lock_path(places))
    except OSError as error:
        unwritable = state_unwritable(str(places.state_dir), error)
        if unwritable is None:
            raise
        raise unwritable from error


@contextmanager
def start_turn(places: RootPaths) -> Iterator[bool]:
    """Give whether it is this process's turn to start a kernel on demand, until the block ends.

    Of many commands that find no kernel, one starts it and the others wait for that one. Raises
    StateUnwritable.
    """
    os.close(open_lock(places))
    fd = _open(places.state_dir / START_LOCK)
    try:
        yield _try_lock(fd)
    finally:
        os.close(fd)


def record_role(places: RootPaths, holder: LockHolder, role: KernelRole) -> LockHolder:
    """Record another role of the holder, which is this process, and return the new record."""
    changed = msgspec.structs.replace(holder, role=role)
    fd = _open(lock_path(places))
    try:
        # Spaces keep the length: a reader that comes between two writes would see a record that is cut off.
        record = msgspec.json.encode(changed).ljust(os.fstat(fd).st_size)
        os.pwrite(fd, record, 0)
    finally:
        os.close(fd)
    return changed


@contextmanager
def reserve_for_console(places: RootPaths) -> Iterator[None]:
    """Keep kernels on demand away from the root while a console or `flytui serve` waits for it."""
    private_folder(places.state_dir)
    fd = _open(_reservation_path(places))
    try:
        _try_lock(fd)  # its failure means that another console waits, which keeps them away as well
        yield
    finally:
        os.close(fd)


def is_reserved(places: RootPaths) -> bool:
    """Return whether a console or `flytui serve` waits for the root."""
    fd = _open(_reservation_path(places))
    try:
        return not _try_lock(fd)
    finally:
        os.close(fd)


def _as_text(path: Path) -> str:
    """The path as it can stand in JSON; empty where it cannot."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        return ""
    return str(path)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _try_lock(fd: int) -> bool:
    """Lock the open file until it is closed; False if another process has it locked."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
