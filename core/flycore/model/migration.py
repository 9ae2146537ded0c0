"""Values of a migration from another system: what is carried over, what is not, and the files that change."""

from __future__ import annotations

from enum import StrEnum

from flycore.model.base import Value


class Verdict(StrEnum):
    """What becomes of one thing that another system left."""

    AS_IS = "as-is"
    """flytui reads it where it is; nothing is written for it."""
    TAKEN = "taken"
    """It is written with the same meaning."""
    REWRITTEN = "rewritten"
    """It is written in another form, or with less; the text says how."""
    CANNOT = "cannot"
    """It cannot be carried over; the text says why."""
    PRESENT = "present"
    """The target already has it."""


class MigrationLine(Value, frozen=True, kw_only=True):
    """One thing that another system left, and what becomes of it."""

    system: str
    source: str
    """`file:line:column`, or a file or folder."""
    subject: str
    """Name of the thing, never its value."""
    verdict: Verdict
    target: str = ""
    """The file that gets it; empty where nothing is written."""
    text: str = ""
    """What is changed, or why it cannot be carried over, and what you can do."""


class MigratedFile(Value, frozen=True, kw_only=True):
    """A file of the root that would be written."""

    path: str
    """Relative to the app root."""
    before: str | None
    """The text now; None where there is no file."""
    after: str
    difference: tuple[str, ...]
    """Lines of a unified difference."""
