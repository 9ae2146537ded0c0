"""Builds the catalog from facts: a pure function, linear in the number of tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase

import msgspec

from flycore.catalog.bindings import resolve_bindings
from flycore.catalog.builtin import KNOWN, is_builtin_name
from flycore.catalog.builtin_tools import builtin_view
from flycore.catalog.dialect import in_dialect
from flycore.catalog.fixes import NO_MACHINE, Machine
from flycore.catalog.mcp_capabilities import missing_names, offered_capability, untrusted_names
from flycore.catalog.observations import NOTHING_SEEN, Observation
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
from flycore.model.enums import Decision, Effective, Kind, Level, SandboxState, Source
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.model.stability import SandboxReport, Stability
from flycore.model.upstream import McpToolOffer

PROTOCOLS = ("1",)
"""The versions of process-json that this kernel speaks."""
NOTHING = "none"
"""The `source` of a known tool that no sidecar offers."""

PolicyView = Callable[[Capability, SidecarEntry], tuple[Decision, str]]


class CatalogFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that the catalog is built from; mappings are by sidecar id unless they say otherwise.

    A fact that is absent is not known yet. For `programs` and `trusted`, absent means refused.
    """

    registry: Registry
    programs: Mapping[str, ResolvedProgram]
    trusted: frozenset[str]
    policy: PolicyView
    core: str
    version: int
    now: float
    """Unix time, seconds."""
    protocols: tuple[str, ...] = PROTOCOLS
    delegates: Mapping[str, Mapping[str, ResolvedProgram]] = msgspec.field(default_factory=dict)
    installed: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The installed version of the declared package; for a bundled sidecar, that of the distribution."""
    missing_secrets: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    seen: Mapping[str, Observation] = msgspec.field(default_factory=dict)
    sandbox: Mapping[str, SandboxReport] = msgspec.field(default_factory=dict)
    changed: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """For an entry whose changed value waits for trust: the difference from the last trusted value, which is
    the one in `registry`."""
    exceeded: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    minimum: Mapping[str, Level] = msgspec.field(default_factory=dict)
    """The weakest level that each tool may run at by the person's settings, by tool."""
    least: Mapping[str, Level] = msgspec.field(default_factory=dict)
    """The weakest level of the tools that the settings do not name."""
    level_remedies: Mapping[Level, str] = msgspec.field(default_factory=dict)
    """By level: what makes it possible here, where it is not and anything does."""
    blocked: frozenset[str] = frozenset()
    offers: Mapping[str, McpToolOffer] = msgspec.field(default_factory=dict)
    """What executables and MCP servers offer. `with_offered_tools` has put these tools into the registry's
    entries before."""
    bundled: frozenset[str] = frozenset()
    """Sidecars whose program is that of this distribution."""
    machine: Machine = NO_MACHINE
    plan_denied: Callable[[Capability], str] = lambda capability: ""
    """Returns by which rules a plan itself is denied for every input; empty where it is not."""
    builtin: Mapping[str, SidecarEntry] = msgspec.field(default_factory=dict)
    """What stands for the entries of the kernel's own tools, by tool."""
    described: tuple[Described, ...] = ()
    """Kits, skills, plugins and servers, as their files describe them."""
    hide_degraded: tuple[str, ...] = ()
    """Patterns of tools that agents are not shown while they are degraded."""
    registry_file: str = ""
    """The project's registry, relative to the app root; empty where there is none."""


