"""A person's own policy rules, as lists of what stands show them."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.json import JsonObject


class StandingRule(Value, frozen=True, kw_only=True):
    """One rule of the person's own policy file. What cannot be read in it is empty, and `note` says why."""

    where: str
    """`file:line`."""
    digest: str
    """SHA-256 over the rule's canonical value, 64 hex digits: what a removal names."""
    tool: str = ""
    decision: str = ""
    because: str = ""
    caller: str = ""
    when: JsonObject | None = None
    expires: float | None = None
    """Unix time, seconds."""
    note: str = ""
    """Why it does not do what it says; empty for a rule that holds."""
    from_request: str = ""
    """The request it was written for, where that was in this session."""
    used: int = 0
    """Calls of this session that it spoke about."""
    last_used: float | None = None
    """Unix time, seconds."""
