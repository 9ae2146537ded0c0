"""What is wrong with something described, each with its place; and outside text cut to what can be shown."""

from __future__ import annotations

import msgspec

from flycore.model.described import Described, DescribedState, Origin, SourceKind
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.enums import Source
from flycore.model.json import Json
from flycore.registry.jsonc.parse import index_findings, parse_jsonc
from flycore.registry.source_text import SourceText

MOST_NAME = 80
MOST_VERSION = 40
MOST_SUMMARY = 300
"""Characters that are kept of a name, a version, a summary."""
MAX_DIAGNOSTICS = 20
"""Findings that are kept of one thing."""


def shorten(text: str, most: int) -> str:
    """The beginning, with `…` where something is left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


class DiagnosticList:
    """Collects findings about one part of a file that has parsed."""

    def __init__(self, file: SourceText, subject: str = "") -> None:
        self.file = file
        self.subject = subject
        """What the findings are about, as their sentences begin."""
        self.found: list[Diagnostic] = []

    def add(
        self, pointer: str, rule: str, message: str, remedy: str, severity: Severity = Severity.ERROR
    ) -> None:
        """Note a finding about the value at `pointer`; a thing full of them is told the first."""
        if len(self.found) < MAX_DIAGNOSTICS:
            self.found.append(
                Diagnostic(
                    severity=severity,
                    rule=rule,
                    message=f"{self.subject}: {message}" if self.subject else message,
                    remedy=remedy,
                    pointer=pointer,
                    position=self.file.nearest_position(pointer),
                )
            )

    def warn(self, pointer: str, rule: str, message: str, remedy: str) -> None:
        """A finding that makes nothing faulty."""
        self.add(pointer, rule, message, remedy, Severity.WARNING)

    @property
    def broken(self) -> bool:
        """Whether one of them is an error."""
        return any(finding.severity is Severity.ERROR for finding in self.found)


def parsed(text: str, shown: str, *, others: bool = False) -> tuple[Json, SourceText, tuple[Diagnostic, ...]]:
    """What a JSONC text says, and what is wrong with its writing; of one that does not parse only that.
    `others`: the file is another program's. How it is written is that one's concern, and no line of it is
    shown, as any may hold a secret."""
    file = SourceText(text, shown, Source.PROJECT)
    value, problem = parse_jsonc(text, shown)
    if problem is not None:
        return None, file, (msgspec.structs.replace(problem, excerpt="") if others else problem,)
    found = () if others else tuple(index_findings(value, file.index, shown))[:MAX_DIAGNOSTICS]
    return value, file, found


def described_file(kind: SourceKind, shown: str, origin: Origin, found: list[Diagnostic]) -> Described:
    """The file itself, in place of what it may have said, or beside it with what is odd about it."""
    broken = any(problem.severity is Severity.ERROR for problem in found)
    return Described(
        kind=kind,
        id=shown,
        name=shown,
        source=origin,
        path=shown,
        state=DescribedState.FAULTY if broken else DescribedState.LISTED,
        reasons=tuple(found),
    )
