"""The stability snapshot of a sidecar and of each of its tools, from eight dimensions.

The dimensions are looked at in order, until one of them fails so that the later ones mean nothing. Everything
here is a function of facts that are handed in. What the table of the dimensions leaves open:

- A kind that this version does not run is `version: incompatible`. Its path is not looked at, because it may
  have no command at all.
- A declared secret that is missing makes `probe: unavailable` with `secret-missing`. No process is started to
  find that out.
- An entry that is not trusted is described without starting anything: `probe: skipped`, `runtime: ready`,
  `sandbox: denied`.
- A probe that has not answered yet leaves `probe` unknown, which stops nothing.
- A delegate that cannot be run takes away only the tools that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from flycore.catalog import reasons
from flycore.catalog.builtin import KNOWN
from flycore.catalog.dialect import arguments_problem, dialect_names, tool_dialect
from flycore.catalog.fixes import NEEDED, NO_MACHINE, Machine, of_probe
from flycore.catalog.observations import NO_OBSERVATION, Observation
from flycore.catalog.probes import ProbeFinding
from flycore.catalog.registry_capability import describes_itself
from flycore.catalog.version import PROTOCOLS, check_versions
from flycore.model.catalog import Capability
from flycore.model.diagnostics import Severity
from flycore.model.enums import (
    RUNNABLE_KINDS,
    Decision,
    Discovery,
    Effective,
    Layer,
    Level,
    Manifest,
    PathState,
    ProbeState,
    ReasonCode,
    RuntimeState,
    SandboxState,
    UpgradeState,
    VersionState,
)
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import (
    Evidence,
    PathEvidence,
    Reason,
    SandboxReport,
    Stability,
    ToolProbe,
    VersionEvidence,
)
from flycore.model.upstream import McpLists

_STOPPING_UPGRADES = (UpgradeState.APPLYING, UpgradeState.ROLLBACK_REQUIRED, UpgradeState.FAILED)


def effective(stability: Stability) -> Effective:
    """Return the one word for a snapshot. A dimension that was not looked at does not count."""
    if stability.discovery is Discovery.DISABLED:
        return Effective.DISABLED
    if _unavailable(stability):
        return Effective.UNAVAILABLE
    if _degraded(stability):
        return Effective.DEGRADED
    return Effective.AVAILABLE


def _unavailable(stability: Stability) -> bool:
    return (
        stability.discovery is Discovery.MISSING
        or stability.manifest is Manifest.INVALID
        or stability.path in (PathState.UNRESOLVED, PathState.OUTSIDE_ROOT_DENIED)
        or stability.version is VersionState.INCOMPATIBLE
        or stability.upgrade in _STOPPING_UPGRADES
        or stability.probe is ProbeState.UNAVAILABLE
        or stability.sandbox is SandboxState.DENIED
    )


def _degraded(stability: Stability) -> bool:
    return (
        stability.runtime not in (None, RuntimeState.READY)
        or stability.probe is ProbeState.DEGRADED
        or (stability.version is VersionState.UNKNOWN and _is_other_package(stability.evidence.version))
        or stability.upgrade is UpgradeState.STAGED
        or stability.sandbox is SandboxState.QUOTA_LIMITED
        or any(reason.code in _DEGRADING for reason in stability.reasons)
    )


_DEGRADING = frozenset((ReasonCode.PERMISSION_MISSING, ReasonCode.ANSWERED_UNAVAILABLE))
"""Reasons of single tools that no dimension has a state for."""


def _is_other_package(evidence: VersionEvidence | None) -> bool:
    """Return whether a package is declared, and another one than that is installed."""
    return declares_package(evidence) and evidence is not None and evidence.installed_version is not None


def declares_package(evidence: VersionEvidence | None) -> bool:
    """Return whether the entry names a package, so that an unknown version matters."""
    return evidence is not None and (evidence.package_id is not None or evidence.package_version is not None)


DELEGATE_TOOLS: Mapping[str, str] = {
    "mouse": "computer.mouse",
    "keyboard": "computer.keyboard",
    "lsp": "lsp.*",
    "task": "task.background",
}
"""The tools that need each delegate. A delegate that is absent here serves the tool of its own name."""
ACTING_CLASSES = frozenset(("write", "execute", "computer", "message"))
"""Approval classes of tools that do something: a success without the act would deceive the agent."""
OWN_PROTOCOLS = frozenset(("process-json/1",))
"""What the answer to a probe may name as `protocol`: its program reads the fields of known tools."""
MANIFEST_REASONS = 5
"""Problems of an entry that become reasons. All of them are in the evidence."""

PolicyView = Callable[[Capability, SidecarEntry], tuple[Decision, str]]
"""Returns policy's decision on a tool before an input is known, and why."""


class SidecarFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about one entry."""

    entry: SidecarEntry
    program: ResolvedProgram | None
    core: str
    policy: PolicyView
    tools: Mapping[str, Capability] = msgspec.field(default_factory=dict)
    """The tools that it offers, by name. `build_catalog` adds them."""
    delegates: Mapping[str, ResolvedProgram] = msgspec.field(default_factory=dict)
    installed_version: str | None = None
    trusted: bool = False
    changed: tuple[str, ...] = ()
    """The difference of the changed entry that waits for trust from `entry`."""
    missing_secrets: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Why each missing secret counts as missing, by name; never a value."""
    observation: Observation = NO_OBSERVATION
    sandbox: SandboxReport | None = None
    exceeded: tuple[str, ...] = ()
    """Permissions beyond the limit in the person's settings, in words."""
    minimum: Mapping[str, Level] = msgspec.field(default_factory=dict)
    """The weakest level that a tool may run at by the person's settings, by tool."""
    least: Level = Level.NONE
    """The weakest level that the entry's tools may run at where the settings name no other."""
    level_remedies: Mapping[Level, str] = msgspec.field(default_factory=dict)
    """What makes each level possible that is not, where anything does."""
    blocked: frozenset[str] = frozenset()
    changed_tools: Mapping[str, bool] = msgspec.field(default_factory=dict)
    """Tools of an MCP server that wait for a person, and whether each is new."""
    gone_tools: frozenset[str] = frozenset()
    """Tools that their MCP server no longer offers."""
    lists: McpLists = McpLists()
    """What its MCP server lists besides tools."""
    bundled: bool = False
    """Whether its program is that of this distribution."""
    machine: Machine = NO_MACHINE
    decided: dict[str, tuple[Decision, str]] = msgspec.field(default_factory=dict)
    """The decisions that were asked for, by tool: each rule is compared with a tool once."""

    def decision(self, tool: str) -> tuple[Decision, str]:
        """Return policy's decision on the tool, and why."""
        if tool not in self.decided:
            capability = self.tools.get(tool)
            found = (Decision.ASK, "") if capability is None else self.policy(capability, self.entry)
            self.decided[tool] = found
        return self.decided[tool]


class DimensionResult(msgspec.Struct, frozen=True):
    """One dimension: its state, the reasons, the evidence, and whether the later dimensions are left out."""

    state: StrEnum | None
    reasons: tuple[Reason, ...] = ()
    evidence: Mapping[str, object] = msgspec.field(default_factory=dict)
    breaks: bool = False


def missing_stability(capability: Capability, registry: str = "", line: int = 0) -> Stability:
    """Return the snapshot of a known tool that no sidecar offers. `registry` and `line` say where an entry
    for it can be added."""
    reason = reasons.not_configured(capability, registry, line)
    found = Stability(discovery=Discovery.MISSING, reasons=(reason,))
    return msgspec.structs.replace(found, effective=effective(found))


