"""Describes the tools of MCP servers as capabilities. What a server says may raise a risk, never lower it.

A tool's name here is the entry's id, a dot, and the server's own name in lower case, or the one that the
entry gives to it. Characters that no tool name has become `_`, dots included, so an entry cannot take a name
that belongs to another one. A tool that would take a known name, a builtin one or that of another entry is
not offered, and the entry says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from flycore.catalog.builtin import KNOWN, family_of, is_builtin_name
from flycore.catalog.registry_capability import capability_from_spec
from flycore.model.catalog import Capability
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.enums import Kind, Risk
from flycore.model.json import Json, JsonObject
from flycore.model.sidecar import Registry, SidecarEntry, ToolClaim
from flycore.model.upstream import (
    COMPLETE,
    GET_PROMPT,
    READ_RESOURCE,
    McpToolOffer,
    ToolDefinition,
    UnreadableTool,
)
from flycore.registry.names import free_id
from flysafe.text import safe_lines, safe_text, strict_text

RULE = "upstream-tool"
CLASSES = ("network", "execute")
READ_CLASSES = ("read",)
REQUEST_NAMES = {
    READ_RESOURCE: "resources.read",
    GET_PROMPT: "prompts.get",
    COMPLETE: "completion.complete",
}
"""What the requests are called behind an entry's id. No tool of a server has a dot there."""
WHOLE_RESULT = 33_554_432
"""The result limit of a request: what a server sends is handed on whole, up to `maxOutputBytes`."""
LONGEST_NAME = 128
LONGEST_TITLE = 200
LONGEST_DESCRIPTION = 8_192
"""Characters of a description that agents get. The digest is over all of it."""
MAX_NAMED = 20
"""Refused tools that are listed by name."""
_NO_NAME = re.compile(r"[^a-z0-9_-]")
_TOOL = re.compile(r"[a-z0-9][a-z0-9._-]*")


def capability_name(sidecar: str, tool: str) -> str:
    """Return the name that the server's tool has here."""
    return f"{sidecar}.{_NO_NAME.sub('_', tool.lower())}"


def with_mcp_tools(registry: Registry, offers: Mapping[str, McpToolOffer]) -> Registry:
    """Return the registry with the tools of its MCP servers as tools of their entries."""
    if not any(entry.kind is Kind.MCP for entry in registry.entries):
        return registry
    taken = {name for entry in registry.entries for name in entry.tool_names}
    entries = tuple(
        _with_mcp_tool(entry, offers.get(entry.id, McpToolOffer()), taken)
        if entry.kind is Kind.MCP
        else entry
        for entry in registry.entries
    )
    return msgspec.structs.replace(registry, entries=entries)


def _with_mcp_tool(entry: SidecarEntry, offer: McpToolOffer, taken: set[str]) -> SidecarEntry:
    picked = None if entry.picked is None else {claim.name: claim.spec or {} for claim in entry.picked}
    refused = list(offer.refused)
    clashes: list[UnreadableTool] = []
    claims: dict[str, ToolClaim] = {}
    for definition in all_definitions(offer):
        if picked is not None and definition.name not in picked:
            continue
        name = (
            f"{entry.id}.{REQUEST_NAMES[definition.request]}"
            if definition.request
            else capability_name(entry.id, entry.rename.get(definition.name, definition.name))
        )
        if why := _unusable_name(name, claims):
            refused.append(UnreadableTool(name=definition.name, why=why))
            continue
        if why := _clash(name, taken):
            clashes.append(UnreadableTool(name=definition.name, why=why))
            continue
        stricter = (picked or {}).get(definition.name, {})
        least = READ_CLASSES if definition.request else CLASSES
        claims[name] = ToolClaim(name=name, spec=offered_spec(name, definition, stricter, least))
    known = {definition.name for definition in all_definitions(offer)} | {
        tool.name for tool in (*refused, *clashes)
    }
    if offer.accepted or offer.waiting:
        absent = [name for name in dict.fromkeys((*(picked or {}), *entry.rename)) if name not in known]
        refused += [UnreadableTool(name=name, why="is not offered by the server") for name in absent]
    other = f"write the entry with another id, such as {free_id(entry.id)}, and trust it again"
    problems = (
        *entry.problems,
        *note_refused(entry, clashes, other),
        *note_refused(entry, refused, "if you need it, ask the maker of the server"),
    )
    return msgspec.structs.replace(entry, tools=tuple(claims.values()), problems=problems)


def all_definitions(offer: McpToolOffer) -> Iterator[ToolDefinition]:
    """Yield the trusted definitions, and an empty one for each new tool."""
    # No person has looked at a new tool yet, so neither its description nor its schema reaches an agent.
    yield from offer.accepted
    for name in offer.new:
        yield ToolDefinition(name=name, input_schema={"type": "object"})


