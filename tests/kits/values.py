"""Values as a kernel makes them, written by hand: requests, snapshots, a catalog with every state."""

from __future__ import annotations

from typing import Any

import msgspec

from flycore.model.approval import ApprovalRequest, Checks, Lease, MatchedRule, Subject
from flycore.model.audit import Metrics
from flycore.model.call import Activity, Caller, CallError, Picture, Progress, ToolResult
from flycore.model.catalog import Capability, CapabilityView, Catalog, SidecarView
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import (
    Anchor,
    Decision,
    Discovery,
    Effective,
    KernelRole,
    Layer,
    LeaseScope,
    Level,
    Manifest,
    PathState,
    Phase,
    ProbeState,
    QuestionKind,
    ReasonCode,
    Risk,
    RuntimeState,
    SandboxState,
    SealKind,
    Source,
    Status,
    UpgradeState,
    VersionState,
)
from flycore.model.json import JsonObject, canonical_json
from flycore.model.program import Seal
from flycore.model.question import Option, Question, TrustItem
from flycore.model.sidecar import Permissions, SidecarEntry, ToolClaim
from flycore.model.stability import (
    Evidence,
    PathEvidence,
    PermissionReport,
    ProbeEvidence,
    Reason,
    RuntimeEvidence,
    SandboxReport,
    Stability,
    VersionEvidence,
)
from flycore.model.status import Status as KernelStatus

NOW = 1_700_000_000.0
NO_METRICS = Metrics(since="", until="", lines=0, unreadable=0, tools=())
REGISTRY = "tools/external.tools.jsonc"
CALLER = Caller(door="socket", program="claude", executable="/usr/bin/claude", pid=4121, started=99)


def panic_question() -> Question:
    """The question that ends a panic."""
    return Question(
        id="panic",
        kind=QuestionKind.PANIC,
        title="Everything is stopped",
        lines=("by  a test",),
        options=(Option(id="release", words="take calls again", recommended=True),),
        asked_at=NOW - 3,
    )


def policy_question() -> Question:
    """The question about a rule that another program wrote into the user's policy file."""
    return Question(
        id="policy:" + "ab" * 32,
        kind=QuestionKind.POLICY,
        title="Your policy lets more through than before",
        lines=("new      allow web.fetch · “planted”",),
        options=(Option(id="accept", words="accept: the file counts as it is", recommended=True),),
        asked_at=NOW - 3,
    )


def loop_question(id: str = "loop-1", *lines: str) -> Question:
    """The question about a caller that repeats a failing call."""
    return Question(
        id=id,
        kind=QuestionKind.LOOP,
        title="claude repeats a call that fails",
        lines=lines or ("caller  claude (pid 4121) via socket", 'input   {"path":"nowhere"}'),
        options=(
            Option(id="stop", words="refuse its calls for 10 minutes", recommended=True),
            Option(id="continue", words="count anew"),
            Option(id="end", words="refuse it until its process has gone"),
        ),
        free_text=True,
        about=CALLER.key,
        asked_at=NOW - 3,
    )


def request_of(
    id: str = "r1",
    *,
    tool: str = "computer.keyboard",
    risk: Risk = Risk.HIGH,
    letter: str = "k",
    input: JsonObject | None = None,
    **more: object,
) -> ApprovalRequest:
    """A request as the kernel makes it."""
    given = {"action": "type", "text": "hello from an agent"} if input is None else input
    subject = Subject(
        caller=CALLER.key,
        tool=tool,
        input=given,
        seal="5" * 64,
        delegates={},
        entry="e" * 64,
        permissions="p" * 64,
        level=Level.HOST_CONTROL,
        env_names=(),
        policy="0" * 64,
    )
    made = ApprovalRequest(
        id=id,
        call_id=f"call-{id}",
        caller=CALLER,
        tool=tool,
        sidecar="computer.native",
        app_root="/srv/shop",
        risk=risk,
        effect="type “hello from an agent” into “xterm”",
        input_json=canonical_json(given),
        subject=subject,
        subject_digest=subject.digest(),
        reach=(
            PermissionReport(name="network", declared="none", enforced=False, why="not enforced yet"),
            PermissionReport(name="desktop", declared="yes", enforced=False, why="cannot be limited here"),
        ),
        level=Level.HOST_CONTROL,
        seal=Seal(kind=SealKind.BUNDLED, digest="5" * 64, program="/opt/flytui/bin/flytui-sidecar"),
        why=(MatchedRule(decision=Decision.ASK, because="high risk is always asked", where="default"),),
        checks=Checks(approved=0, denied=1),
        said="fill in the form",
        letter=letter,
        asked_at=NOW - 12,
        expires_at=NOW + 588,
    )
    return msgspec.structs.replace(made, **more)


