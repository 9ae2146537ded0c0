"""The status of MCP servers and executables: their health and their tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flycore.catalog.probes import ProbeFinding
from flycore.model.enums import ReasonCode
from flycore.model.sidecar import Registry
from flycore.model.upstream import McpToolList


class McpStatus(NamedTuple):
    """The status of one server or executable. `entry` is the digest of the entry it was started by, `finding`
    its health, `listing` the tools it listed last, None before the first list."""

    entry: str
    finding: ProbeFinding
    listing: McpToolList | None


class McpStatusStore:
    """The statuses by sidecar; `current` is replaced as a whole. Used on the event loop's thread only."""

    def __init__(self, first: Mapping[str, McpStatus] | None = None) -> None:
        self.current: Mapping[str, McpStatus] = dict(first or {})
        self._shown: Mapping[str, McpStatus] = self.current

    def note(self, sidecar: str, entry: str, finding: ProbeFinding, listing: McpToolList | None) -> None:
        """Store a status. A server that is not reached keeps the tools it listed for the same entry."""
        before = self.current.get(sidecar)
        kept = before is not None and before.entry == entry and not is_schema_unknown(finding)
        if listing is None and kept and before is not None:
            listing = before.listing
        self.current = {**self.current, sidecar: McpStatus(entry, finding, listing)}

    def mark_shown(self, statuses: Mapping[str, McpStatus], registry: Registry) -> None:
        """Note that a state shows these statuses, and drop the statuses of entries that changed."""
        digests = {entry.id: entry.digest for entry in registry.entries}
        left = {sidecar: it for sidecar, it in self.current.items() if digests.get(sidecar) == it.entry}
        latest = statuses is self.current
        self.current = left
        self._shown = left if latest else statuses

    @property
    def has_unshown(self) -> bool:
        """Whether there is a status that no state shows yet."""
        return self.current is not self._shown


def is_schema_unknown(finding: ProbeFinding) -> bool:
    """Whether it is the finding of an executable that did not say what it takes."""
    return finding.reason is not None and finding.reason.code is ReasonCode.SCHEMA_UNKNOWN


def findings_of(statuses: Mapping[str, McpStatus], registry: Registry) -> dict[str, ProbeFinding]:
    """Return the health of each server whose entry is still the same."""
    return {
        entry.id: statuses[entry.id].finding
        for entry in registry.entries
        if entry.id in statuses and statuses[entry.id].entry == entry.digest
    }