def _unusable_name(name: str, claims: Mapping[str, ToolClaim]) -> str:
    """Return what is wrong with the server's own name for the tool, as a sentence without its subject."""
    if len(name) > LONGEST_NAME or _TOOL.fullmatch(name) is None:
        return "has a name that cannot be a tool's name in flytui"
    if name in claims:
        return f"would be called {name}, like another of the server's tools"
    return ""


def _clash(name: str, taken: set[str]) -> str:
    """Return why the tool is not offered below the entry's id, as a sentence without its subject."""
    if is_builtin_name(name):
        return f"would be called {name}, and names of that family are kept for the kernel's own tools"
    if name in KNOWN:
        return f"would be called {name}, which flytui describes itself"
    if name in taken:
        return f"would be called {name}, which another entry describes"
    return ""


def offered_spec(
    name: str, definition: ToolDefinition, stricter: JsonObject, least: tuple[str, ...]
) -> JsonObject:
    """Return the tool object for a definition. `stricter` is what the entry says of the tool, and `least` are
    the approval classes that it has in any case."""
    spec: JsonObject = {
        "approvalClass": list(least),
        **{key: value for key, value in stricter.items() if key != "name"},
        "name": name,
        "description": "\n".join(safe_lines(definition.description[:LONGEST_DESCRIPTION])),
        "inputSchema": definition.input_schema,
        "outputSchema": definition.output_schema,
        "title": safe_text(definition.title[:LONGEST_TITLE]),
        "hints": dict(definition.hints),
        "upstream": definition.name,
        "definition": definition.digest(),
        "request": definition.request,
    }
    if definition.request:
        spec["resultLimit"] = WHOLE_RESULT
    classes = spec["approvalClass"]
    more = [classes] if isinstance(classes, str) else classes if isinstance(classes, list) else []
    spec["approvalClass"] = list(dict.fromkeys((*least, *(str(item) for item in more))))
    if definition.destructive:
        spec["risk"] = "high"
    return spec


def offered_capability(claim: ToolClaim, sidecar: str) -> Capability:
    """Return the capability for a claim made by `offered_spec`. Raises what `capability_from_spec` raises."""
    found = capability_from_spec(claim, sidecar)
    spec = claim.spec or {}
    request = str(spec.get("request", ""))
    if request:
        # It changes nothing at the server, whatever that says. The entry can raise the risk.
        declared = spec.get("risk")
        risk = Risk(declared) if isinstance(declared, str) else Risk.LOW
        found = msgspec.structs.replace(found, risk=risk, read_only=risk is Risk.LOW)
    return msgspec.structs.replace(
        found,
        request=request,
        family=family_of(claim.name),
        upstream=str(spec.get("upstream", "")),
        definition=str(spec.get("definition", "")),
        title=str(spec.get("title", "")),
        hints=_hints(spec.get("hints")),
    )


def _hints(said: Json) -> dict[str, bool]:
    return {name: value is True for name, value in said.items()} if isinstance(said, dict) else {}


def untrusted_names(entry: SidecarEntry, offer: McpToolOffer) -> dict[str, bool]:
    """Return the entry's capabilities that wait for a person, and whether each is new."""
    names = {str((claim.spec or {}).get("upstream", "")): claim.name for claim in entry.tools}
    return {names[tool]: tool in offer.new for tool in offer.waiting if tool in names}


def missing_names(entry: SidecarEntry, offer: McpToolOffer) -> frozenset[str]:
    """Return the entry's capabilities that the server no longer offers."""
    names = {str((claim.spec or {}).get("upstream", "")): claim.name for claim in entry.tools}
    return frozenset(names[tool] for tool in offer.gone if tool in names)


def note_refused(entry: SidecarEntry, refused: list[UnreadableTool], remedy: str) -> Iterator[Diagnostic]:
    """Yield a warning about each tool that is not offered, up to MAX_NAMED."""
    for tool in refused[:MAX_NAMED]:
        yield _warning(entry, f"{_quoted(tool.name)} {tool.why}", remedy)
    if len(refused) > MAX_NAMED:
        yield _warning(
            entry, f"and {len(refused) - MAX_NAMED} more of its tools are not offered", "see those above"
        )


def _warning(entry: SidecarEntry, message: str, remedy: str) -> Diagnostic:
    return Diagnostic(
        severity=Severity.WARNING,
        rule=RULE,
        message=f"{entry.id}: {message}",
        remedy=remedy,
        pointer="" if entry.source.discovered else f"/sidecars/{entry.id}",
        position=entry.position,
        sidecar=entry.id,
    )


def _quoted(name: str) -> str:
    shown = strict_text(name[:LONGEST_NAME])
    return f"“{shown}”"
