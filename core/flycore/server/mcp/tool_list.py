"""The tools that `tools/list` shows, made from the catalog and kept up to date."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import anyio
import anyio.to_thread
from mcp_types import Tool, ToolAnnotations

from flycore.model.catalog import Capability, CapabilityView, Catalog
from flycore.model.enums import Decision, Effective, ReasonCode, Risk
from flycore.model.errors import FlyError
from flycore.model.events import EventClass
from flycore.model.json import JsonObject, digest
from flycore.rpc.methods import Client
from flycore.server.mcp.early_answers import LISTS, Lists
from flycore.server.mcp.names import ALIASES, CODING_ALIASES, LIST_ALIAS, Names, names_of_catalog
from flycore.server.mcp.pages import page_of
from flycore.server.mcp.schema_compat import listed_input, listed_output_schema, rule_text
from flycore.server.mcp.upstream_lists import LIST_PAGE_SIZE, PROMPTS, RESOURCES, DoorLists, door_lists
from flysafe.atomic import private_folder, write_atomic

PAGE_SIZE = 500
"""Tools on one page of `tools/list`."""
_USABLE = (Effective.AVAILABLE, Effective.DEGRADED)
_ACTING_CLASSES = frozenset(("write", "execute", "computer"))
_NETWORK_CLASSES = frozenset(("network", "computer", "message"))


BrokenSchema = tuple[str, str]
"""A tool and the digest of an output schema that one of its outputs did not match."""


@dataclass(frozen=True)
class ToolList:
    """One state of the catalog in the form of `tools/list`."""

    catalog: Catalog
    names: Names = field(compare=False)
    broken_schemas: frozenset[BrokenSchema] = frozenset()

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The visible tools and the aliases, sorted by name."""
        visible = {
            view.capability.name: tool_of(self, view)
            for view in self.catalog.capabilities
            if is_visible(view)
        }
        coding = (
            visible[tool].model_copy(update={"name": alias})
            for alias, tool in CODING_ALIASES.items()
            if tool in visible
        )
        return tuple(sorted((*visible.values(), *coding, *ALIASES), key=lambda tool: tool.name))

    def all_tools(self) -> tuple[Tool, ...]:
        """Return every capability as a tool, those included that agents do not see now."""
        return tuple(tool_of(self, view) for view in self.catalog.capabilities)

    @cached_property
    def descriptions(self) -> tuple[tuple[str, str], ...]:
        """The name and the description of each visible capability."""
        return tuple(
            (self.names.name_of[view.capability.name], view.capability.description)
            for view in self.catalog.capabilities
            if is_visible(view)
        )

    @cached_property
    def lists(self) -> DoorLists:
        """The resources, templates and prompts of MCP servers that agents may ask for."""
        usable = frozenset(view.capability.name for view in self.catalog.capabilities if is_usable(view))
        return door_lists(self.catalog, usable)

    def page(self, cursor: str | None) -> tuple[list[Tool], str | None]:
        """Return the page of tools after `cursor`, and the cursor of the next page.

        The cursor is None for the first page, and after the last one. Raises UnknownCursorError.
        """
        tools, following = page_of(self.tools, cursor, PAGE_SIZE, lambda tool: tool.name)
        return [self._with_waiting_text(tool) for tool in tools], following

    def _with_waiting_text(self, tool: Tool) -> Tool:
        # Not in `tools`: the list has not changed for a client when an entry waits that it never saw.
        waits = waiting_text(self.catalog) if tool.name == LIST_ALIAS else ""
        return tool.model_copy(update={"description": f"{tool.description} {waits}"}) if waits else tool


def tool_list_of(
    catalog: Catalog, before: Names | None = None, broken_schemas: frozenset[BrokenSchema] = frozenset()
) -> ToolList:
    """Return the tool list of a catalog; `before` are the names that this server gave out earlier."""
    return ToolList(catalog, names_of_catalog(catalog, before), broken_schemas)


