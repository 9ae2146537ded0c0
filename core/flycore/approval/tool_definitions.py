"""What MCP servers offered when their entries were trusted, kept over restarts, and what differs since.

A server's first list of tools comes with the trust in its entry. Whatever is new or another later waits for
a person, tool by tool, while the rest goes on. An entry that itself becomes another one is trusted anew, and
its next list comes with that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from flycore.approval.state_file import write_state
from flycore.model.approval import Outcome
from flycore.model.json import JsonObject, canonical_json, digest
from flycore.model.json_diff import json_difference
from flycore.model.question import TrustItem
from flycore.model.sidecar import SidecarEntry
from flycore.model.upstream import McpToolList, McpToolOffer, ToolDefinition, listing_digest

MAX_BYTES = 67_108_864
NEW = "new tool"


class StoredDefinitions(msgspec.Struct, frozen=True, kw_only=True):
    """The definitions a person's trust covers."""

    entry: str
    """Digest of the entry they came with."""
    at: float
    """Unix time, seconds."""
    tools: tuple[ToolDefinition, ...]


class ToolDefinitionStore:
    """The kept definitions of one app root, by sidecar. Writers hold the root's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: Mapping[str, StoredDefinitions] = {}
        self.why_unread = ""
        """Why the file could not be relied on: then every list comes as the first one, and waits."""

    @classmethod
    def load(cls, path: Path) -> ToolDefinitionStore:
        """The book as the file has it. Never raises for what is there."""
        book = cls(path)
        try:
            if path.stat().st_size > MAX_BYTES:
                book.why_unread = "the file is too large"
            else:
                book._kept = msgspec.json.decode(path.read_bytes(), type=dict[str, StoredDefinitions])
        except FileNotFoundError:
            return book
        except (OSError, msgspec.MsgspecError) as fault:
            book.why_unread = str(fault)
        return book

    def offer(self, entry: SidecarEntry, listing: McpToolList | None) -> McpToolOffer:
        """What of a listing may be used; before there is one, what was offered before."""
        kept = self._kept.get(entry.id)
        trusted = kept.tools if kept is not None and kept.entry == entry.digest else ()
        return mcp_offer(trusted, listing)

    def accept_first(self, entry: SidecarEntry, listing: McpToolList, now: float) -> str:
        """Keep the list where it is the first since the entry was trusted. Says why it could not be."""
        kept = self._kept.get(entry.id)
        if (self.why_unread and kept is None) or (kept is not None and kept.entry == entry.digest):
            return ""
        return self._write(entry, listing.tools, now)

    def pending(self, entry: SidecarEntry, offer: McpToolOffer, listing: McpToolList) -> TrustItem | None:
        """What waits for a person, None where nothing does."""
        if not offer.waiting:
            return None
        lines = [f"tools of {entry.id} that changed since they were approved, or are new"]
        lines += [
            f"{NEW} {_quoted(name)}" if name in offer.new else f"changed tool {_quoted(name)}"
            for name in offer.waiting
        ]
        difference = [line for name in offer.waiting for line in offer.waiting[name]]
        return TrustItem(
            sidecar=entry.id,
            digest=waiting_digest(entry, offer, listing),
            changed=True,
            tools=True,
            lines=tuple(lines),
            difference=tuple(difference),
        )

    def accept(self, entry: SidecarEntry, listing: McpToolList, now: float) -> Outcome:
        """Trust the list as it is."""
        failure = self._write(entry, listing.tools, now)
        return Outcome(accepted=not failure, why_not=failure)

    def _write(self, entry: SidecarEntry, tools: tuple[ToolDefinition, ...], now: float) -> str:
        """Write, then believe."""
        kept = {**self._kept, entry.id: StoredDefinitions(entry=entry.digest, at=now, tools=tools)}
        try:
            write_state(self._path, msgspec.to_builtins(kept), MAX_BYTES)
        except OSError as error:
            return f"definitions could not be written: {error}"
        self._kept = kept
        return ""


def mcp_offer(trusted: tuple[ToolDefinition, ...], listing: McpToolList | None) -> McpToolOffer:
    """A listing beside what was trusted before."""
    if listing is None:
        return McpToolOffer(accepted=trusted)
    before = {tool.name: tool for tool in trusted}
    now = {tool.name: tool for tool in listing.tools}
    waiting = {
        name: _difference(before.get(name), tool)
        for name, tool in now.items()
        if name not in before or before[name].digest() != tool.digest()
    }
    return McpToolOffer(
        accepted=trusted,
        waiting=waiting,
        new=tuple(name for name in waiting if name not in before),
        gone=tuple(name for name in before if name not in now),
        refused=listing.refused,
    )


def waiting_digest(entry: SidecarEntry, offer: McpToolOffer, listing: McpToolList) -> str:
    """What a person's yes to what waits is given to."""
    waiting = tuple(tool for tool in listing.tools if tool.name in offer.waiting)
    return digest([entry.digest, listing_digest(waiting)])


def _difference(before: ToolDefinition | None, now: ToolDefinition) -> tuple[str, ...]:
    was: JsonObject = {} if before is None else {now.name: before.shown}
    return json_difference({"tools": was}, {"tools": {now.name: now.shown}})


def _quoted(name: str) -> str:
    return canonical_json(name)