def status_of(**more: object) -> KernelStatus:
    """A kernel that serves: a console decides, nothing waits, all is well."""
    fields: dict[str, Any] = {
        "app_root": "/srv/shop",
        "pid": 1,
        "since": 0.0,
        "role": KernelRole.HEADLESS,
        "version": "1",
        "approver": True,
        "clients": 0,
        "waiting": 0,
        "running": 0,
        "leases": 0,
        "policy_ok": True,
        "sandbox": "",
        "waiting_trust": 0,
    }
    return KernelStatus(**{**fields, **more})


def lease(tool: str, *, seconds: float = 250, scope: LeaseScope = LeaseScope.TOOL, group: str = "") -> Lease:
    """A lease that holds for a while."""
    return Lease(
        id=f"lease-{tool}",
        caller=CALLER,
        tool=tool,
        scope_digest="0" * 64,
        from_request="r1",
        calls_left=3,
        expires_at=NOW + seconds if seconds else 0.0,
        created_at=NOW - 50,
        scope=scope,
        group=group,
    )


def stability_of(effective: Effective = Effective.AVAILABLE, **more: object) -> Stability:
    """A snapshot in which every dimension was checked."""
    made = Stability(
        discovery=Discovery.CONFIGURED,
        manifest=Manifest.VALID,
        path=PathState.RESOLVED,
        version=VersionState.COMPATIBLE,
        probe=ProbeState.HEALTHY,
        runtime=RuntimeState.READY,
        sandbox=SandboxState.APPROVAL_REQUIRED,
        upgrade=UpgradeState.IDLE,
        effective=effective,
        evidence=Evidence(
            path=PathEvidence(
                mode="path",
                base=Anchor.APP,
                portable=True,
                root_safe=True,
                command="flytui-sidecar",
                resolved="/opt/flytui/bin/flytui-sidecar",
            ),
            version=VersionEvidence(core="0.1.0", compatible_core=">=0.1,<1", protocol_version="1"),
            probe=ProbeEvidence(at=NOW - 12, duration_ms=40),
            runtime=RuntimeEvidence(at=NOW - 300),
            sandbox=SandboxReport(
                level=Level.NONE,
                mechanism="",
                permissions=(
                    PermissionReport(name="network", declared="none", enforced=False, why="not enforced yet"),
                ),
            ),
        ),
    )
    return msgspec.structs.replace(made, **more)


def failing(code: ReasonCode, dimension: str, message: str, remedy: str, **more: object) -> Stability:
    """A snapshot that stops at one dimension."""
    names = ("manifest", "path", "version", "probe", "runtime", "sandbox", "upgrade")
    unchecked = dict.fromkeys(names[names.index(dimension) + 1 :] if dimension in names else names)
    reason = Reason(code=code, dimension=dimension, message=message, remedy=remedy)
    return stability_of(**{"effective": Effective.UNAVAILABLE, **unchecked, "reasons": (reason,), **more})


def entry_of(id: str, tools: tuple[str, ...] = (), **more: object) -> SidecarEntry:
    """A registry entry."""
    made = SidecarEntry(
        id=id,
        source=Source.PROJECT,
        position=Position(file=REGISTRY, line=10, column=5),
        command="flytui-sidecar",
        args=(id,),
        permissions=Permissions(desktop=id == "computer.native"),
        tools=tuple(ToolClaim(name=name) for name in tools),
    )
    return msgspec.structs.replace(made, **more)


def tool_view(
    name: str, sidecar: str | None, stability: Stability, risk: Risk = Risk.MEDIUM, decision: str = "ask"
) -> CapabilityView:
    """A tool in the catalog."""
    capability = Capability(
        name=name,
        layer=Layer.ATOMIC,
        family=name.partition(".")[0],
        sidecar=sidecar,
        description=f"Does {name} and says how it went.",
        summary=f"does what {name} says",
        effect="do it",
        risk=risk,
        approval_class=("read",),
        input_schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        output_schema={"type": "object"},
        examples=({"path": "README.md"},),
        tags=("sample",),
    )
    source = "registry:project" if sidecar else "none"
    return CapabilityView(
        capability=capability, sidecar=sidecar, source=source, stability=stability, decision=decision
    )


