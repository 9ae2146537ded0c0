"""The stability snapshot of a tool or sidecar: whether it works, and if not, why, and what you can do."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic, Fix
from flycore.model.enums import (
    Anchor,
    Discovery,
    Effective,
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


class Reason(Value, frozen=True, kw_only=True):
    """Why a dimension is not healthy. `remedy` is the next action that a person can take."""

    code: ReasonCode
    dimension: str
    message: str
    remedy: str
    fix: Fix | None = None
    """The remedy as a fix that can be carried out at once, where there is one."""


class PathEvidence(Value, frozen=True, kw_only=True):
    """How the command was resolved."""

    mode: str
    base: Anchor
    portable: bool
    root_safe: bool
    command: str
    resolved: str = ""


class VersionEvidence(Value, frozen=True, kw_only=True):
    """Which versions were compared."""

    core: str
    compatible_core: str | None = None
    package_id: str | None = None
    protocol_version: str | None = None
    package_version: str | None = None
    installed_version: str | None = None


class ToolProbe(Value, frozen=True, kw_only=True):
    """What a probe said of one tool."""

    status: ProbeState
    code: ReasonCode | None = None
    reason: str = ""
    remedy: str = ""


class ProbeEvidence(Value, frozen=True, kw_only=True):
    """The answer of a probe. Its time and duration are not compared between catalogs."""

    at: float = 0.0
    """Unix time of the answer, seconds."""
    duration_ms: int = 0
    stderr_tail: str = ""
    note: str = ""
    """For an MCP server: its own name, and how many tools it offers."""
    tools: dict[str, ToolProbe] = {}
    protocol: str = ""
    """The protocol that the answer names, such as `process-json/1`."""
    dialect: str = ""
    """The dialect that the answer names, such as `flyflor`."""


class RuntimeEvidence(Value, frozen=True, kw_only=True):
    """The last call that changed the runtime dimension."""

    at: float = 0.0
    code: str = ""
    message: str = ""
    stderr_tail: str = ""


class PermissionReport(Value, frozen=True, kw_only=True):
    """One permission or limit, and whether it is enforced."""

    name: str
    """`network`, `files read`, `files write`, `secrets`, `desktop`; or the name of a limit."""
    declared: str
    enforced: bool
    why: str
    """The mechanism that enforces it, or why it cannot be enforced here."""


def group_equal_reports(reports: Iterable[PermissionReport]) -> tuple[tuple[PermissionReport, ...], ...]:
    """Return the reports in their order, with neighbours grouped that are enforced, or not, for one
    reason."""
    return tuple(tuple(group) for _, group in groupby(reports, lambda report: (report.enforced, report.why)))


class SandboxReport(Value, frozen=True, kw_only=True):
    """The level that a call gets on this machine, with each permission."""

    level: Level
    mechanism: str
    permissions: tuple[PermissionReport, ...] = ()
    limits: tuple[PermissionReport, ...] = ()
    """One row for each resource limit, declared or not."""


class GrantedPath(Value, frozen=True, kw_only=True):
    """A file or folder that the tool reaches."""

    path: str
    writable: bool
    sealed: bool = False
    """Whether it is the sealed copy that the tool sees there."""


class SandboxExplanation(Value, frozen=True, kw_only=True):
    """The sandbox of one tool on this machine."""

    tool: str
    sidecar: str
    least: Level
    """The weakest level that the tool may run at."""
    report: SandboxReport
    remedy: str = ""
    """What makes a stronger level possible here; empty where nothing is known to, or it is the strongest."""
    problem: str = ""
    """Why the limits cannot be worked out; then there are no paths."""
    network: bool = False
    paths: tuple[GrantedPath, ...] = ()
    """What the tool reaches besides the system's own folders and its artifact folder. Empty where nothing is
    confined."""
    by_input: tuple[str, ...] = ()
    """Declared paths that each call's input fills in."""


class Evidence(Value, frozen=True, kw_only=True):
    """The evidence for each dimension."""

    violations: tuple[Diagnostic, ...] = ()
    path: PathEvidence | None = None
    version: VersionEvidence | None = None
    probe: ProbeEvidence | None = None
    runtime: RuntimeEvidence | None = None
    sandbox: SandboxReport | None = None


class Stability(Value, frozen=True, kw_only=True):
    """The snapshot of a sidecar or tool. A dimension is None where it was not looked at because an earlier
    one failed."""

    discovery: Discovery
    manifest: Manifest | None = None
    path: PathState | None = None
    version: VersionState | None = None
    probe: ProbeState | None = None
    runtime: RuntimeState | None = None
    sandbox: SandboxState | None = None
    upgrade: UpgradeState | None = None
    effective: Effective = Effective.UNAVAILABLE
    reasons: tuple[Reason, ...] = ()
    evidence: Evidence = Evidence()
