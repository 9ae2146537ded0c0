"""Describes the tools of executables as capabilities, under the names that the executables give them.

What an executable says may raise a risk, never lower it. A name in its schema wins over the file's; where it
describes one tool alone, the file's name stays as an alias. Of two executables that offer one tool, the one
of the later search path has it, and the other one's entry says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from flycore.catalog.builtin import AGENT_ACTIONS, KNOWN, is_builtin_name
from flycore.catalog.mcp_capabilities import all_definitions, note_refused, offered_spec, with_mcp_tools
from flycore.catalog.plan_capabilities import plan_names
from flycore.model.enums import Envelope, Kind
from flycore.model.json import JsonObject
from flycore.model.sidecar import Registry, SidecarEntry, ToolClaim
from flycore.model.upstream import McpToolOffer, ToolDefinition, UnreadableTool
from flycore.registry.load import mark_conflicts

CLASSES = ("execute",)
_REMEDY = "give the tool another name in the schema that its program prints"


def with_offered_tools(registry: Registry, offers: Mapping[str, McpToolOffer]) -> Registry:
    """Return the registry with the tools of its executables and MCP servers as tools of their entries."""
    return with_mcp_tools(with_executable_tools(registry, offers), offers)


def with_executable_tools(registry: Registry, offers: Mapping[str, McpToolOffer]) -> Registry:
    """Return the registry with the tools of its executables as tools of their entries.

    An executable whose schema is not known keeps the one tool that its file's name stands for.
    """
    if not any(entry.kind is Kind.EXECUTABLE for entry in registry.entries):
        return registry
    servers = frozenset(entry.id for entry in registry.entries if entry.kind is Kind.MCP)
    entries = tuple(
        _with_tools(entry, offers.get(entry.id, McpToolOffer()), servers)
        if entry.kind is Kind.EXECUTABLE
        else entry
        for entry in registry.entries
    )
    return msgspec.structs.replace(registry, entries=mark_conflicts(entries))


def _with_tools(entry: SidecarEntry, offer: McpToolOffer, servers: frozenset[str]) -> SidecarEntry:
    picked = None if entry.picked is None else {claim.name: claim.spec or {} for claim in entry.picked}
    refused = list(offer.refused)
    claims: list[ToolClaim] = []
    for definition in all_definitions(offer):
        if picked is not None and definition.name not in picked:
            continue
        if why := _reserved(definition.name, entry, servers):
            refused.append(UnreadableTool(name=definition.name, why=why))
            continue
        spec = _spec(definition, (picked or {}).get(definition.name, {}))
        claims.append(ToolClaim(name=definition.name, spec=spec))
    asked = bool(offer.accepted or offer.waiting)
    known = {definition.name for definition in all_definitions(offer)}
    absent = [name for name in picked or {} if asked and name not in known]
    refused += [UnreadableTool(name=name, why="is not in the schema of the program") for name in absent]
    problems = (*entry.problems, *note_refused(entry, refused, _REMEDY))
    if not asked:
        claims = [claim for claim in entry.tools if not _reserved(claim.name, entry, servers)]
    return msgspec.structs.replace(entry, tools=tuple(claims), problems=problems)


def _reserved(name: str, entry: SidecarEntry, servers: frozenset[str]) -> str:
    """Return why the entry may not offer a tool of that name, as a sentence without its subject."""
    # The tools of a server are listed late, and a file that is there early must not take their names.
    if name.rpartition(".")[0] in servers:
        return f"has a name that is kept for the tools of the MCP server {name.rpartition('.')[0]}"
    if is_builtin_name(name) or name in AGENT_ACTIONS or name in plan_names():
        return "has a name that is kept for the kernel's own tools"
    if name in KNOWN and entry.source.discovered:
        return "has the name of a tool that flytui describes itself; an entry of the registry may offer it"
    return ""


def _spec(definition: ToolDefinition, stricter: JsonObject) -> JsonObject:
    spec = offered_spec(definition.name, definition, stricter, CLASSES)
    tags = spec.get("tags")
    named = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    spec |= {"tags": list(dict.fromkeys((*named, *definition.tags)))}
    spec |= {"answers": (definition.envelope or Envelope.UNKNOWN).value}
    spec |= {"version": definition.version} if definition.version else {}
    return {**spec, "timeoutMs": definition.timeout_ms} if definition.timeout_ms else spec


class ExecutableCall(NamedTuple):
    """How one tool of an executable is called."""

    envelope: Envelope
    timeout_ms: int
    """The time limit of a call."""


def executable_call(entry: SidecarEntry, tool: str) -> ExecutableCall:
    """Return how the tool of that executable is called. `entry` has the tools of `with_executable_tools`."""
    spec = next((claim.spec or {} for claim in entry.tools if claim.name == tool), {})
    answers, limit = spec.get("answers"), spec.get("timeoutMs")
    return ExecutableCall(
        Envelope(answers) if isinstance(answers, str) else Envelope.UNKNOWN,
        limit if isinstance(limit, int) else entry.timeout_ms,
    )


def file_aliases(registry: Registry) -> dict[str, str]:
    """Return the names of files that stand for the one tool that their executable describes, with that tool.

    A name that is a tool's own, or that two files have, is no alias.
    """
    taken = {name for entry in registry.entries for name in entry.tool_names}
    taken |= KNOWN.keys() | AGENT_ACTIONS | plan_names()
    aliases: dict[str, str] = {}
    twice: set[str] = set()
    for entry in registry.entries:
        alias = entry.file_alias
        if not alias or len(entry.tools) != 1 or alias in taken or is_builtin_name(alias):
            continue
        if aliases.setdefault(alias, entry.tools[0].name) != entry.tools[0].name:
            twice.add(alias)
    return {alias: tool for alias, tool in aliases.items() if alias not in twice}
