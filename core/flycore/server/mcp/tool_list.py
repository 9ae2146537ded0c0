"""The tools that `tools/list` shows, made from the catalog and kept up to date."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import anyio
from mcp_types import Tool, ToolAnnotations

from flycore.catalog.schemas import MANY_SCHEMAS, NAMED_SCHEMAS, ONE_SCHEMA
from flycore.model.catalog import Capability, CapabilityView, Catalog
from flycore.model.enums import Decision, Effective, Risk
from flycore.model.errors import FlyError
from flycore.model.events import EventClass
from flycore.model.json import Json, JsonObject
from flycore.rpc.methods import Client
from flycore.server.mcp.names import ALIASES, Names, names_of_catalog

_SCHEMA_MAP_KEYS = NAMED_SCHEMAS | {"definitions"}  # drafts of JSON Schema before 2020-12 call `$defs` so


def without_boolean_schemas(schema: JsonObject) -> JsonObject:
    """Return the schema with `{}` for each `true` and `{"not": {}}` for each `false`, at every depth.

    The meaning is the same, but several clients and APIs of models refuse boolean schemas or misread them.
    `additionalProperties` and `unevaluated…` stay as they are, because booleans are usual there.
    """
    return {key: _member(key, value) for key, value in schema.items()}


def _member(key: str, value: Json) -> Json:
    if key in ONE_SCHEMA:
        return _schema(value)
    if key in MANY_SCHEMAS and isinstance(value, list):
        return [_schema(item) for item in value]
    if key in _SCHEMA_MAP_KEYS and isinstance(value, Mapping):
        return {name: _schema(item) for name, item in value.items()}
    if key == "additionalProperties" and isinstance(value, Mapping):
        return _schema(value)
    return value


def _schema(value: Json) -> Json:
    if value is True:
        return {}
    if value is False:
        return {"not": {}}
    return without_boolean_schemas(value) if isinstance(value, dict) else value


PAGE_SIZE = 500
"""Tools on one page of `tools/list`."""
_CURSOR = "after:"
_USABLE = (Effective.AVAILABLE, Effective.DEGRADED)
_ACTING_CLASSES = frozenset(("write", "execute", "computer"))
_NETWORK_CLASSES = frozenset(("network", "computer", "message"))


class UnknownCursorError(ValueError):
    """The cursor is not one that this server gave out."""


@dataclass(frozen=True)
class ToolList:
    """One state of the catalog in the form of `tools/list`."""

    catalog: Catalog
    names: Names = field(compare=False)

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The visible tools and the aliases, sorted by name."""
        visible = [tool_of(self, view) for view in self.catalog.capabilities if is_visible(view)]
        return tuple(sorted((*visible, *ALIASES), key=lambda tool: tool.name))

    @cached_property
    def descriptions(self) -> tuple[tuple[str, str], ...]:
        """The name and the description of each visible capability."""
        return tuple(
            (self.names.name_of[view.capability.name], view.capability.description)
            for view in self.catalog.capabilities
            if is_visible(view)
        )

    def page(self, cursor: str | None) -> tuple[list[Tool], str | None]:
        """Return the page of tools after `cursor`, and the cursor of the next page.

        The cursor is None for the first page, and after the last one. Raises UnknownCursorError.
        """
        # A cursor holds the last name of its page, not a position: it stays valid when tools come and go.
        if cursor is not None and not cursor.startswith(_CURSOR):
            raise UnknownCursorError(cursor[:200])
        names = [tool.name for tool in self.tools]
        start = 0 if cursor is None else bisect_right(names, cursor.removeprefix(_CURSOR))
        page = list(self.tools[start : start + PAGE_SIZE])
        more = start + PAGE_SIZE < len(names)
        return page, f"{_CURSOR}{page[-1].name}" if more else None


def tool_list_of(catalog: Catalog, before: Names | None = None) -> ToolList:
    """Return the tool list of a catalog; `before` are the names that this server gave out earlier."""
    return ToolList(catalog, names_of_catalog(catalog, before))


def is_visible(view: CapabilityView) -> bool:
    """Return whether agents see the capability: it works, and policy does not deny it for every input."""
    return view.stability.effective in _USABLE and view.decision != Decision.DENY


def tool_of(tool_list: ToolList, view: CapabilityView) -> Tool:
    """Return one capability as an MCP tool."""
    capability = view.capability
    return Tool(
        name=tool_list.names.name_of[capability.name],
        title=capability.name,
        description=capability.description,
        input_schema=_input_schema(capability),
        output_schema=output_schema_of(capability),
        annotations=_annotations(tool_list.catalog, view),
    )


def output_schema_of(capability: Capability) -> JsonObject | None:
    """Return the schema that structured results must match; None where there is none."""
    # MCP requires an object at the root of an output schema. Without a schema the output is sent as text.
    schema = capability.output_schema
    return without_boolean_schemas(schema) if schema.get("type") == "object" else None


def _input_schema(capability: Capability) -> JsonObject:
    schema = without_boolean_schemas(capability.input_schema)
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def _annotations(catalog: Catalog, view: CapabilityView) -> ToolAnnotations:
    capability, entry = view.capability, catalog.sidecar(view.sidecar or "")
    classes = frozenset(capability.approval_class)
    network = entry is not None and entry.entry.permissions.network
    return ToolAnnotations(
        read_only_hint=capability.read_only,
        destructive_hint=not capability.read_only
        and (capability.risk.at_least(Risk.HIGH) or not classes.isdisjoint(_ACTING_CLASSES)),
        idempotent_hint=capability.read_only,
        open_world_hint=network or not classes.isdisjoint(_NETWORK_CLASSES),
    )


RETRY_SECONDS = 0.5
"""Pause before the server looks for the next kernel, after the last one ended."""
_EVENT_CLASSES = frozenset((EventClass.CATALOG, EventClass.SNAPSHOT))

Changed = Callable[[], Awaitable[None]]
"""Notifies the clients that the list of tools changed."""


class CurrentTools:
    """The current tool list. It is cached while `watch` runs, and built at each use otherwise."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._watched = False
        self._cached: ToolList | None = None
        self._last: ToolList | None = None
        self._generation = 0
        """Number of changes reported so far."""

    async def current(self) -> ToolList:
        """Return the current tool list. Raises FlyError where no kernel answers."""
        if self._cached is not None and self._watched:
            return self._cached
        generation = self._generation
        catalog = await self._client.catalog()
        before = self._last.names if self._last is not None else None
        fresh = self._last = tool_list_of(catalog, before)
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

    async def watch(self, changed: Changed) -> None:
        """Follow the catalog of the kernel, and of the kernels after it, until cancelled.

        Awaits `changed` when the visible tools changed, and not for other changes of the catalog.
        """
        before: ToolList | None = None
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
        if before is not None and before.tools != fresh.tools:
            await changed()
        return fresh
