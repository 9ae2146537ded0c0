"""Tool names as MCP clients see them: model APIs take only letters, digits, `_` and `-`, at most 64."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from mcp_types import Tool, ToolAnnotations

from flycore.model.catalog import CapabilityView, Catalog

MAX_NAME_CHARS = 64
MAX_REMEMBERED = 4_096
"""Names that are remembered for tools that are there no longer."""
_HASHED = 8
"""Hex digits that stand for what was cut from a longer name."""
RESERVED = ("glee_tool", "glee_tools_list", "glee_tool_create")
"""Names that agents know already; no capability is given one."""
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_SOURCES = ("builtin", "plan", "registry:user", "registry:project")
"""Earlier ones keep the plain name on a collision; a source that is not here comes after these."""


class Names:
    """One MCP name for each capability. They depend on all capabilities, not on what is visible now: a tool
    that becomes unavailable gives its name to no other, nor does one that goes."""

    def __init__(self, tools: Iterable[str], before: Mapping[str, str] | None = None) -> None:
        """`tools` in order: of two that would be given one name, the later gets `_2`. `before`: `tool_of` of
        the names that were handed out until now; what they mean they mean still."""
        known = dict(before or {})
        self.name_of = {tool: name for name, tool in known.items()}
        taken = {*RESERVED, *known}
        tools = tuple(tools)
        for tool in tools:
            if tool not in self.name_of:
                known[_unique(mcp_spelling(tool), taken)] = tool
                self.name_of[tool] = next(reversed(known))
        there = frozenset(tools)
        gone = [name for name, tool in known.items() if tool not in there]
        for name in gone[: max(0, len(gone) - MAX_REMEMBERED)]:
            del self.name_of[known.pop(name)]
        self.tool_of = known

    def tool_for(self, called: str) -> str:
        """The capability a client means: by the name that is listed, else by the name itself."""
        return self.tool_of.get(called, called)


def names_of_catalog(catalog: Catalog, before: Names | None = None) -> Names:
    """Names for a catalog: what the kernel itself describes comes first, then by source, then by name.
    `before`: what whoever asks was told last."""
    tools = (view.capability.name for view in sorted(catalog.capabilities, key=_order))
    return Names(tools, before.tool_of if before is not None else None)


def mcp_spelling(tool: str) -> str:
    """The name in the characters that are allowed, not yet unique: `file.hash` is `file_hash`."""
    plain = _OTHER.sub("_", tool)
    if len(plain) <= MAX_NAME_CHARS:
        return plain
    return f"{plain[: MAX_NAME_CHARS - _HASHED - 1]}_{hashlib.sha256(tool.encode()).hexdigest()[:_HASHED]}"


def _unique(name: str, taken: set[str]) -> str:
    """The name, or with the first number from 2 that nobody has; it is taken then."""
    found, number = name, 1
    while found in taken:
        number += 1
        end = f"_{number}"
        found = name[: MAX_NAME_CHARS - len(end)] + end
    taken.add(found)
    return found


def _order(view: CapabilityView) -> tuple[bool, int, str, str]:
    rank = _SOURCES.index(view.source) if view.source in _SOURCES else len(_SOURCES)
    return not view.capability.known, rank, view.source, view.capability.name


# Tools under names that agents know from elsewhere, with the shapes they expect.


CALL_ALIAS = "glee_tool"
LIST_ALIAS = "glee_tools_list"
ALIASES = (
    Tool(
        name=CALL_ALIAS,
        title=CALL_ALIAS,
        description="Calls the tool of that name with these params and returns its bare output.",
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "A name of glee_tools_list."},
                "params": {"type": "object", "description": "The tool's input.", "default": {}},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
        ),
    ),
    Tool(
        name=LIST_ALIAS,
        title=LIST_ALIAS,
        description="Lists every tool that glee_tool can call, as [{name, description}].",
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        annotations=ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    ),
)
