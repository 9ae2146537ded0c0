"""Builds the catalog from facts: a pure function, linear in the number of tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase

import msgspec

from flycore.catalog.bindings import resolve_bindings
from flycore.catalog.builtin import KNOWN, is_builtin_name
from flycore.catalog.builtin_tools import builtin_view
from flycore.catalog.dialect import in_dialect
from flycore.catalog.mcp_capabilities import offered_capability
from flycore.catalog.plan_capabilities import plan_capability, plan_names
from flycore.catalog.reasons import quota_limited
from flycore.catalog.registry_capability import capability_from_spec, describes_itself, greater_risk
from flycore.catalog.snapshot import (
    SidecarFacts,
    dialect_of,
    effective,
    missing_stability,
    sidecar_stability,
    tool_variant_key,
    with_tools,
)
from flycore.model.catalog import Capability, CapabilityView, Catalog, SidecarView
from flycore.model.described import Described
from flycore.model.enums import Effective, Kind, SandboxState, Source
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.model.stability import Stability

NOTHING = "none"
"""The `source` of a known tool that no sidecar offers."""
FIRST_VERSION = 1
"""The first version of a catalog; each change to what it shows adds one."""


def build_catalog(
    registry: Registry,
    sidecars: Sequence[SidecarFacts],
    builtin: Mapping[str, SidecarFacts] | None = None,
    *,
    now: float,
    plan_denied: Callable[[Capability], str] = lambda capability: "",
    blocked: frozenset[str] = frozenset(),
    described: tuple[Described, ...] = (),
    hide_degraded: tuple[str, ...] = (),
    registry_file: str = "",
    version: int = FIRST_VERSION,
) -> Catalog:
    """Return the catalog: every sidecar of the registry, every tool that one offers, and every known tool
    that none offers.

    `sidecars` are the facts about the registry's entries, in its order, and `builtin` those about what stands
    for the entries of the kernel's own tools, by tool. `plan_denied` returns by which rules a plan itself is
    denied for every input, or an empty text. `hide_degraded` are patterns of tools that agents are not shown
    while they are degraded. `registry_file` is the project's registry, relative to the app root, and `now`
    Unix time in seconds.
    """
    winners, users = _offering_sidecars(registry), _user_claims(registry)
    shown: list[SidecarView] = []
    views: dict[str, CapabilityView] = {}
    for facts in sidecars:
        view, offered = _sidecar_views(facts, winners, users)
        shown.append(view)
        views |= offered
    for name, facts in (builtin or {}).items():
        views[name] = builtin_view(
            msgspec.structs.replace(facts, tools={name: KNOWN[name]}, decided={}), name
        )
    line = _first_line(registry)
    for name in KNOWN:
        if name not in views:
            views[name] = _unoffered_tools(KNOWN[name], registry_file, line)
    for name in plan_names():
        denied = plan_denied(KNOWN[name])
        views[name] = plan_capability(KNOWN[name], views, denied=denied, blocked=name in blocked)
    return Catalog(
        version=version,
        app_root=registry.app_root,
        sidecars=tuple(shown),
        capabilities=tuple(_hidden_where_degraded(views[name], hide_degraded) for name in sorted(views)),
        diagnostics=registry.diagnostics,
        described=resolve_bindings(described, views, registry),
        built_at=now,
    )


def _sidecar_views(
    facts: SidecarFacts, winners: Mapping[str, str], users: Mapping[str, Capability]
) -> tuple[SidecarView, dict[str, CapabilityView]]:
    """Return the sidecar, and by name the tools that it offers."""
    entry = facts.entry
    offered = _offered_tools(entry, winners, dialect_of(entry, facts.observation.finding))
    tools = {name: _as_risky_as(capability, entry, users) for name, capability in offered}
    facts = msgspec.structs.replace(facts, tools=tools, decided={})
    whole, source = sidecar_stability(facts), _source(entry)
    views: dict[str, CapabilityView] = {}
    for name, stability in _tool_stabilities(facts, whole):
        decision, because = facts.decision(name)
        views[name] = CapabilityView(
            capability=tools[name],
            sidecar=entry.id,
            source=source,
            stability=stability,
            decision=decision,
            because=because,
        )
    stabilities = [view.stability for view in views.values()]
    view = SidecarView(
        id=entry.id,
        entry=entry,
        trusted=facts.trusted,
        stability=with_tools(whole, stabilities),
        changed=facts.changed,
        tool_count=len(stabilities),
        available_tools=sum(tool.effective is Effective.AVAILABLE for tool in stabilities),
        lists=facts.lists,
    )
    return view, views


def _hidden_where_degraded(view: CapabilityView, patterns: tuple[str, ...]) -> CapabilityView:
    """Return the tool, hidden from agents where it is degraded and the settings name it."""
    degraded = view.stability.effective is Effective.DEGRADED
    if not degraded or not any(fnmatchcase(view.capability.name, one) for one in patterns):
        return view
    return msgspec.structs.replace(view, hidden=True)


def _source(entry: SidecarEntry) -> str:
    """Return where an entry's tools come from, in words for clients."""
    if entry.kind is Kind.MCP:
        return f"mcp:{entry.id}"
    return f"{entry.source}:{entry.id}" if entry.source.discovered else f"registry:{entry.source}"


