"""A registry file that has parsed, with the places of its entries, found as late as possible."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Source
from flycore.model.json import pointer_join, unescape_key
from flycore.model.sidecar import SidecarEntry
from flycore.registry.jsonc.spans import SpanIndex, plain_keys, scan


@dataclass(slots=True)
class SourceText:
    """One file: what it says and where it says it. The full index is made when a problem wants it."""

    text: str
    file: str
    """As shown to people: relative to the app root in the project, absolute for the user's."""
    source: Source
    _index: SpanIndex | None = field(default=None)

    @property
    def index(self) -> SpanIndex:
        """Spans of every key and value."""
        if self._index is None:
            self._index = scan(self.text)
        return self._index

    def position(self, offset: int) -> Position:
        """Line and column of a character offset."""
        line, column = self.index.position(offset)
        return Position(file=self.file, line=line, column=column)

    def nearest_position(self, pointer: str) -> Position:
        """Where the value stands, else the nearest thing around it that exists."""
        while pointer:
            span = self.index.value(pointer) or self.index.key(pointer)
            if span is not None:
                return self.position(span.start)
            pointer = pointer.rpartition("/")[0]
        return self.position(0)


@dataclass(slots=True)
class EntryFindings:
    """Collects what is wrong with one entry."""

    file: SourceText
    sidecar: str
    problems: list[Diagnostic] = field(default_factory=list)

    @property
    def pointer(self) -> str:
        """JSON pointer of the entry."""
        return pointer_join("/sidecars", self.sidecar)

    def add(
        self, below: str, rule: str, message: str, remedy: str, severity: Severity = Severity.ERROR
    ) -> None:
        """Note a finding about the value at `below`, a pointer that starts at the entry."""
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
        """A finding that does not make the entry invalid."""
        self.add(below, rule, message, remedy, Severity.WARNING)

    def inform(self, below: str, rule: str, message: str, remedy: str) -> None:
        """A note: nothing is wrong."""
        self.add(below, rule, message, remedy, Severity.INFO)


# Where the keys of an entry stand, for remedies that name a line: looked for when one is made.


_ENTRIES_KEPT = 256


def key_position(entry: SidecarEntry, key: str) -> Position:
    """Where that key of the entry stands; where the entry itself does if the key is absent."""
    return key_positions(entry).get(key, entry.position)


def key_positions(entry: SidecarEntry) -> dict[str, Position]:
    """Where each key that is written in the entry stands."""
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
    """Line and column, both from 1, of each key of the entry within its own text."""
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
    """Without the brace that was put before the text."""
    line, column = place
    return line, column - 1 if line == 1 else column
