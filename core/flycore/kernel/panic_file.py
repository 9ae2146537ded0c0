"""The file of the emergency stop: while it is there, no call of the root runs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from flycore.model.base import Value
from flycore.registry.paths import PANIC_FILE
from flysafe.atomic import write_atomic

MOST_BYTES = 65_536


class PanicRecord(Value, frozen=True, kw_only=True):
    """The record of an emergency stop."""

    at: float
    """Unix time, seconds."""
    by: str


def read_panic(state_dir: Path) -> PanicRecord | None:
    """Read the file; None if there is none. A file that cannot be read or parsed counts as a stop."""
    # NONBLOCK: a named pipe in place of the file must not hang the start of a kernel.
    try:
        fd = os.open(state_dir / PANIC_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        return PanicRecord(at=0.0, by=f"{PANIC_FILE}, which cannot be read: {error.strerror}")
    try:
        return msgspec.json.decode(os.read(fd, MOST_BYTES), type=PanicRecord)
    except OSError as error:
        return PanicRecord(at=0.0, by=f"{PANIC_FILE}, which cannot be read: {error.strerror}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return PanicRecord(at=0.0, by=f"{PANIC_FILE}, which is not valid")
    finally:
        os.close(fd)


def write_panic(state_dir: Path, stopped: PanicRecord) -> None:
    """Write the record and sync it to disk. Raises OSError."""
    write_atomic(state_dir / PANIC_FILE, msgspec.json.encode(stopped))


def clear_panic(state_dir: Path) -> None:
    """Remove the file, so that calls run again. Raises OSError."""
    with suppress(FileNotFoundError):
        (state_dir / PANIC_FILE).unlink()
