"""Compares kits, skills, plugins and foreign servers with the catalog and the registry.

It counts the capabilities that a kit names, finds servers that the registry has already, and removes what
agents must not see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from flycore.model.catalog import CapabilityView
from flycore.model.described import Binding, Described, DescribedState, Origin
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.enums import Kind
from flycore.model.json import Json, JsonObject
from flycore.model.sidecar import Registry

ALL = "*"


def resolve_bindings(
    described: Iterable[Described], views: Mapping[str, CapabilityView], registry: Registry
) -> tuple[Described, ...]:
    """Return the sources with their bindings counted in the catalog, and their servers looked up in the
    registry."""
    return tuple(_bound_sources(_by_tool_name(item, registry), views) for item in described)


def _by_tool_name(item: Described, registry: Registry) -> Described:
    """Withdraw the import of a server that an entry runs already, or whose id another entry has."""
    if item.offer is None:
        return item
    command = _by_command(item.offer.entry)
    same = (
        entry for entry in registry.entries if entry.kind is Kind.MCP and _by_command(entry.raw) == command
    )
    entry = next(same, None) or registry.entry(item.offer.id)
    if entry is None:
        return item
    known = entry.kind is Kind.MCP
    sentence = "the registry has this server already, as" if known else "another entry has its id already:"
    reason = Diagnostic(
        severity=Severity.INFO,
        rule="registered" if known else "id-taken",
        message=f"{item.id}: {sentence} {entry.id} ({entry.position.file}:{entry.position.line})",
        remedy=f"flytui inspect {entry.id} shows it" if known else "give the server another name there",
        position=entry.position,
    )
    state = DescribedState.REGISTERED if known and item.state is DescribedState.LISTED else item.state
    return msgspec.structs.replace(item, state=state, offer=None, reasons=(*item.reasons, reason))


def _by_command(entry: JsonObject) -> tuple[Json, ...]:
    """Return what tells one server from another: command, arguments and address."""
    return entry.get("command"), entry.get("args", []), entry.get("url")


def _bound_sources(item: Described, views: Mapping[str, CapabilityView]) -> Described:
    bindings = tuple(_counted_sources(binding, views) for binding in item.bindings)
    return item if bindings == item.bindings else msgspec.structs.replace(item, bindings=bindings)


def _counted_sources(binding: Binding, views: Mapping[str, CapabilityView]) -> Binding:
    named = [view for name, view in views.items() if binds(binding.name, name)]
    usable = sum(view.stability.effective.usable for view in named)
    return Binding(name=binding.name, known=len(named), usable=usable)


def binds(pattern: str, name: str) -> bool:
    """Return whether a binding such as `web.*` names that capability."""
    if pattern == ALL:
        return True
    return name.startswith(pattern[:-1]) if pattern.endswith(".*") else name == pattern


def for_agents(described: Described) -> Described:
    """Return the source as an agent may see it: without paths in the person's home, commands and imports, and
    of each fault only its rule."""
    own = described.source is Origin.USER
    reasons = (
        msgspec.structs.replace(
            reason, message=reason.rule, remedy="", excerpt="", position=None if own else reason.position
        )
        for reason in described.reasons
    )
    return msgspec.structs.replace(
        described, path="" if own else described.path, lines=(), offer=None, reasons=tuple(reasons)
    )
