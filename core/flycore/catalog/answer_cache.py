"""A cache of what programs answered, in a file that several kernels share.

It only saves process starts: a file that is absent, broken or of another version counts as empty, and answers
that cannot be written stay in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from flysafe.atomic import private_folder, write_atomic

A = TypeVar("A")


class CacheFile(msgspec.Struct, Generic[A], frozen=True):
    """The content of a cache's file."""

    version: int
    answers: dict[str, A]


class AnswerCache(Generic[A]):
    """The answers by key, at most `kept` of them. Where `path` is None, they are in memory only."""

    def __init__(
        self, path: Path | None, kind: type[CacheFile[A]], *, version: int, kept: int, largest: int
    ) -> None:
        """`kind` is the type of the file, and `largest` the bytes that it may have."""
        self._path = path
        self._version, self._kept, self._largest = version, kept, largest
        self._answers: dict[str, A] = self._read(path, kind) if path else {}
        self._written = dict(self._answers)

    def get(self, key: str) -> A | None:
        """Return the answer under that key; None where there is none."""
        return self._answers.get(key)

    def put(self, key: str, answer: A) -> None:
        """Keep an answer in memory; `save` writes it to the file. The oldest make room for it."""
        self._answers.pop(key, None)
        self._answers[key] = answer
        while len(self._answers) > self._kept:
            del self._answers[next(iter(self._answers))]

    def save(self) -> bool:
        """Write the answers if they have changed. Returns whether the file now holds them."""
        if self._path is None or self._answers == self._written:
            return self._path is not None
        data = msgspec.json.encode(CacheFile(version=self._version, answers=self._answers))
        if len(data) > self._largest:
            return False
        try:
            private_folder(self._path.parent)
            write_atomic(self._path, data)
        except OSError:
            return False
        self._written = dict(self._answers)
        return True

    def _read(self, path: Path, kind: type[CacheFile[A]]) -> dict[str, A]:
        try:
            with path.open("rb") as file:
                data = file.read(self._largest + 1)
            kept = msgspec.json.decode(data, type=kind) if len(data) <= self._largest else None
        except (OSError, msgspec.DecodeError):
            return {}
        return kept.answers if kept is not None and kept.version == self._version else {}
