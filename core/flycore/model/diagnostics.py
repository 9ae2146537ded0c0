"""A problem found in a file a person wrote: where it is, what is wrong, what to write instead."""

from __future__ import annotations

from enum import StrEnum

from flycore.model.base import Value


class Severity(StrEnum):
    """How much a diagnostic weighs."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Position(Value, frozen=True, kw_only=True):
    """A place in a file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Diagnostic(Value, frozen=True, kw_only=True):
    """One finding about a registry, policy or settings file."""

    severity: Severity
    rule: str
    """Stable id of the check, such as `duplicate-key`."""
    message: str
    remedy: str = ""
    pointer: str = ""
    """JSON pointer of the offending value, `""` for the whole file."""
    position: Position | None = None
    sidecar: str | None = None
    excerpt: str = ""
    """The line and a caret below it, for a file that does not parse."""
