"""Registry entries and permissions as flytui proposes them.

What flytui's own programs need stands in one place, the starter registry: remedies and findings take it from
there, so that no text offers an entry without its permissions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache, lru_cache

from flycore.catalog.builtin import BUNDLED_PROBED, BUNDLED_TOOLS, KNOWN
from flycore.model.catalog import Capability
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.json import Json, JsonObject, escape_key
from flycore.model.sidecar import OWN_PROGRAM, SidecarEntry

RULE = "no-permissions"
_NOT_PRINTED = frozenset({"enabled", "disabledReason", "config", "tools"})
"""Keys of a starter entry that a printed one leaves out: the person who adds it wants it switched on, and its
config is an example."""


def printed_entry(capability: Capability) -> str:
    """Return the text of an entry that offers the tool, with its permissions, for a registry file."""
    name = capability.name
    starter = _starter().get(name) if name in BUNDLED_TOOLS else None
    if starter is not None:
        kept = {key: value for key, value in starter.raw.items() if key not in _NOT_PRINTED}
        return member_text(starter.id, {**kept, "tools": [name]})
    own = name.replace(".", "-")
    permissions: JsonObject = {"network": True} if "network" in capability.approval_class else {}
    entry: JsonObject = {"command": f"./tools/packages/{own}/bin/{own}", "permissions": permissions}
    return member_text(name, {**entry, "tools": [name]})


_OTHERS = frozenset({"packageId", "packageVersion", "protocolVersion", "compatibleCore", "dialect", "cwd"})
"""Keys of an entry that speak of the program that it had."""


def with_own_program(entry: SidecarEntry) -> JsonObject | None:
    """Return the entry with flytui's own program in the place of one that is missing; None where flytui has
    no program of that name for all of its tools."""
    tools = entry.tool_names
    if entry.id not in BUNDLED_PROBED or not tools or not BUNDLED_TOOLS.issuperset(tools):
        return None
    config = {key: value for key, value in entry.config.items() if not _names_program(key)}
    delegates: JsonObject = {
        name: {"command": delegate.command, "args": [*delegate.args]}
        for tool in tools
        if tool in _starter()
        for name, delegate in _starter()[tool].delegates.items()
    }
    kept = {key: value for key, value in entry.raw.items() if key not in _OTHERS}
    made: JsonObject = {**kept, "command": OWN_PROGRAM, "args": [entry.id]}
    made |= {"config": config} if config or "config" in kept else {}
    made |= {"delegates": delegates} if delegates and "delegates" not in kept else {}
    return made if "permissions" in kept else {**made, "permissions": _united(tools)}


def _names_program(key: str) -> bool:
    """Whether a key of `config` names a program in the form of older sidecars, which flytui's own would ask
    in another form."""
    return key == "localCommands" or key.endswith(("Command", "Args"))


def member_text(key: str, value: Json) -> str:
    """Return the line of a registry file that holds the member."""
    return f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"


def proposed_permissions(entry: SidecarEntry) -> JsonObject:
    """Return the permissions that the entry's tools need where its program is one of flytui's own, and none
    where it is not known what the program needs."""
    if entry.command.rpartition("/")[2] != OWN_PROGRAM:
        return {}
    return _united(entry.tool_names)


def with_permissions(entry: JsonObject) -> JsonObject:
    """Return an entry, as JSON, that names a dialect and declares no permissions but secrets, with those that
    flytui's own programs need for its tools; every other entry as it is."""
    declared, tools = entry.get("permissions", {}), entry.get("tools")
    if "dialect" not in entry or not isinstance(declared, dict) or not declared.keys() <= {"secrets"}:
        return entry
    names = tuple(tool for tool in tools if isinstance(tool, str)) if isinstance(tools, list) else ()
    return {**entry, "permissions": {**_united(names), **declared}}


def undeclared_permissions(entries: Iterable[SidecarEntry]) -> tuple[Diagnostic, ...]:
    """Return a finding for each valid entry that starts a program and has no key `permissions`."""
    return tuple(
        Diagnostic(
            severity=Severity.WARNING,
            rule=RULE,
            message=f'{entry.id}: has no "permissions", so none are granted: no network, no secrets, and no '
            "files but its own program, its artifact folder and a private /tmp",
            remedy=f"add this line to the entry: {member_text('permissions', proposed_permissions(entry))},"
            f"{_what_to_write(entry)}",
            pointer=f"/sidecars/{escape_key(entry.id)}",
            position=entry.position,
            sidecar=entry.id,
        )
        for entry in entries
        if not entry.source.discovered and entry.valid and entry.command and "permissions" not in entry.raw
    )


def _what_to_write(entry: SidecarEntry) -> str:
    known = bool(proposed_permissions(entry))
    return "" if known else " and write what the tool needs into it (docs/sandbox.md)"


@cache
def _starter() -> dict[str, SidecarEntry]:
    """The entries of the starter registry by the tools that they offer."""
    # The editor of registry files is loaded only where an entry is printed.
    from flycore.registry.edits import starter_entries

    return {name: entry for entry in starter_entries(frozenset(KNOWN)) for name in entry.tool_names}


@lru_cache(maxsize=64)
def _united(tools: tuple[str, ...]) -> JsonObject:
    """What the starter's entries for these tools declare, together."""
    declared = [_starter()[name].permissions for name in tools if name in _starter()]
    fs: JsonObject = {}
    for key in ("read", "write"):
        paths = dict.fromkeys(path for item in declared for path in getattr(item, key))
        if paths:
            fs[key] = [*paths]
    united: JsonObject = {"fs": fs} if fs else {}
    for key in ("network", "desktop"):
        if any(getattr(item, key) for item in declared):
            united[key] = True
    return united
