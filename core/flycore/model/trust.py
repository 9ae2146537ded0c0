"""Trust in the entries of a registry that came with a clone."""

from __future__ import annotations

from flycore.model.base import Value


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
    `+ /pointer: after`, see `flycore.model.difference`."""