def waiting_text(catalog: Catalog) -> str:
    """Return what an agent is told of entries that wait for trust; empty where none does. Nothing of the
    entries is in it: nobody has looked at their texts yet."""
    waiting = sum(
        any(reason.code is ReasonCode.FOLDER_UNTRUSTED for reason in view.stability.reasons)
        for view in catalog.sidecars
    )
    if not waiting:
        return ""
    what = "1 entry waits" if waiting == 1 else f"{waiting} entries wait"
    return (
        f"{what} for a person's trust, and tools of theirs are not listed: for these, ask the person to open"
        " flytui in this folder and press T."
    )


def is_visible(view: CapabilityView) -> bool:
    """Return whether agents see the capability among the tools."""
    return not view.capability.request and is_usable(view)


def is_usable(view: CapabilityView) -> bool:
    """Return whether agents get the capability: it works, policy does not deny it for every input, and the
    settings do not hide it."""
    return view.stability.effective in _USABLE and view.decision != Decision.DENY and not view.hidden


def tool_of(tool_list: ToolList, view: CapabilityView) -> Tool:
    """Return one capability as an MCP tool."""
    capability = view.capability
    broken = tool_list.broken_schemas and _schema_key(capability) in tool_list.broken_schemas
    # Nobody has said that a program of an unknown dialect answers in the form of the known tool.
    broken = broken or any(reason.code is ReasonCode.DIALECT_UNKNOWN for reason in view.stability.reasons)
    listed = listed_input(capability.input_schema)
    words = (capability.description, rule_text(capability.input_schema), *listed.words)
    return Tool(
        name=tool_list.names.name_of[capability.name],
        # A tool of an MCP server has the title that the server gives, or none.
        title=capability.title or (None if capability.upstream else capability.name),
        description=" ".join(word for word in words if word),
        input_schema=listed.schema,
        output_schema=None if broken else output_schema_of(capability),
        annotations=_annotations(tool_list.catalog, view),
    )


def _schema_key(capability: Capability) -> BrokenSchema:
    return capability.name, digest(capability.output_schema)


def output_schema_of(capability: Capability) -> JsonObject | None:
    """Return the schema that structured results must match; None where there is none."""
    # MCP requires an object at the root of an output schema. Without a schema the output is sent as text.
    schema = capability.output_schema
    return listed_output_schema(schema) if schema.get("type") == "object" else None


def _annotations(catalog: Catalog, view: CapabilityView) -> ToolAnnotations:
    capability, entry = view.capability, catalog.sidecar(view.sidecar or "")
    if capability.hints:
        return _upstream_annotations(capability)
    classes = frozenset(capability.approval_class)
    network = entry is not None and entry.entry.permissions.network
    return ToolAnnotations(
        read_only_hint=capability.read_only,
        destructive_hint=not capability.read_only
        and (capability.risk.at_least(Risk.HIGH) or not classes.isdisjoint(_ACTING_CLASSES)),
        idempotent_hint=capability.read_only,
        open_world_hint=network or not classes.isdisjoint(_NETWORK_CLASSES),
    )


def _upstream_annotations(capability: Capability) -> ToolAnnotations:
    """Return what the server says of its tool. Where flytui takes the tool for dangerous, a server's word to
    the contrary is not handed on, because a client may ask its user less for such a tool."""
    annotations = ToolAnnotations.model_validate(capability.hints)
    if not capability.risk.at_least(Risk.HIGH):
        return annotations
    return annotations.model_copy(update={"read_only_hint": False, "destructive_hint": True})


RETRY_SECONDS = 0.5
"""Pause before the server looks for the next kernel, after the last one ended."""
_EVENT_CLASSES = frozenset((EventClass.CATALOG, EventClass.SNAPSHOT))

TOOLS = "tools"
_KINDS = {
    "tools/list": TOOLS,
    "prompts/list": PROMPTS,
    "resources/list": RESOURCES,
    "resources/templates/list": RESOURCES,
}
Changed = Callable[[frozenset[str]], Awaitable[None]]
"""Notifies the clients that these lists changed: some of TOOLS, RESOURCES and PROMPTS."""


