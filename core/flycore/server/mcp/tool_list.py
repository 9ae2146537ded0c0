"""Schemas as clients and model APIs take them: the same meaning, without a bare `true` or `false` in the
place of a schema, which several of them refuse or read wrongly."""

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

_SCHEMA_MAP_KEYS = NAMED_SCHEMAS | {"definitions"}  # as drafts before 2020-12 name `$defs`


def without_boolean_schemas(schema: JsonObject) -> JsonObject:
    """The schema with `{}` and `{"not": {}}` where it says `true` and `false`, at every depth.

    `additionalProperties` and `unevaluated…` are left as they are: a boolean is what is usual there.
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


# The catalog as `tools/list` shows it.


PAGE_SIZE = 500
"""Tools on one page of `tools/list`."""
_CURSOR = "after:"
_USABLE = (Effective.AVAILABLE, Effective.DEGRADED)
_ACTING_CLASSES = frozenset(("write", "execute", "computer"))
_NETWORK_CLASSES = frozenset(("network", "computer", "message"))


class UnknownCursorError(ValueError):
    """A cursor that this server has not handed out."""


@dataclass(frozen=True)
class ToolList:
    """One catalog as MCP shows it."""

    catalog: Catalog
    names: Names = field(compare=False)

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """Visible tools by name, the aliases among them."""
        visible = [tool_of(self, view) for view in self.catalog.capabilities if is_visible(view)]
        return tuple(sorted((*visible, *ALIASES), key=lambda tool: tool.name))

    @cached_property
    def descriptions(self) -> tuple[tuple[str, str], ...]:
        """Name and description of each visible capability."""
        return tuple(
            (self.names.name_of[view.capability.name], view.capability.description)
            for view in self.catalog.capabilities
            if is_visible(view)
        )

    def page(self, cursor: str | None) -> tuple[list[Tool], str | None]:
        """The tools behind `cursor` and the next one's; None for the first and after the last. A cursor
        stays good when tools come and go meanwhile. Raises UnknownCursorError."""
        if cursor is not None and not cursor.startswith(_CURSOR):
            raise UnknownCursorError(cursor[:200])
        names = [tool.name for tool in self.tools]
        start = 0 if cursor is None else bisect_right(names, cursor.removeprefix(_CURSOR))
        page = list(self.tools[start : start + PAGE_SIZE])
        more = start + PAGE_SIZE < len(names)
        return page, f"{_CURSOR}{page[-1].name}" if more else None


def tool_list_of(catalog: Catalog, before: Names | None = None) -> ToolList:
    """The catalog with its names; `before` are those that were handed out until now."""
    return ToolList(catalog, names_of_catalog(catalog, before))


def is_visible(view: CapabilityView) -> bool:
    """Whether agents are shown it: it works, and policy does not deny it whatever the input."""
    return view.stability.effective in _USABLE and view.decision != Decision.DENY


def tool_of(seen: ToolList, view: CapabilityView) -> Tool:
    """One capability as a tool. A schema that is not of an object at its root, which MCP asks for, is left
    out: the output comes as text then."""
    capability = view.capability
    return Tool(
        name=seen.names.name_of[capability.name],
        title=capability.name,
        description=capability.description,
        input_schema=_input_schema(capability),
        output_schema=output_schema_of(capability),
        annotations=_annotations(seen.catalog, view),
    )


def output_schema_of(capability: Capability) -> JsonObject | None:
    """The schema that structured results are held against; None where there is none."""
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


# The list of tools as it is now, and the word that it has changed.


RETRY_SECONDS = 0.5
"""Before a kernel that went away is looked for again."""
_EVENT_CLASSES = frozenset((EventClass.CATALOG, EventClass.SNAPSHOT))

Changed = Callable[[], Awaitable[None]]
"""Tells the clients that the list is another."""


class CurrentTools:
    """Asks for the catalog only when it may have changed; while nothing watches it, every time."""

    def __init__(self, door: Client) -> None:
        self._client = door
        self._watched = False
        self._cached: ToolList | None = None
        self._last: ToolList | None = None
        self._generation = 0
        """Grows with every word of a change: what was asked for before it is not kept."""

    async def current(self) -> ToolList:
        """The tools as they are. Raises FlyError where no kernel answers."""
        held = self._cached
        if held is not None and self._watched:
            return held
        moment = self._generation
        catalog = await self._client.catalog()
        before = self._last.names if self._last is not None else None
        fresh = self._last = tool_list_of(catalog, before)
        if moment == self._generation and self._watched:
            self._cached = fresh
        return fresh

    async def last_known(self) -> ToolList:
        """The same, or while no kernel answers what was known last: a call finds the next kernel, and is
        judged by that one. Raises FlyError where nothing was ever known."""
        try:
            return await self.current()
        except FlyError:
            if self._last is None:
                raise
            return self._last

    async def watch(self, changed: Changed) -> None:
        """Follow the kernel's catalog until cancelled, also from one kernel to the next. `changed` is awaited
        when what is listed differs from what was listed before, not for other differences."""
        before: ToolList | None = None
        while True:
            try:
                async with self._client.events(_EVENT_CLASSES) as events:
                    self._watched = True
                    before = await self._refresh(before, changed)
                    async for _ in events:
                        before = await self._refresh(before, changed)
            except FlyError:
                pass  # no kernel for now: whoever asks meanwhile is told so
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