def sample_catalog() -> Catalog:
    """A catalog with a tool in every state."""
    well = stability_of()
    slow = stability_of(
        Effective.DEGRADED,
        probe=ProbeState.DEGRADED,
        reasons=(
            Reason(
                code=ReasonCode.PROBE_DEGRADED,
                dimension="probe",
                message="the sidecar says: config.probe is degraded",
                remedy="remove config.probe in tools/external.tools.jsonc:31",
            ),
        ),
    )
    delegate = failing(
        ReasonCode.DELEGATE_MISSING,
        "path",
        "the delegate xdotool was not found on PATH",
        "install xdotool, or set delegates.keyboard in tools/external.tools.jsonc:22",
        path=PathState.UNRESOLVED,
    )
    off = failing(
        ReasonCode.DISABLED,
        "discovery",
        "disabled in tools/external.tools.jsonc:41: comes with a later version",
        "set enabled to true in tools/external.tools.jsonc:41",
        discovery=Discovery.DISABLED,
        effective=Effective.DISABLED,
        manifest=None,
    )
    invalid = failing(
        ReasonCode.MANIFEST_INVALID,
        "manifest",
        "timeoutMs must be a number",
        "write a number of milliseconds at tools/external.tools.jsonc:52:7",
        manifest=Manifest.INVALID,
    )
    missing = failing(
        ReasonCode.NOT_CONFIGURED,
        "discovery",
        "no entry offers browser.open",
        "add a sidecar that offers browser.open",
        discovery=Discovery.MISSING,
        manifest=None,
    )
    sidecars = (
        SidecarView(
            id="utility.local", entry=entry_of("utility.local", ("file.hash",)), trusted=True, stability=well
        ),
        SidecarView(
            id="mock.echo", entry=entry_of("mock.echo", ("mock.echo",)), trusted=True, stability=slow
        ),
        SidecarView(
            id="computer.native",
            entry=entry_of("computer.native", ("computer.keyboard", "computer.mouse")),
            trusted=True,
            stability=well,
        ),
        SidecarView(
            id="media.local",
            entry=entry_of("media.local", ("audio.speak",), enabled=False, disabled_reason="comes later"),
            trusted=True,
            stability=off,
        ),
        SidecarView(id="broken.one", entry=entry_of("broken.one"), trusted=False, stability=invalid),
    )
    return Catalog(
        version=3,
        app_root="/srv/shop",
        sidecars=sidecars,
        capabilities=(
            tool_view("browser.open", None, missing, Risk.HIGH),
            tool_view("computer.keyboard", "computer.native", delegate, Risk.HIGH),
            tool_view("computer.mouse", "computer.native", well, Risk.HIGH),
            tool_view("screen.screenshot", "computer.native", well),
            tool_view("file.hash", "utility.local", well, Risk.LOW, "allow"),
            tool_view("mock.echo", "mock.echo", slow),
            tool_view("audio.speak", "media.local", off),
        ),
        diagnostics=(
            Diagnostic(
                severity=Severity.ERROR,
                rule="wrong-type",
                message="timeoutMs must be a number",
                remedy="write a number of milliseconds",
                pointer="/sidecars/broken.one/timeoutMs",
                position=Position(file=REGISTRY, line=52, column=7),
                sidecar="broken.one",
            ),
        ),
    )


def sample_activity() -> tuple[Activity, ...]:
    """A running call, one that succeeded and one that failed."""
    failed = ToolResult(
        status=Status.FAILED,
        tool="web.fetch",
        sidecar="web.search",
        call_id="c3",
        error=CallError(
            code="crashed", message="ended by signal 11", hint="look at stderr", details={"signal": 11}
        ),
        duration_ms=310,
        exit_code=-11,
        stderr_tail="segmentation fault\n",
        sandbox=Level.NONE,
    )
    hashed = ToolResult(
        status=Status.SUCCESS,
        tool="file.hash",
        sidecar="utility.local",
        call_id="c2",
        output={"algorithm": "sha256", "digest": "ab" * 32},
        duration_ms=42,
        waited_ms=3_100,
        exit_code=0,
        sandbox=Level.NONE,
    )

    def call(id: str, tool: str, result: ToolResult | None) -> Activity:
        return Activity(
            call_id=id,
            tool=tool,
            sidecar=result.sidecar if result else "media.local",
            caller=CALLER,
            phase=Phase.FINISHED if result else Phase.RUNNING,
            started_at=NOW - 72,
            running_since=NOW - 72,
            input_text='{"path":"README.md"}',
            progress=None
            if result
            else Progress(call_id=id, phase=Phase.RUNNING, progress=5, total=8, message="page 5 of 8"),
            result=result,
        )

    return call("c1", "vision.ocr", None), call("c2", "file.hash", hashed), call("c3", "web.fetch", failed)


def trust_items(count: int) -> tuple[TrustItem, ...]:
    """Entries that wait for trust. Every second one had been trusted before."""
    return tuple(
        TrustItem(
            sidecar=f"side{n}.local",
            digest=f"{n:064x}",
            changed=n % 2 == 1,
            lines=(f"command  flytui-sidecar side{n}.local", "permissions  network none"),
        )
        for n in range(count)
    )


def pixel(picture: Picture, x: int, y: int) -> tuple[int, int, int]:
    """The red, green and blue of a pixel of the picture."""
    at = (y * picture.width + x) * 3
    return picture.rgb[at], picture.rgb[at + 1], picture.rgb[at + 2]
