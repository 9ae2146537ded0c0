"""The text of a parsed registry file, and the positions of its entries and keys."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Source
from flycore.model.json import pointer_join, unescape_key
from flycore.model.sidecar import SidecarEntry
from flycore.registry.jsonc.spans import SpanIndex, plain_keys, scan


class SourceText(msgspec.Struct):
    """The text of one file. The full index is made when the first problem needs a position."""

    text: str
    file: str
    """Name of the file for people: relative to the app root, or absolute for the file of the user."""
    source: Source
    _index: SpanIndex | None = msgspec.field(default=None)

    @property
    def index(self) -> SpanIndex:
        """The spans of all keys and values."""
        if self._index is None:
            self._index = scan(self.text)
        return self._index

    def position(self, offset: int) -> Position:
        """Return the line and the column of a character offset."""
        line, column = self.index.position(offset)
        return Position(file=self.file, line=line, column=column)

    def nearest_position(self, pointer: str) -> Position:
        """Return the position of the value, or of the nearest existing value around it."""
        while pointer:
            span = self.index.value(pointer) or self.index.key(pointer)
            if span is not None:
                return self.position(span.start)
            pointer = pointer.rpartition("/")[0]
        return self.position(0)


class EntryFindings(msgspec.Struct):
    """Collects the problems of one entry."""

    file: SourceText
    sidecar: str
    problems: list[Diagnostic] = msgspec.field(default_factory=list)

    @property
    def pointer(self) -> str:
        """The JSON pointer of the entry."""
        return pointer_join("/sidecars", self.sidecar)

    def add(
        self, below: str, rule: str, message: str, remedy: str, severity: Severity = Severity.ERROR
    ) -> None:
        """Add a finding about the value at `below`, a pointer that starts at the entry."""
        pointer = self.pointer + below
        subject = below.lstrip("/").replace("/", ".") or self.sidecar
        self.problems.append(
            Diagnostic(
                severity=severity,
                rule=rule,
                message=f"{subject}: {message}",
                remedy=remedy,
                pointer=pointer,
                position=self.file.nearest_position(pointer),
                sidecar=self.sidecar,
            )
        )

    def warn(self, below: str, rule: str, message: str, remedy: str) -> None:
        """Add a finding that does not make the entry invalid."""
        self.add(below, rule, message, remedy, Severity.WARNING)

    def inform(self, below: str, rule: str, message: str, remedy: str) -> None:
        """Add a note about something that is not a problem."""
        self.add(below, rule, message, remedy, Severity.INFO)


_ENTRIES_KEPT = 256


def key_position(entry: SidecarEntry, key: str) -> Position:
    """Return the position of that key of the entry, or of the entry where the key is absent."""
    return key_positions(entry).get(key, entry.position)


def key_positions(entry: SidecarEntry) -> dict[str, Position]:
    """Return the position of each key in the entry."""
    # Entries do not store these: only remedies that name a line need them, and those are rare.
    isolated = _key_positions(entry.text, entry.id)
    start = entry.position
    return {
        key: Position(
            file=start.file,
            line=start.line + line - 1,
            column=column + (start.column - 1 if line == 1 else 0),
        )
        for key, (line, column) in isolated.items()
    }


@lru_cache(maxsize=_ENTRIES_KEPT)
def _key_positions(text: str, sidecar: str) -> dict[str, tuple[int, int]]:
    """Return the line and the column, both from 1, of each key within the text of the entry."""
    plain = plain_keys(text)
    if plain is not None:
        return {key: _line_and_column(text, offset) for key, offset in plain.items()}
    index = scan(f"{{{text}}}")
    parent = f"{pointer_join('', sidecar)}/"
    found: dict[str, tuple[int, int]] = {}
    for pointer, span in index.keys.items():
        key = pointer.removeprefix(parent)
        if key != pointer and "/" not in key:
            found[unescape_key(key)] = _without_brace(index.position(span.start))
    return found


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _without_brace(place: tuple[int, int]) -> tuple[int, int]:
    """Return the place without the brace that was put before the text."""
    line, column = place
    return line, column - 1 if line == 1 else column
