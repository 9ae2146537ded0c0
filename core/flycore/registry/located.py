"""A registry file that has parsed, with the places of its entries, found as late as possible."""

from __future__ import annotations

from dataclasses import dataclass, field

from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Source
from flycore.model.json import pointer_join
from flycore.registry.jsonc.spans import SpanIndex, scan


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
