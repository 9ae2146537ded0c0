"""Tool names as MCP clients see them: at most 48 letters, digits, `_` and `-`, as `client_rules` says."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from string import ascii_letters

from mcp_types import Tool, ToolAnnotations

from flycore.model.catalog import CapabilityView, Catalog
from flycore.model.enums import Discovery
from flycore.server.mcp.client_rules import MAX_NAME_CHARS

MAX_REMEMBERED = 4_096
"""Names that stay reserved for tools that no longer exist."""
_HASH_DIGITS = 8
"""Hexadecimal digits of the hash that replaces the end of a long name."""
CODING_ALIASES: Mapping[str, str] = {
    "read_file": "workspace.read",
    "write_file": "workspace.write",
    "edit_file": "workspace.edit",
    "list_files": "workspace.list",
    "search_files": "workspace.search",
    "run_shell": "shell.run",
}
"""Names under which agents know such tools from other programs, each with the tool of the kernel that it
stands for."""
RESERVED = ("glee_tool", "glee_tools_list", "glee_tool_create", "tool_create", *CODING_ALIASES)
"""Names that agents know already. No capability gets one of them."""
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_FIRST = (*ascii_letters, "_")
"""What a name may begin with."""
_SOURCES = ("builtin", "plan", "registry:user", "registry:project")
"""Sources in the order in which they keep the plain name on a collision; all other sources come after."""


class Names:
    """The MCP name of each capability.

    All capabilities have a name, not only those that are visible now. No other tool gets the name of a tool
    that becomes unavailable or disappears: an agent that remembers the name would call the wrong tool.
    """

    def __init__(self, tools: Iterable[str], before: Mapping[str, str] | None = None) -> None:
        """Name `tools` in their order. Where two would get the same name, the later one gets `_2`.

        `before` is `tool_of` of the names that this server gave out earlier; those stay as they are.
        """
        known = dict(before or {})
        self.name_of = {tool: name for name, tool in known.items()}
        used = {*RESERVED, *known}
        tools = tuple(tools)
        for tool in tools:
            if tool not in self.name_of:
                known[_unique(mcp_spelling(tool), used)] = tool
                self.name_of[tool] = next(reversed(known))
        present = frozenset(tools)
        absent = [name for name, tool in known.items() if tool not in present]
        # The oldest names go first. Without a bound, tools that come and go would fill the memory.
        for name in absent[: max(0, len(absent) - MAX_REMEMBERED)]:
            del self.name_of[known.pop(name)]
        self.tool_of = known

    def tool_for(self, name: str) -> str:
        """Return the capability with that MCP name or alias. Any other name is returned as it is."""
        return self.tool_of.get(name) or CODING_ALIASES.get(name, name)


def names_of_catalog(catalog: Catalog, before: Names | None = None) -> Names:
    """Return the names for a catalog.

    Tools that the kernel describes come first, then the order is by source and by name. Known tools that
    nothing offers come last, so that a tool that works keeps the name under which its users know it.
    `before` are the names that this server gave out earlier.
    """
    tools = (view.capability.name for view in sorted(catalog.capabilities, key=_order))
    return Names(tools, before.tool_of if before is not None else None)


def mcp_spelling(tool: str) -> str:
    """Return the name in the characters that are allowed, not yet unique: `file.hash` is `file_hash`."""
    plain = _OTHER.sub("_", tool)
    if not plain.startswith(_FIRST):
        plain = f"_{plain}"
    if len(plain) <= MAX_NAME_CHARS:
        return plain
    digest = hashlib.sha256(tool.encode()).hexdigest()[:_HASH_DIGITS]
    return f"{plain[: MAX_NAME_CHARS - _HASH_DIGITS - 1]}_{digest}"


def _unique(name: str, used: set[str]) -> str:
    """Return the name, or the name with the lowest number from 2 that is free, and add it to `used`."""
    unique, number = name, 1
    while unique in used:
        number += 1
        end = f"_{number}"
        unique = name[: MAX_NAME_CHARS - len(end)] + end
    used.add(unique)
    return unique


def _order(view: CapabilityView) -> tuple[bool, bool, int, str, str]:
    rank = _SOURCES.index(view.source) if view.source in _SOURCES else len(_SOURCES)
    unoffered = view.stability.discovery is Discovery.MISSING
    return unoffered, not view.capability.known, rank, view.source, view.capability.name


# Further tools, which agents know from other programs under these names and with these schemas.

CREATE = "tool_create"
CREATE_ALIAS = "glee_tool_create"
_CREATE_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Name of the new tool."},
        "definition": {
            "type": ["object", "string"],
            "description": "Its manifest: name, description, kind (http, command or python), inputs, outputs,"
            " exec, permissions, examples; as an object, or as YAML text.",
        },
    },
    "required": ["name", "definition"],
    "additionalProperties": False,
}
_CREATE_DESCRIPTION = (
    "Makes a new tool out of a manifest. A person reviews it first, and it cannot be called before. Its"
    " permissions are limited: no files may be written, and no secrets used, unless the person allows that."
)
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
    *(
        Tool(
            name=name,
            title=name,
            description=_CREATE_DESCRIPTION,
            input_schema=_CREATE_SCHEMA,
            annotations=ToolAnnotations(
                read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
            ),
        )
        for name in (CREATE, CREATE_ALIAS)
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