def build_catalog(facts: CatalogFacts) -> Catalog:
    """Return the catalog: every sidecar of the registry, every tool that one offers, and every known tool
    that none offers."""
    winners = _offering_sidecars(facts.registry)
    users = _user_claims(facts.registry)
    sidecars: list[SidecarView] = []
    views: dict[str, CapabilityView] = {}
    for entry in facts.registry.entries:
        dialect = dialect_of(entry, facts.seen.get(entry.id, NOTHING_SEEN).finding)
        capabilities = {
            name: _as_risky_as(capability, entry, users)
            for name, capability in _offered_tools(entry, winners, dialect)
        }
        known = _facts_of(facts, entry, capabilities)
        whole, source = sidecar_stability(known), _source(entry)
        for name, stability in _tool_stabilities(known, capabilities, whole):
            views[name] = CapabilityView(
                capability=capabilities[name],
                sidecar=entry.id,
                source=source,
                stability=stability,
                decision=known.policy(name)[0],
                because=known.policy(name)[1],
            )
        tools = [views[name].stability for name in capabilities]
        sidecars.append(
            SidecarView(
                id=entry.id,
                entry=entry,
                trusted=known.trusted,
                stability=with_tools(whole, tools),
                changed=facts.changed.get(entry.id, ()),
                tool_count=len(tools),
                available_tools=sum(tool.effective is Effective.AVAILABLE for tool in tools),
                lists=facts.offers.get(entry.id, McpToolOffer()).lists,
            )
        )
    line = _first_line(facts.registry)
    for name, entry in facts.builtin.items():
        known = msgspec.structs.replace(_facts_of(facts, entry, {name: KNOWN[name]}), trusted=True)
        views[name] = builtin_view(known, name)
    for name in KNOWN:
        if name not in views:
            views[name] = _unoffered_tools(KNOWN[name], facts.registry_file, line)
    for name in plan_names():
        views[name] = plan_capability(
            KNOWN[name], views, denied=facts.plan_denied(KNOWN[name]), blocked=name in facts.blocked
        )
    return Catalog(
        version=facts.version,
        app_root=facts.registry.app_root,
        sidecars=tuple(sidecars),
        capabilities=tuple(_hidden_where_degraded(views[name], facts) for name in sorted(views)),
        diagnostics=facts.registry.diagnostics,
        described=resolve_bindings(facts.described, views, facts.registry),
        built_at=facts.now,
    )


def _hidden_where_degraded(view: CapabilityView, facts: CatalogFacts) -> CapabilityView:
    """Return the tool, hidden from agents where it is degraded and the settings name it."""
    degraded = view.stability.effective is Effective.DEGRADED
    if not degraded or not any(fnmatchcase(view.capability.name, one) for one in facts.hide_degraded):
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


def _facts_of(
    facts: CatalogFacts, entry: SidecarEntry, capabilities: Mapping[str, Capability]
) -> SidecarFacts:
    decided: dict[str, tuple[Decision, str]] = {}

    def policy(tool: str) -> tuple[Decision, str]:
        if tool not in decided:
            capability = capabilities.get(tool)
            decided[tool] = (Decision.ASK, "") if capability is None else facts.policy(capability, entry)
        return decided[tool]

    offer = facts.offers.get(entry.id, McpToolOffer())
    return SidecarFacts(
        entry=entry,
        program=facts.programs.get(entry.id),
        core=facts.core,
        protocols=facts.protocols,
        policy=policy,
        delegates=facts.delegates.get(entry.id, {}),
        installed_version=facts.installed.get(entry.id),
        trusted=entry.id in facts.trusted,
        missing_secrets=facts.missing_secrets.get(entry.id, {}),
        seen=facts.seen.get(entry.id, NOTHING_SEEN),
        sandbox=facts.sandbox.get(entry.id),
        exceeded=facts.exceeded.get(entry.id, ()),
        minimum=facts.minimum,
        least=facts.least.get(entry.id, Level.NONE),
        level_remedies=facts.level_remedies,
        blocked=facts.blocked,
        changed_tools=untrusted_names(entry, offer),
        gone_tools=missing_names(entry, offer),
        bundled=entry.id in facts.bundled,
        machine=facts.machine,
    )


def _tool_stabilities(
    known: SidecarFacts, capabilities: Mapping[str, Capability], whole: Stability
) -> Iterator[tuple[str, Stability]]:
    """Yield the snapshot of each tool."""
    # Tools of one sidecar that nothing tells apart share one snapshot: a server may offer thousands of tools.
    # Where an early dimension failed, all of them share the sidecar's own.
    settled = whole.sandbox is None and whole.probe is None
    shared: dict[object, Stability] = {}
    for name in capabilities:
        if settled:
            yield name, whole
            continue
        key = tool_variant_key(known, name)
        if key not in shared:
            shared[key] = sidecar_stability(known, name)
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
