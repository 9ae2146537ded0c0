"""A cache of what programs answered, in a file that several kernels share.

It only saves process starts: a file that is absent, broken or of another version counts as empty, and answers
that cannot be written stay in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from flycore.store.json_store import Store

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
        self._version, self._kept = version, kept
        self._store = Store(path, kind, CacheFile[A](version, {}), largest, fault=self._fault)
        self._answers = dict(self._store.value.answers)

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
        if self._store.path is None or self._answers == self._store.value.answers:
            return self._store.path is not None
        return not self._store.replace(CacheFile(self._version, dict(self._answers)))

    def _fault(self, file: CacheFile[A]) -> str:
        return "" if file.version == self._version else "it is of another version"