def _offering_sidecars(registry: Registry) -> dict[str, str]:
    """Return which sidecar offers each tool: the first one in the registry that claims it."""
    # Healthy or not: a tool must not move to another program because the first one is down for a moment. The
    # registry has reported the other claims in the `problems` of their entries.
    winners: dict[str, str] = {}
    for entry in registry.entries:
        for name in entry.tool_names:
            winners.setdefault(name, entry.id)
    return winners


def _offered_tools(
    entry: SidecarEntry, winners: Mapping[str, str], dialect: str
) -> Iterator[tuple[str, Capability]]:
    """Yield the capabilities that the entry offers, by name, as programs of its dialect offer them. A faulty
    claim of an invalid entry gives none."""
    for claim in entry.tools:
        if winners[claim.name] != entry.id or is_builtin_name(claim.name) or claim.name in plan_names():
            continue
        try:
            offered = entry.kind in (Kind.MCP, Kind.EXECUTABLE)
            if offered:
                yield claim.name, offered_capability(claim, entry.id)
                continue
            capability = capability_from_spec(claim, entry.id)
            # An entry that describes the tool itself has said which fields its program reads.
            own = describes_itself(claim)
            yield claim.name, capability if own or not dialect else in_dialect(capability, dialect)
        except (KeyError, msgspec.ValidationError):
            if claim.name in KNOWN:
                yield claim.name, KNOWN[claim.name]


def _user_claims(registry: Registry) -> dict[str, Capability]:
    """Return the tools that the user's own entries describe and an entry of the project took over."""
    taken = {name for entry in registry.entries for name in entry.took_over}
    found: dict[str, Capability] = {}
    for entry in (*registry.entries, *registry.replaced) if taken else ():
        described = entry.source is Source.USER and entry.kind is not Kind.MCP
        for claim in entry.tools if described else ():
            if claim.name in taken and claim.name not in found:
                with suppress(KeyError, msgspec.ValidationError):
                    found[claim.name] = capability_from_spec(claim, entry.id)
    return found


def _as_risky_as(capability: Capability, entry: SidecarEntry, users: Mapping[str, Capability]) -> Capability:
    own = users.get(capability.name) if entry.took_over else None
    return capability if own is None else greater_risk(capability, own)


def _tool_stabilities(facts: SidecarFacts, whole: Stability) -> Iterator[tuple[str, Stability]]:
    """Yield the snapshot of each tool."""
    # Tools of one sidecar that nothing tells apart share one snapshot: a server may offer thousands of tools.
    # Where an early dimension failed, all of them share the sidecar's own.
    settled = whole.sandbox is None and whole.probe is None
    shared: dict[object, Stability] = {}
    for name in facts.tools:
        if settled:
            yield name, whole
            continue
        key = tool_variant_key(facts, name)
        if key not in shared:
            shared[key] = sidecar_stability(facts, name)
        yield name, shared[key]


def _first_line(registry: Registry) -> int:
    """Return the line at which the project's entries begin; 1 where there is none."""
    lines = (entry.position.line for entry in registry.entries if entry.source is Source.PROJECT)
    return min(lines, default=1)


def _unoffered_tools(capability: Capability, registry: str, line: int) -> CapabilityView:
    stability = missing_stability(capability, registry, line)
    return CapabilityView(capability=capability, sidecar=None, source=NOTHING, stability=stability)


_LET_RUN = (SandboxState.ALLOWED, SandboxState.APPROVAL_REQUIRED)


def over_quota(catalog: Catalog, why: str) -> Catalog:
    """Return the catalog for a caller that has used up its quota. Every snapshot that would let it call
    becomes `quota-limited`, with `why` in its last reason. Quotas are per caller, so this is one caller's
    view only."""
    sidecars = tuple(
        msgspec.structs.replace(view, stability=_limited_view(view.stability, why))
        for view in catalog.sidecars
    )
    capabilities = tuple(
        msgspec.structs.replace(view, stability=_limited_view(view.stability, why))
        for view in catalog.capabilities
    )
    return msgspec.structs.replace(catalog, sidecars=sidecars, capabilities=capabilities)


def _limited_view(stability: Stability, why: str) -> Stability:
    if stability.sandbox not in _LET_RUN:
        return stability
    limited = msgspec.structs.replace(
        stability,
        sandbox=SandboxState.QUOTA_LIMITED,
        reasons=(*stability.reasons, quota_limited(why)),
    )
    return msgspec.structs.replace(limited, effective=effective(limited))