def sidecar_stability(facts: SidecarFacts, tool: str | None = None) -> Stability:
    """Return the snapshot of the sidecar or, with `tool`, of that tool of it."""
    states: dict[str, object] = {}
    evidence: dict[str, object] = {"violations": facts.entry.problems}
    why: list[Reason] = []
    for dimension, check in _DIMENSIONS:
        if check is _probe and facts.entry.upgrade in _STOPPING_UPGRADES:
            # A version that is being changed, or has to be rolled back, is not asked anything any more.
            dimension, check = "upgrade", _upgrade
        result = check(facts, tool)
        states[dimension] = result.state
        evidence.update(result.evidence)
        # What stops the tool comes first: callers are told the first reason, and the others only limit it.
        why = [*result.reasons, *why] if result.breaks else [*why, *result.reasons]
        if result.breaks:
            break
    found = Stability(discovery=Discovery.CONFIGURED)
    found = msgspec.structs.replace(
        found, **states, reasons=tuple(why), evidence=msgspec.structs.replace(Evidence(), **evidence)
    )
    return msgspec.structs.replace(found, effective=effective(found))


def reaches_probe(stability: Stability) -> bool:
    """Return whether everything that is looked at before the probe is good. What the last probe found does
    not count: it may have been mended since."""
    return (
        stability.discovery is Discovery.CONFIGURED
        and stability.manifest is Manifest.VALID
        and stability.path is PathState.RESOLVED
        and stability.version is not VersionState.INCOMPATIBLE
        and stability.upgrade not in _STOPPING_UPGRADES
    )


def with_tools(whole: Stability, tools: Sequence[Stability]) -> Stability:
    """Return the snapshot of a sidecar that is as well as its tools: available where all of them are,
    degraded where some are, unavailable where none is, with the reasons of the first tool that is not."""
    if not tools or not whole.effective.usable:
        return whole
    unwell = [tool for tool in tools if tool.effective is not Effective.AVAILABLE]
    if not unwell:
        return whole
    any_usable = any(tool.effective.usable for tool in tools)
    worst = min(unwell, key=lambda tool: tool.effective.usable)
    whole = msgspec.structs.replace(
        whole,
        effective=Effective.DEGRADED if any_usable else Effective.UNAVAILABLE,
        reasons=whole.reasons or worst.reasons,
    )
    return _with_probes(whole, [tool.probe for tool in tools])


def _with_probes(whole: Stability, probes: Sequence[ProbeState | None]) -> Stability:
    """Return the snapshot of a sidecar with what its probe says of its tools. Where none of them can work,
    its ladder ends there, as theirs do."""
    if whole.probe is not ProbeState.HEALTHY or set(probes) <= {ProbeState.HEALTHY, None}:
        return whole
    if set(probes) != {ProbeState.UNAVAILABLE}:
        return msgspec.structs.replace(whole, probe=ProbeState.DEGRADED)
    return msgspec.structs.replace(
        whole, probe=ProbeState.UNAVAILABLE, runtime=None, sandbox=None, upgrade=None
    )


def tool_variant_key(facts: SidecarFacts, tool: str) -> Hashable:
    """Return a key for the tool's snapshot: tools of one sidecar with equal keys have equal snapshots."""
    probed = _probed_tool(facts, tool)
    broken = _broken_delegate(facts, tool)
    return (
        probed,
        broken and broken[0],
        facts.decision(tool),
        tool in facts.blocked,
        tool if tool in facts.changed_tools or tool in facts.gone_tools else None,
        NEEDED.get(tool),
        tool if _dialect_unknown(facts, tool) or _arguments_problem(facts, tool) is not None else None,
        tool if _weaker_than_required(facts, tool) is not None else None,
        tool if tool in facts.observation.refusals else None,
        tool if tool in facts.observation.unavailable else None,
    )


def _probed_tool(facts: SidecarFacts, tool: str) -> ToolProbe | None:
    """Return what the sidecar's last answer says of that tool alone."""
    finding = facts.observation.finding
    return finding.evidence.tools.get(tool) if finding is not None and finding.evidence is not None else None


