"""Collects the problems of what discovery finds, and shortens text from outside."""

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
"""Most characters of a name, a version, a summary."""
MAX_DIAGNOSTICS = 20
"""Most problems of one item."""


def shorten(text: str, most: int) -> str:
    """Return at most `most` characters of the text, with `…` at the end where some are left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


class DiagnosticList:
    """Collects findings about one part of a file that has parsed."""

    def __init__(self, file: SourceText, subject: str = "") -> None:
        self.file = file
        self.subject = subject
        """Name of the item, with which each message begins."""
        self.found: list[Diagnostic] = []

    def add(
        self, pointer: str, rule: str, message: str, remedy: str, severity: Severity = Severity.ERROR
    ) -> None:
        """Add a finding about the value at `pointer`. Findings beyond `MAX_DIAGNOSTICS` are dropped."""
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
        """Add a warning, which does not make the item faulty."""
        self.add(pointer, rule, message, remedy, Severity.WARNING)

    @property
    def broken(self) -> bool:
        """Whether one of the findings is an error."""
        return any(finding.severity is Severity.ERROR for finding in self.found)


def parsed(text: str, shown: str, *, others: bool = False) -> tuple[Json, SourceText, tuple[Diagnostic, ...]]:
    """Return the value of a JSONC text, the text with positions, and the problems of its syntax.

    `others` says that the file belongs to another program.
    """
    # The style of another program's file is not our concern, and none of its lines is shown, because any of
    # them may hold a secret.
    file = SourceText(text, shown, Source.PROJECT)
    value, problem = parse_jsonc(text, shown)
    if problem is not None:
        return None, file, (msgspec.structs.replace(problem, excerpt="") if others else problem,)
    found = () if others else tuple(index_findings(value, file.index, shown))[:MAX_DIAGNOSTICS]
    return value, file, found


def described_file(kind: SourceKind, shown: str, origin: Origin, found: list[Diagnostic]) -> Described:
    """Return an item for the file itself, which shows the problems of the whole file."""
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
