"""The undo of a change that a call made to files of the project."""

from __future__ import annotations

from flycore.model.base import Value


class UndoResult(Value, frozen=True, kw_only=True):
    """Whether the change was undone, or can be where that was only asked."""

    accepted: bool
    why_not: str = ""
    files: tuple[str, ...] = ()
    """The files that get back what they were, relative to the project."""