def _discovery(facts: SidecarFacts, _: str | None) -> DimensionResult:
    if not facts.entry.enabled:
        return DimensionResult(Discovery.DISABLED, (reasons.disabled(facts.entry),), breaks=True)
    return DimensionResult(Discovery.CONFIGURED)


def _manifest(facts: SidecarFacts, _: str | None) -> DimensionResult:
    if facts.entry.valid:
        return DimensionResult(Manifest.VALID)
    errors = [problem for problem in facts.entry.problems if problem.severity is Severity.ERROR]
    why = tuple(reasons.manifest_invalid(facts.entry, problem) for problem in errors[:MANIFEST_REASONS])
    return DimensionResult(Manifest.INVALID, why, breaks=True)


def _path(facts: SidecarFacts, _: str | None) -> DimensionResult:
    program = facts.program
    if facts.entry.kind not in RUNNABLE_KINDS:
        return DimensionResult(None)
    if program is None:
        return DimensionResult(PathState.UNRESOLVED, (reasons.path_failed(facts.entry, None),), breaks=True)
    evidence = {
        "path": PathEvidence(
            mode=program.mode,
            base=program.base,
            portable=program.portable,
            root_safe=program.root_safe,
            command=program.declared,
            resolved=program.path,
        )
    }
    if program.state is PathState.RESOLVED:
        return DimensionResult(program.state, evidence=evidence)
    return DimensionResult(
        program.state, (reasons.path_failed(facts.entry, program, facts.machine),), evidence, breaks=True
    )


def _version(facts: SidecarFacts, _: str | None) -> DimensionResult:
    state, reason, evidence = check_versions(
        facts.entry, core=facts.core, protocols=PROTOCOLS, installed_version=facts.installed_version
    )
    why = () if reason is None else (reason,)
    return DimensionResult(state, why, {"version": evidence}, breaks=state is VersionState.INCOMPATIBLE)


def _probe(facts: SidecarFacts, tool: str | None) -> DimensionResult:
    if not facts.trusted:
        return DimensionResult(ProbeState.SKIPPED)
    if facts.missing_secrets:
        missing = reasons.secret_missing(facts.entry, facts.missing_secrets)
        return DimensionResult(ProbeState.UNAVAILABLE, (missing,), breaks=True)
    probe = facts.observation.finding
    evidence = {} if probe is None or probe.evidence is None else {"probe": probe.evidence}
    if probe is not None and probe.state is ProbeState.UNAVAILABLE:
        return DimensionResult(probe.state, _probe_result(facts, tool, probe), evidence, breaks=True)
    if tool is not None and (narrowed := _tool_result(facts, tool)) is not None:
        state, reason = narrowed
        return DimensionResult(state, (reason,), evidence, breaks=state is ProbeState.UNAVAILABLE)
    return DimensionResult(
        probe.state if probe else None, _probe_result(facts, tool, probe) if probe else (), evidence
    )


def _probe_result(facts: SidecarFacts, tool: str | None, probe: ProbeFinding) -> tuple[Reason, ...]:
    if probe.reason is None:
        return ()
    return (of_probe(facts.entry, probe.reason, tool, facts.bundled, facts.machine),)


def _tool_result(facts: SidecarFacts, tool: str) -> tuple[ProbeState, Reason] | None:
    """Return what makes this tool alone worse than its sidecar; None where nothing does."""
    broken = _broken_delegate(facts, tool)
    if broken is not None:
        return ProbeState.UNAVAILABLE, reasons.delegate_missing(facts.entry, *broken, facts.machine)
    if tool in facts.gone_tools:
        return ProbeState.UNAVAILABLE, reasons.offered_no_longer(tool, facts.entry.id)
    if (unnamed := _arguments_problem(facts, tool)) is not None:
        return ProbeState.UNAVAILABLE, unnamed
    probed = _probed_tool(facts, tool)
    if probed is None or probed.status not in (ProbeState.DEGRADED, ProbeState.UNAVAILABLE):
        if _dialect_unknown(facts, tool):
            return ProbeState.DEGRADED, reasons.dialect_unknown(facts.entry, tool)
        return None
    reason = _tool_reason(facts.entry, tool, probed)
    return probed.status, of_probe(facts.entry, reason, tool, facts.bundled, facts.machine)


