"""Decisions that wait for a person and are not about one call: the same queue, other data."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import QuestionKind


class Option(Value, frozen=True, kw_only=True):
    """One of one to three things a person may choose."""

    id: str
    words: str
    recommended: bool = False
    """Exactly one option of a question is."""


class Question(Value, frozen=True, kw_only=True):
    """Something to decide, with everything that is needed to judge it."""

    id: str
    kind: QuestionKind
    title: str
    lines: tuple[str, ...]
    options: tuple[Option, ...]
    free_text: bool = False
    """Whether words of the person's own go with the answer."""
    about: str = ""
    """Sidecar id or the caller's key."""
    asked_at: float
    """Unix time, seconds."""


class Block(Value, frozen=True, kw_only=True):
    """A tool that a person has blocked for every caller."""

    tool: str
    since: float
    """Unix time, seconds."""
    reason: str = ""


# Trust in the entries of a registry that came with a clone.


class TrustItem(Value, frozen=True, kw_only=True):
    """An entry that waits for trust, as plain lines of what it would run."""

    sidecar: str
    digest: str
    """Over the entry's canonical value; what is accepted is exactly this."""
    changed: bool
    """Whether an earlier value of the same entry was trusted; that one stays in force meanwhile."""
    tools: bool = False
    """Whether tools of an MCP server wait whose entry is trusted as it is: they do not run meanwhile."""
    lines: tuple[str, ...]
    """Command, delegates, tools, permissions, environment, where declared."""
    difference: tuple[str, ...] = ()
    """For a changed entry, from the value trusted last to this one: `- /pointer: before` and
    `+ /pointer: after`, see `flycore.model.json_diff`."""
