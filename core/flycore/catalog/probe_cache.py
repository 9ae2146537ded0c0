"""Probe answers that outlive the process: `<cache dir>/probes.json`, bounded, replaced whole.

A cache is a guess that saves a spawn: a file that is absent, broken or of another version is an empty one,
and one that cannot be written is kept in memory only.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from flycore.catalog.findings import ProbeFinding
from flycore.registry.places import PROBES_FILE
from flysafe.atomic import private_folder, write_atomic

KEPT = 512
"""Answers kept; the oldest go first."""
LARGEST = 4 * 1024 * 1024
VERSION = 1


class _File(msgspec.Struct, frozen=True):
    version: int
    answers: dict[str, ProbeFinding]


class ProbeCache:
    """Answers by key. With `folder` None it lives in memory alone."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._answers = _read(folder / PROBES_FILE) if folder else {}
        self._written = dict(self._answers)

    def get(self, key: str) -> ProbeFinding | None:
        """The answer kept under that key."""
        return self._answers.get(key)

    def put(self, key: str, finding: ProbeFinding) -> None:
        """Keep an answer; `save` writes it down."""
        self._answers.pop(key, None)
        self._answers[key] = finding
        while len(self._answers) > KEPT:
            del self._answers[next(iter(self._answers))]

    def save(self) -> bool:
        """Write what changed since the last time; whether the file now holds what is known."""
        if self._folder is None or self._answers == self._written:
            return self._folder is not None
        data = msgspec.json.encode(_File(version=VERSION, answers=self._answers))
        if len(data) > LARGEST:
            return False
        try:
            private_folder(self._folder)
            write_atomic(self._folder / PROBES_FILE, data)
        except OSError:
            return False
        self._written = dict(self._answers)
        return True


def file_identity(path: str) -> list[int]:
    """Device, inode, size and times of a file in nanoseconds; empty where it cannot be looked at."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return []
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _read(path: Path) -> dict[str, ProbeFinding]:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        kept = msgspec.json.decode(data, type=_File) if len(data) <= LARGEST else _File(0, {})
    except (OSError, msgspec.DecodeError):
        return {}
    return kept.answers if kept.version == VERSION else {}