class StoredLists:
    """The lists in a file, from which the next server of the root answers at its start."""

    def __init__(self, file: Path, listed: Lists | None = None) -> None:
        """`listed` is what the client of this server got from the file."""
        self._file, self._listed, self._written = file, listed or {}, b""

    def store(self, tool_list: ToolList) -> set[str]:
        """Keep the lists. Return which of TOOLS, RESOURCES and PROMPTS differ from what the client got, once
        for each difference."""
        own = tool_list.lists
        lists: Lists = {}
        for method, items, most in (
            ("tools/list", tool_list.tools, PAGE_SIZE),
            ("prompts/list", own.prompts, LIST_PAGE_SIZE),
            ("resources/list", own.resources, LIST_PAGE_SIZE),
            ("resources/templates/list", own.templates, LIST_PAGE_SIZE),
        ):
            # A client that got the first page alone would know of no further ones.
            if len(items) <= most:
                dumped = [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in items]
                lists[method] = {LISTS[method]: dumped}
        data = json.dumps(lists).encode("ascii")
        if data != self._written:
            self._written = data
            # Without the file, the next server answers a little later.
            with suppress(OSError):
                private_folder(self._file.parent)
                write_atomic(self._file, data)
        differing = {_KINDS[method] for method, got in self._listed.items() if lists.get(method) != got}
        self._listed = {}
        return differing


class CurrentTools:
    """The current tool list. It is cached while `watch` runs, and built at each use otherwise."""

    def __init__(self, client: Client, stored_lists: StoredLists | None = None) -> None:
        self._client, self._stored_lists = client, stored_lists
        self._watched = False
        self._cached: ToolList | None = None
        self._last: ToolList | None = None
        self._generation = 0
        """Number of changes reported so far."""
        self._broken_schemas: frozenset[BrokenSchema] = frozenset()
        self._changed: Changed | None = None

    async def current(self) -> ToolList:
        """Return the current tool list. Raises FlyError where no kernel answers."""
        if self._cached is not None and self._watched:
            return self._cached
        generation = self._generation
        catalog = await self._client.catalog()
        before = self._last.names if self._last is not None else None
        fresh = self._last = tool_list_of(catalog, before, self._broken_schemas)
        # A change that was reported while the catalog was on its way may be missing in it.
        if generation == self._generation and self._watched:
            self._cached = fresh
        return fresh

    async def last_known(self) -> ToolList:
        """Return the current tool list, or the last one where no kernel answers.

        A call can use it: the client looks for the next kernel, and that kernel checks the call. Raises
        FlyError where there was no list yet.
        """
        try:
            return await self.current()
        except FlyError:
            if self._last is None:
                raise
            return self._last

    async def drop_output_schema(self, capability: Capability) -> None:
        """List the tool without its output schema from now on, because an output did not match it.

        Clients check each output against the schema that is listed, and would tell an agent of a failure.
        """
        key = _schema_key(capability)
        if key in self._broken_schemas:
            return
        self._broken_schemas |= {key}
        self._cached = None
        self._generation += 1
        if self._changed is not None:
            await self._changed(frozenset((TOOLS,)))

    async def watch(self, changed: Changed) -> None:
        """Follow the catalog of the kernel, and of the kernels after it, until cancelled.

        Awaits `changed` when a visible list changed, and not for other changes of the catalog.
        """
        before: ToolList | None = None
        self._changed = changed
        while True:
            try:
                async with self._client.events(_EVENT_CLASSES) as events:
                    self._watched = True
                    before = await self._refresh(before, changed)
                    async for _ in events:
                        before = await self._refresh(before, changed)
            except FlyError:
                pass  # there is no kernel now; requests get that error until there is one
            finally:
                self._watched = False
            await anyio.sleep(RETRY_SECONDS)

    async def _refresh(self, before: ToolList | None, changed: Changed) -> ToolList:
        self._cached = None
        self._generation += 1
        fresh = await self.current()
        kinds = set[str]()
        if before is not None:
            kinds = before.lists.changed(fresh.lists) | ({TOOLS} if before.tools != fresh.tools else set())
        if self._stored_lists is not None and (before is None or kinds):
            kinds |= await anyio.to_thread.run_sync(self._stored_lists.store, fresh)
        if kinds:
            await changed(frozenset(kinds))
        return fresh
