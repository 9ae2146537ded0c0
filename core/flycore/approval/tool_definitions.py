"""The tool definitions of MCP servers that a person trusted, kept over restarts, and what differs since.

The first list of tools of a server is trusted together with its entry. A tool that is new or changed later
waits for a person, while the others work on. Where the entry itself changes, it is trusted again, and the
next list of tools with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from flycore.model.approval import Outcome
from flycore.model.json import JsonObject, canonical_json, digest
from flycore.model.json_diff import json_difference
from flycore.model.question import TrustItem
from flycore.model.sidecar import SidecarEntry
from flycore.model.upstream import (
    GET_PROMPT,
    READ_RESOURCE,
    McpLists,
    McpToolList,
    McpToolOffer,
    ToolDefinition,
    listing_digest,
)
from flycore.store.json_store import Store

MAX_BYTES = 67_108_864
NEW = "new tool"


class StoredDefinitions(msgspec.Struct, frozen=True, kw_only=True):
    """The definitions of one server that a person trusted."""

    entry: str
    """Digest of the entry that they were trusted with."""
    at: float
    """Unix time in seconds."""
    tools: tuple[ToolDefinition, ...]


class ToolDefinitionStore:
    """The trusted definitions of one app root, by sidecar. Whoever writes holds the root's lock."""

    def __init__(self, path: Path | None) -> None:
        self._store = Store[Mapping[str, StoredDefinitions]](
            path, dict[str, StoredDefinitions], {}, MAX_BYTES
        )
        self.why_unread = self._store.why_unread
        """Why the file could not be relied on; then every tool of every server waits for a person."""

    def offer(self, entry: SidecarEntry, listing: McpToolList | None) -> McpToolOffer:
        """Return which tools of a listing may be used. Before there is a listing, those are the tools that
        were trusted before."""
        kept = self._store.value.get(entry.id)
        trusted = kept.tools if kept is not None and kept.entry == entry.digest else ()
        return mcp_offer(trusted, listing)

    def first_offer(self, entry: SidecarEntry, listing: McpToolList | None) -> McpToolOffer:
        """Return the offer as it is once `accept_first` has been called with that listing. Writes nothing."""
        kept = self._store.value.get(entry.id)
        if kept is not None and kept.entry == entry.digest:
            return self.offer(entry, listing)
        return mcp_offer(listing.tools if listing is not None else (), listing)

    def accept_first(self, entry: SidecarEntry, listing: McpToolList, now: float) -> str:
        """Trust the list where it is the first one since the entry was trusted. Returns why it could not be
        written, or an empty text."""
        kept = self._store.value.get(entry.id)
        # Where the file is unreadable, nobody knows whether this list is the first one, so it has to wait.
        if (self.why_unread and kept is None) or (kept is not None and kept.entry == entry.digest):
            return ""
        return self._write(entry, listing.tools, now)

    def pending(self, entry: SidecarEntry, offer: McpToolOffer, listing: McpToolList) -> TrustItem | None:
        """Return what waits for a person; None where nothing does."""
        if not offer.waiting:
            return None
        lines = [f"tools of {entry.id} that have changed since they were approved, or are new"]
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
        """Trust the whole list as it is now."""
        failure = self._write(entry, listing.tools, now)
        return Outcome(accepted=not failure, why_not=failure)

    def _write(self, entry: SidecarEntry, tools: tuple[ToolDefinition, ...], now: float) -> str:
        """Write the definitions and make them valid. Returns why that failed, or an empty text."""
        kept = StoredDefinitions(entry=entry.digest, at=now, tools=tools)
        why = self._store.replace({**self._store.value, entry.id: kept})
        return f"the tool definitions could not be written: {why}" if why else ""


def mcp_offer(trusted: tuple[ToolDefinition, ...], listing: McpToolList | None) -> McpToolOffer:
    """Return a listing compared with the definitions that were trusted before."""
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
        lists=_trusted_lists(trusted, listing.lists),
    )


def _trusted_lists(trusted: tuple[ToolDefinition, ...], lists: McpLists) -> McpLists:
    """Return the lists of those requests that a person has trusted."""
    requests = {tool.request for tool in trusted}
    if READ_RESOURCE not in requests:
        lists = msgspec.structs.replace(lists, resources=(), templates=())
    return lists if GET_PROMPT in requests else msgspec.structs.replace(lists, prompts=())


def waiting_digest(entry: SidecarEntry, offer: McpToolOffer, listing: McpToolList) -> str:
    """Return the digest that a person's approval of the waiting tools is bound to."""
    waiting = tuple(tool for tool in listing.tools if tool.name in offer.waiting)
    return digest([entry.digest, listing_digest(waiting)])


def _difference(before: ToolDefinition | None, now: ToolDefinition) -> tuple[str, ...]:
    old: JsonObject = {} if before is None else {now.name: before.shown}
    return json_difference({"tools": old}, {"tools": {now.name: now.shown}})


def _quoted(name: str) -> str:
    return canonical_json(name)
