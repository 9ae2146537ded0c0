"""The catalog as `tools/list` shows it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

from mcp_types import Tool, ToolAnnotations

from flycore.model.capability import Capability
from flycore.model.catalog import CapabilityView, Catalog
from flycore.model.enums import Decision, Effective, Risk
from flycore.model.json import JsonObject
from flycore.serve.mcp.aliases import ALIASES
from flycore.serve.mcp.names import Names, names_of_catalog
from flycore.serve.mcp.portable import without_boolean_schemas

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