def dialect_of(entry: SidecarEntry, probe: ProbeFinding | None) -> str:
    """Return the dialect of an entry's program: that of the entry, else the one that its probe names, if it
    is known; empty where there is none."""
    said = probe.evidence.dialect if probe is not None and probe.evidence is not None else ""
    return entry.dialect or (said if said in dialect_names() else "")


def _arguments_problem(facts: SidecarFacts, tool: str) -> Reason | None:
    """Return why a tool of a dialect cannot be called as the entry's config is."""
    dialect = dialect_of(facts.entry, facts.observation.finding)
    if not dialect or _describes(facts.entry, tool):
        return None
    why, key = arguments_problem(dialect, tool, facts.entry)
    return reasons.no_arguments(facts.entry, tool, why, key) if why else None


def _describes(entry: SidecarEntry, tool: str) -> bool:
    return any(describes_itself(claim) for claim in entry.tools if claim.name == tool)


def _dialect_unknown(facts: SidecarFacts, tool: str) -> bool:
    """Return whether the tool acts on fields of ours in a foreign program that may not know them."""
    known = KNOWN.get(tool)
    if known is None or known.read_only or ACTING_CLASSES.isdisjoint(known.approval_class) or facts.bundled:
        return False
    if known.layer is Layer.BUILTIN:
        return False
    finding = facts.observation.finding
    evidence = finding.evidence if finding is not None else None
    if evidence is not None and evidence.protocol in OWN_PROTOCOLS:
        return False
    if tool_dialect(dialect_of(facts.entry, facts.observation.finding), tool) is not None:
        return False
    return not _describes(facts.entry, tool)


def _tool_reason(entry: SidecarEntry, tool: str, probed: ToolProbe) -> Reason:
    unavailable = probed.status is ProbeState.UNAVAILABLE
    usual = ReasonCode.TOOL_UNAVAILABLE if unavailable else ReasonCode.PROBE_DEGRADED
    return Reason(
        code=probed.code or usual,
        dimension="probe",
        message=probed.reason or f"{entry.id} says that {tool} is {probed.status}",
        remedy=probed.remedy
        or f"flytui inspect {entry.id} shows what it wrote, and docs/sidecars.md says what it needs",
    )


def _broken_delegate(facts: SidecarFacts, tool: str) -> tuple[str, ResolvedProgram] | None:
    for name, program in facts.delegates.items():
        if program.state is not PathState.RESOLVED and fnmatchcase(tool, DELEGATE_TOOLS.get(name, name)):
            return name, program
    return None


def _runtime(facts: SidecarFacts, tool: str | None) -> DimensionResult:
    if not facts.trusted:
        return DimensionResult(RuntimeState.READY)
    failure = facts.observation.failure
    if failure is None:
        said = facts.observation.unavailable.get(tool or "")
        if said is None:
            return DimensionResult(RuntimeState.READY)
        reason = reasons.answered_unavailable(facts.entry, tool or "", said.message, said.hint)
        return DimensionResult(RuntimeState.READY, (reason,))
    reason = reasons.runtime_failed(facts.entry, failure.state, failure.evidence)
    return DimensionResult(failure.state, (reason,), {"runtime": failure.evidence})


