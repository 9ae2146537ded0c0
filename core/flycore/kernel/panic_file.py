"""The file of the emergency stop: while it is there, no call of the root runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from flycore.model.base import Value
from flycore.registry.paths import PANIC_FILE
from flycore.store.json_store import Store

MOST_BYTES = 65_536


class PanicRecord(Value, frozen=True, kw_only=True):
    """The record of an emergency stop."""

    at: float
    """Unix time, seconds."""
    by: str


def read_panic(state_dir: Path) -> PanicRecord | None:
    """Read the file; None if there is none. A file that cannot be read or parsed counts as a stop."""
    store = _store(state_dir)
    if store.why_unread:
        return PanicRecord(at=0.0, by=f"{PANIC_FILE}, which cannot be read: {store.why_unread}")
    return store.value


def write_panic(state_dir: Path, stopped: PanicRecord) -> None:
    """Write the record and sync it to disk. Raises OSError."""
    _store(state_dir).write(stopped)


def clear_panic(state_dir: Path) -> None:
    """Remove the file, so that calls run again. Raises OSError."""
    with suppress(FileNotFoundError):
        (state_dir / PANIC_FILE).unlink()


def _store(state_dir: Path) -> Store[PanicRecord | None]:
    return Store[PanicRecord | None](state_dir / PANIC_FILE, PanicRecord, None, MOST_BYTES)
