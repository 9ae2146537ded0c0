"""What was heard of MCP servers: how each is and what it offers, one value, shown by one world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flycore.catalog.probes import ProbeFinding
from flycore.model.sidecar import Registry
from flycore.model.upstream import McpToolList


class McpStatus(NamedTuple):
    """Of one server, by an entry of that digest. `listing` is what it offered last, None before its first
    list; `finding` is how it is now."""

    entry: str
    finding: ProbeFinding
    listing: McpToolList | None


class McpStatusStore:
    """By sidecar. Used on the loop's thread alone. `now` is replaced whole: a world is made of one value."""

    def __init__(self) -> None:
        self.now: Mapping[str, McpStatus] = {}
        self._shown: Mapping[str, McpStatus] = self.now

    def note(self, sidecar: str, entry: str, finding: ProbeFinding, listing: McpToolList | None) -> None:
        """A server that is not reached keeps what it offered by the same entry."""
        before = self.now.get(sidecar)
        if listing is None and before is not None and before.entry == entry:
            listing = before.listing
        self.now = {**self.now, sidecar: McpStatus(entry, finding, listing)}

    def mark_shown(self, heard: Mapping[str, McpStatus], registry: Registry) -> None:
        """A world shows that value of `now`. What was heard by entries that are no longer is forgotten."""
        digests = {entry.id: entry.digest for entry in registry.entries}
        left = {sidecar: it for sidecar, it in self.now.items() if digests.get(sidecar) == it.entry}
        latest = heard is self.now
        self.now = left
        self._shown = left if latest else heard

    @property
    def has_unshown(self) -> bool:
        """Whether something was heard that no world shows yet."""
        return self.now is not self._shown


def findings_of(heard: Mapping[str, McpStatus], registry: Registry) -> dict[str, ProbeFinding]:
    """How the servers are, by entries as they are now."""
    return {
        entry.id: heard[entry.id].finding
        for entry in registry.entries
        if entry.id in heard and heard[entry.id].entry == entry.digest
    }