def _sandbox(facts: SidecarFacts, tool: str | None) -> DimensionResult:
    evidence = {} if facts.sandbox is None else {"sandbox": facts.sandbox}
    refused = _policy_result(facts, tool)
    if refused is not None:
        return DimensionResult(SandboxState.DENIED, (refused,), evidence, breaks=True)
    asks = any(facts.decision(name)[0] is Decision.ASK for name in _tools(facts, tool))
    lacking = facts.observation.refusals.get(tool or "")
    why = () if lacking is None else (reasons.permission_missing(facts.entry, tool or "", lacking),)
    return DimensionResult(SandboxState.APPROVAL_REQUIRED if asks else SandboxState.ALLOWED, why, evidence)


def _policy_result(facts: SidecarFacts, tool: str | None) -> Reason | None:
    """Return why the tool may not run; for the sidecar as a whole, only a reason that holds for all its
    tools."""
    if not facts.trusted:
        return reasons.folder_untrusted(facts.entry)
    if facts.exceeded:
        return reasons.ceiling_exceeded(facts.entry, facts.exceeded)
    if facts.sandbox is not None and facts.sandbox.level is Level.DENIED:
        return reasons.sandbox_unavailable(facts.entry, facts.sandbox.mechanism)
    level = facts.sandbox.level if facts.sandbox is not None else None
    # An MCP server that runs nowhere has listed no tools yet.
    lowest = lowest_minimum(facts.entry.id, facts.least, facts.minimum)
    if tool is None and not facts.entry.tool_names and level is not None and not level.at_least(lowest):
        return _too_weak(facts, facts.entry.id, facts.least)
    first: Reason | None = None
    for name in _tools(facts, tool):
        reason = _tool_policy_result(facts, name)
        if reason is None:
            return None
        first = first or reason
    return first


def lowest_minimum(sidecar: str, least: Level, minimum: Mapping[str, Level]) -> Level:
    """Return the lowest level that any tool of an MCP server may have, however the server names its tools.
    `least` is the minimum of the entry, and `minimum` holds those of the person's settings by tool."""
    named = (level for tool, level in minimum.items() if tool.rpartition(".")[0] == sidecar)
    return min((least, *named), key=list(Level).index)


def _tool_policy_result(facts: SidecarFacts, tool: str) -> Reason | None:
    if tool in facts.blocked:
        return reasons.blocked(tool)
    if tool in facts.changed_tools:
        return reasons.definition_changed(tool, new=facts.changed_tools[tool])
    if (weak := _weaker_than_required(facts, tool)) is not None:
        return weak
    decision, because = facts.decision(tool)
    return reasons.policy_denied(tool, because) if decision is Decision.DENY else None


def _weaker_than_required(facts: SidecarFacts, tool: str) -> Reason | None:
    """Return that the tool would run at a weaker level than its minimum; None where it would not."""
    least = facts.minimum.get(tool, facts.least)
    if facts.sandbox is None or facts.sandbox.level.at_least(least):
        return None
    return _too_weak(facts, tool, least)


def _too_weak(facts: SidecarFacts, what: str, least: Level) -> Reason:
    level = facts.sandbox.level if facts.sandbox is not None else Level.NONE
    why = reasons.below_minimum(what, least, level)
    return reasons.sandbox_unavailable(facts.entry, why, facts.level_remedies.get(least, ""))


def _tools(facts: SidecarFacts, tool: str | None) -> tuple[str, ...]:
    return facts.entry.tool_names if tool is None else (tool,)


def _upgrade(facts: SidecarFacts, _: str | None) -> DimensionResult:
    stops = facts.entry.upgrade not in (UpgradeState.IDLE, UpgradeState.STAGED)
    return DimensionResult(facts.entry.upgrade, reasons.upgrade(facts.entry), breaks=stops)


_DIMENSIONS: tuple[tuple[str, Callable[[SidecarFacts, str | None], DimensionResult]], ...] = (
    ("discovery", _discovery),
    ("manifest", _manifest),
    ("path", _path),
    ("version", _version),
    ("probe", _probe),
    ("runtime", _runtime),
    ("sandbox", _sandbox),
    ("upgrade", _upgrade),
)
"""The dimensions and their checks, in order."""
