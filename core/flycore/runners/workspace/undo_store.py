"""What the files were before each change, kept for some days so that a person can undo it.

There is one file for each call, readable by this user alone. It is written before the change, so that a
change that a crash cut short can be undone as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from flycore.model.base import Value
from flycore.runners.workspace.project_files import PathRefused, Project, anchor_of, failure_text, shown
from flycore.runners.workspace.text_changes import MOST_FILE_BYTES
from flycore.runners.workspace.write_files import (
    FileDiffers,
    FileState,
    Replacement,
    RestoreFailed,
    read_state,
    remove_folder,
    replace_files,
)
from flysafe.atomic import private_folder, write_atomic
from flysafe.beneath import read_beneath

KEPT_DAYS = 7
MOST_KEPT_BYTES = 256 * 1024 * 1024
MOST_KEPT = 2_000
"""How many changes of a root are kept, the latest ones."""
SHORTEST = 6
"""Characters of an id that are enough to name its call."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_ENDING = ".undo"
_MOST_RECORD = 2 * 64 * 1024 * 1024
NOTHING_KEPT = (
    "there is nothing to undo: the call changed no file, was undone already, or is older than "
    f"{KEPT_DAYS} days"
)


class UndoFile(Value, frozen=True):
    """One file of a change: its state before, and what the change left."""

    path: str
    before: FileState
    after_sha256: str
    """Empty where the change deleted the file."""
    after_mode: int


class UndoRecord(Value, frozen=True):
    """The change of one call."""

    call_id: str
    tool: str
    at: float
    """Unix time in seconds."""
    files: tuple[UndoFile, ...]
    folders: tuple[str, ...] = ()
    """Folders that were made for the files."""


class UndoRefused(Exception):
    """The change is not undone; the message says why, and every file is as it was."""


class UndoStore:
    """The changes of one root that can be undone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, record: UndoRecord) -> None:
        """Keep the record, on disk when this returns. Raises OSError."""
        private_folder(self._folder)
        data = msgspec.msgpack.encode(record)
        self._make_room(len(data))
        write_atomic(self._path(record.call_id), data, 0o600)

    def load(self, call_id: str) -> UndoRecord | None:
        """Return the record of a call; None where there is none, or it cannot be read.

        The beginning or the end of the id is enough, from six characters on, where only one call has it.
        """
        if not _NAME.match(call_id):
            return None
        names = [path.stem for path, _ in self._records()]
        if call_id not in names and len(call_id) >= SHORTEST:
            fits = [name for name in names if name.startswith(call_id) or name.endswith(call_id)]
            call_id = fits[0] if len(fits) == 1 else call_id
        try:
            data = read_beneath(self._folder, f"{call_id}{_ENDING}", _MOST_RECORD)
            return msgspec.msgpack.decode(data, type=UndoRecord)
        except (OSError, msgspec.MsgspecError):
            return None

    def drop(self, call_id: str) -> None:
        """Forget the record of a call."""
        with contextlib.suppress(FileNotFoundError):
            self._path(call_id).unlink()

    def remove_expired(self, now: float) -> int:
        """Remove the records older than `KEPT_DAYS` and return how many. `now` is Unix time in seconds."""
        oldest = now - KEPT_DAYS * 86_400
        expired = [path for path, about in self._records() if about.st_mtime < oldest]
        for path in expired:
            with contextlib.suppress(OSError):
                path.unlink()
        return len(expired)

    def _path(self, call_id: str) -> Path:
        if not _NAME.match(call_id):
            raise ValueError("not the id of a call")
        return self._folder / f"{call_id}{_ENDING}"

    def _records(self) -> Iterator[tuple[Path, os.stat_result]]:
        try:
            paths = [path for path in self._folder.iterdir() if path.name.endswith(_ENDING)]
        except OSError:
            return
        for path in paths:
            with contextlib.suppress(OSError):
                about = path.lstat()
                if stat.S_ISREG(about.st_mode):
                    yield path, about

    def _make_room(self, coming: int) -> None:
        """Remove the oldest records until the new one has room."""
        kept = sorted(self._records(), key=lambda item: item[1].st_mtime_ns)
        size, count = coming + sum(about.st_size for _, about in kept), len(kept) + 1
        for path, about in kept:
            if size <= MOST_KEPT_BYTES and count <= MOST_KEPT:
                return
            with contextlib.suppress(OSError):
                path.unlink()
            size, count = size - about.st_size, count - 1


class Undo(Value, frozen=True):
    """An undo that is possible now: what each file is, and what it becomes."""

    record: UndoRecord
    replacements: tuple[Replacement, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, as they are shown."""
        return tuple(shown(item.path) for item in self.replacements)


def plan_undo(project: Project, record: UndoRecord) -> Undo:
    """Return how to undo a change. Raises UndoRefused where a file is not what the call left."""
    replacements: list[Replacement] = []
    with anchor_of(project) as anchor:
        for file in record.files:
            try:
                now = read_state(anchor, file.path, MOST_FILE_BYTES)
            except OSError as error:
                raise UndoRefused(failure_text(error, shown(file.path))) from error
            if now.data == file.before.data and (now.data is None or now.mode == file.before.mode):
                # A change that was cut short has left this file as it was.
                continue
            if not _is_left(now, file):
                raise UndoRefused(f"{shown(file.path)} is not what the call left: it was changed since")
            replacements.append(Replacement(file.path, now, file.before))
    return Undo(record, tuple(replacements))


def _is_left(now: FileState, file: UndoFile) -> bool:
    if now.data is None or not file.after_sha256:
        return now.data is None and not file.after_sha256
    return hashlib.sha256(now.data).hexdigest() == file.after_sha256 and now.mode == file.after_mode


def carry_out(project: Project, undo: Undo) -> None:
    """Restore the files. Raises UndoRefused; then every file is as it was, or the message says which is
    not."""
    try:
        replace_files(project, undo.replacements, lambda _: None)
    except (FileDiffers, PathRefused, RestoreFailed) as error:
        raise UndoRefused(str(error)) from error
    except OSError as error:
        raise UndoRefused(f"a file could not be written: {error.strerror or error}") from error
    with anchor_of(project) as anchor:
        for path in reversed(undo.record.folders):
            remove_folder(anchor, path)
