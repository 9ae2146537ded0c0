"""A kernel's place at the client Protocol, written by hand: values in, decisions recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import msgspec
from textual import events
from textual.pilot import Pilot

from flycore.client.ledger import Ledger
from flycore.client.protocol import OnProgress
from flycore.model.approval import (
    Answer,
    ApprovalRequest,
    Ask,
    Checks,
    DecideOutcome,
    Lease,
    MatchedRule,
    Subject,
)
from flycore.model.audit import Metrics
from flycore.model.call import Activity, Caller, CallError, Progress, ToolResult
from flycore.model.canonical import JsonObject, canonical_json
from flycore.model.capability import Capability
from flycore.model.catalog import CapabilityView, Catalog, SidecarView
from flycore.model.check import Check
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import (
    Anchor,
    Choice,
    Decision,
    Discovery,
    Effective,
    Layer,
    Level,
    Manifest,
    PathState,
    Phase,
    ProbeState,
    QuestionKind,
    ReasonCode,
    RequestState,
    Risk,
    RuntimeState,
    SandboxState,
    SealKind,
    Source,
    Status,
    UpgradeState,
    VersionState,
)
from flycore.model.events import Event, EventClass
from flycore.model.picture import Picture
from flycore.model.program import Seal
from flycore.model.question import Block, Option, Question
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
from flycore.model.standing import StandingRule
from flycore.model.status import Status as KernelStatus
from flycore.model.trust import TrustItem
from flytui.console.app import FlytuiApp
from flytui.console.desk import Desk
from flytui.console.own import Own
from flytui.console.paint import text_of
from flytui.console.rows import RowsView
from flytui.console.run import Opening
from flytui.console.views import Bar, LinesView

NOW = 1_700_000_000.0
NO_METRICS = Metrics(since="", until="", lines=0, unreadable=0, tools=())
REGISTRY = "tools/external.tools.jsonc"
CALLER = Caller(door="socket", program="claude", executable="/usr/bin/claude", pid=4121, started=99)


@dataclass
class HandClock:
    """A clock that moves when told to."""

    at: float = 1_000.0

    def __call__(self) -> float:
        return self.at

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.at += seconds


@dataclass
class World:
    """Client and approver at once: holds values, records what was asked of it."""

    catalog_value: Catalog
    asks_value: tuple[Ask, ...] = ()
    activity_value: tuple[Activity, ...] = ()
    pictures: dict[tuple[str, int], Picture] = field(default_factory=dict)
    metrics_value: Metrics = NO_METRICS
    trust_value: tuple[TrustItem, ...] = ()
    questions_value: tuple[Question, ...] = ()
    stopped: bool = False
    answered: list[tuple[str, str, str]] = field(default_factory=list)
    leases_value: tuple[Lease, ...] = ()
    blocks_value: tuple[Block, ...] = ()
    rules_value: tuple[StandingRule, ...] = ()
    taken_away: list[tuple[str, ...]] = field(default_factory=list)
    checks_value: tuple[Check, ...] = ()
    looked: int = 0
    switched: list[tuple[str, bool, str]] = field(default_factory=list)
    started: int = 0
    imported: list[tuple[str, str, str]] = field(default_factory=list)
    hands_on: bool = False
    policy_ok: bool = True
    refuse: str = ""
    decided: list[tuple[str, str, Answer]] = field(default_factory=list)
    edited: list[tuple[str, str, JsonObject]] = field(default_factory=list)
    trusted: list[tuple[tuple[str, str], ...]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    probed: list[str] = field(default_factory=list)
    called: list[tuple[str, JsonObject]] = field(default_factory=list)
    call_phase: Phase = Phase.RUNNING
    call_ends: anyio.Event = field(default_factory=anyio.Event)
    refused: list[int] = field(default_factory=list)
    attached: list[object] = field(default_factory=list)
    streams: list[anyio.abc.ObjectSendStream[Event]] = field(default_factory=list)

    async def status(self) -> KernelStatus:
        waiting = sum(1 for ask in self.asks_value if ask.state is RequestState.WAITING)
        running = sum(1 for call in self.activity_value if call.result is None)
        return KernelStatus(
            app_root="/srv/shop",
            pid=4000,
            since=NOW - 60,
            role="console",
            version="0.1.0",
            approver=True,
            clients=2,
            agents=2,
            waiting=waiting,
            running=running,
            leases=0,
            policy_ok=self.policy_ok,
            sandbox="not enforced yet",
            waiting_trust=len(self.trust_value),
            hands_on=self.hands_on,
            panic=self.stopped,
        )

    async def catalog(self) -> Catalog:
        return self.catalog_value

    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        said: str = "",
        inline_wait_ms: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Starts, runs until `call_ends` is set, and gives back its input."""
        self.called.append((tool, input))
        call_id = f"test-{len(self.called)}"
        if on_progress is not None:
            on_progress(Progress(call_id=call_id, phase=self.call_phase))
        await self.call_ends.wait()
        return ToolResult(
            status=Status.SUCCESS, tool=tool, sidecar="mock.echo", call_id=call_id, output=dict(input)
        )

    async def cancel(self, call_id: str) -> bool:
        self.cancelled.append(call_id)
        return True

    async def activity(self) -> tuple[Activity, ...]:
        return self.activity_value

    async def picture(self, call_id: str, index: int) -> Picture | None:
        return self.pictures.get((call_id, index))

    async def metrics(self) -> Metrics:
        return self.metrics_value

    async def asks(self) -> tuple[Ask, ...]:
        return self.asks_value

    async def leases(self) -> tuple[Lease, ...]:
        return self.leases_value

    async def blocks(self) -> tuple[Block, ...]:
        return self.blocks_value

    async def rules(self) -> tuple[StandingRule, ...]:
        return self.rules_value

    async def questions(self) -> tuple[Question, ...]:
        return self.questions_value

    async def panic(self) -> bool:
        first, self.stopped = not self.stopped, True
        self.questions_value = (panic_question(), *self.questions_value)
        self.publish("question.asked")
        return first

    async def answer(self, question_id: str, option: str, text: str = "") -> DecideOutcome:
        self.answered.append((question_id, option, text))
        if self.refuse:
            return DecideOutcome(accepted=False, why_not=self.refuse)
        self.questions_value = tuple(item for item in self.questions_value if item.id != question_id)
        self.stopped = self.stopped and question_id != "panic"
        self.publish("question.answered")
        return DecideOutcome(accepted=True)

    async def enable(self, sidecar: str, enabled: bool, reason: str) -> DecideOutcome:
        self.switched.append((sidecar, enabled, reason))
        return DecideOutcome(accepted=not self.refuse, why_not=self.refuse)

    async def import_server(self, path: str, name: str, digest: str) -> DecideOutcome:
        self.imported.append((path, name, digest))
        return DecideOutcome(accepted=not self.refuse, why_not=self.refuse)

    async def refuse_pairing(self, pid: int) -> bool:
        self.refused.append(pid)
        return self.refuse == ""

    async def write_starter(self) -> DecideOutcome:
        self.started += 1
        return DecideOutcome(accepted=not self.refuse, why_not=self.refuse)

    async def pending_trust(self) -> tuple[TrustItem, ...]:
        return self.trust_value

    async def probe(self, sidecar: str) -> None:
        self.probed.append(sidecar)

    async def checks(self) -> tuple[Check, ...]:
        self.looked += 1
        return self.checks_value

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        send, receive = anyio.create_memory_object_stream[Event](1_000)
        self.streams.append(send)
        with send, receive:
            yield receive

    def attach(self, window_ids: tuple[int, ...], pids: tuple[int, ...]) -> None:
        self.attached.append((window_ids, pids))

    def detach(self) -> None:
        self.attached.append("detached")

    async def decide(self, request_id: str, subject_digest: str, answer: Answer) -> DecideOutcome:
        self.decided.append((request_id, subject_digest, answer))
        if self.refuse:
            return DecideOutcome(accepted=False, why_not=self.refuse)
        state = RequestState.DENIED if _denies(answer) else RequestState.APPROVED
        self.asks_value = tuple(
            msgspec.structs.replace(
                ask, state=state, answer=answer, decided_by="this console", decided_at=NOW
            )
            if ask.request.id == request_id
            else ask
            for ask in self.asks_value
        )
        self.publish("approval.decided")
        return DecideOutcome(accepted=True)

    async def edit(self, request_id: str, subject_digest: str, input: JsonObject) -> DecideOutcome:
        self.edited.append((request_id, subject_digest, input))
        if self.refuse:
            return DecideOutcome(accepted=False, why_not=self.refuse)
        self.asks_value = tuple(
            msgspec.structs.replace(ask, request=_edited(ask.request, input))
            if ask.request.id == request_id
            else ask
            for ask in self.asks_value
        )
        self.publish("approval.changed")
        return DecideOutcome(accepted=True)

    async def hold(self, request_id: str, held: bool) -> bool:
        self.asks_value = tuple(
            msgspec.structs.replace(ask, held=held) if ask.request.id == request_id else ask
            for ask in self.asks_value
        )
        self.publish("approval.changed")
        return any(ask.request.id == request_id for ask in self.asks_value)

    async def revoke(self, lease_id: str) -> bool:
        self.taken_away.append(("lease", lease_id))
        return self.refuse == ""

    async def remove_rule(self, where: str, digest: str) -> DecideOutcome:
        self.taken_away.append(("rule", where, digest))
        return DecideOutcome(accepted=self.refuse == "", why_not=self.refuse)

    async def unblock(self, tool: str) -> bool:
        self.taken_away.append(("block", tool))
        return self.refuse == ""

    async def undo(self) -> DecideOutcome:
        self.taken_away.append(("undo",))
        return DecideOutcome(accepted=self.refuse == "", why_not=self.refuse)

    async def trust(self, accepted: tuple[tuple[str, str], ...]) -> DecideOutcome:
        self.trusted.append(accepted)
        if self.refuse:
            return DecideOutcome(accepted=False, why_not=self.refuse)
        self.trust_value = ()
        self.publish("trust.changed")
        return DecideOutcome(accepted=True)

    def end(self) -> None:
        """The kernel goes away: everybody who listens is told by the end of the stream."""
        for stream in self.streams:
            stream.close()
        self.streams.clear()

    def publish(self, type: str, **payload: object) -> None:
        """An event to every listener."""
        for stream in self.streams:
            stream.send_nowait(Event(cls=EventClass.APPROVAL, type=type, at=NOW, payload=dict(payload)))

    def ask_for(self, *requests: ApprovalRequest) -> None:
        """Requests arrive."""
        self.asks_value += tuple(Ask(request=request, state=RequestState.WAITING) for request in requests)
        self.publish("approval.asked")


def panic_question() -> Question:
    """The question that releases a stop."""
    return Question(
        id="panic",
        kind=QuestionKind.PANIC,
        title="Everything is stopped",
        lines=("by  a test",),
        options=(Option(id="release", words="take calls again", recommended=True),),
        asked_at=NOW - 3,
    )


def loop_question(id: str = "loop-1", *lines: str) -> Question:
    """A caller that repeats what does not work."""
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


def _denies(answer: Answer) -> bool:
    denies = answer.rule is not None and answer.rule.decision is Decision.DENY
    return answer.choice in (Choice.DENY, Choice.BLOCK) or denies


def _edited(request: ApprovalRequest, input: JsonObject) -> ApprovalRequest:
    subject = msgspec.structs.replace(request.subject, input=input)
    return msgspec.structs.replace(
        request,
        subject=subject,
        subject_digest=subject.digest(),
        input_json=canonical_json(input),
        edited=True,
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


def stability_of(effective: Effective = Effective.AVAILABLE, **more: object) -> Stability:
    """A snapshot in which everything was looked at."""
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
    """Every state side by side."""
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
    """One call that runs, one that succeeded, one that failed."""
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


def world(**more: object) -> World:
    """A world with the sample catalog."""
    return World(catalog_value=sample_catalog(), **more)  # type: ignore[arg-type]  # a test's own fields


def app_of(
    place: World, clock: HandClock | None = None, ledger: Ledger | None = None, own: Own | None = None
) -> FlytuiApp:
    """The application at that world; time stands still unless the clock is moved."""
    desk = Desk(
        client=place,
        approver=place,
        title="~/proj/shop",
        clock=clock or HandClock(),
        now=lambda: NOW,
        ledger=ledger,
        own=own or Own(),
    )
    return FlytuiApp(desk)


def at_once(place: World) -> Opening:
    """Opens that world without any delay."""

    @asynccontextmanager
    async def opening(tell: Callable[[str], None]) -> AsyncIterator[tuple[World, World]]:
        yield place, place

    return opening


@asynccontextmanager
async def console(
    place: World,
    clock: HandClock,
    size: tuple[int, int] = (100, 30),
    ledger: Ledger | None = None,
    own: Own | None = None,
    *,
    toasts: bool = False,
) -> AsyncIterator[tuple[FlytuiApp, Pilot[None]]]:
    """The console, its first values fetched."""
    app = app_of(place, clock, ledger, own)
    async with app.run_test(size=size, notifications=toasts) as pilot:
        await until(pilot, lambda: app.desk.catalog is not None)
        yield app, pilot


async def settle(pilot: Pilot[None]) -> None:
    """Wait until what was posted has gone from the application to the focus, up again, and been drawn."""
    app = pilot.app
    path = [] if app.focused is None else list(app.focused.ancestors_with_self)
    for target in (app, *path, app.screen, app):
        done = anyio.Event()
        if target.call_later(done.set):
            with anyio.move_on_after(1):
                await done.wait()
    drawn_again = anyio.Event()
    app.screen.call_after_refresh(drawn_again.set)
    with anyio.move_on_after(1):
        await drawn_again.wait()


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Keys as the driver sends them, each handled before the next, without Pilot's waits for idleness."""
    for key in keys:
        driver = pilot.app._driver
        assert driver is not None
        event = events.Key(key, key if len(key) == 1 else {"space": " ", "slash": "/"}.get(key))
        event.set_sender(pilot.app)
        driver.send_message(event)
        await settle(pilot)


def frame(app: FlytuiApp) -> list[str]:
    """What is drawn, line by line."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


async def still(pilot: Pilot[None], app: FlytuiApp) -> list[str]:
    """The frame once it stays the same: a widget off the focus path may have its lines made after the keys
    are done with."""
    seen, same = frame(app), 0
    for _ in range(3000):
        await settle(pilot)
        await pilot.pause(0.01)
        now = frame(app)
        seen, same = now, same + 1 if now == seen else 0
        if same == 5:
            return seen
    raise AssertionError(f"{app.screen!r} is drawn anew without end")


async def until(pilot: Pilot[None], holds: object) -> None:
    """Give the application its turns until something holds and is drawn: what was just shown has no width
    before the next layout."""
    for _ in range(3000):
        if callable(holds) and holds():
            if pilot.app.is_running and pilot.app.screen_stack:
                await settle(pilot)
                await pilot.pause(0)
            return
        await pilot.pause(0.01)
    app = pilot.app
    raise AssertionError(f"it never came to hold on {app.screen!r}, focus on {app.focused!r}")


def drawn(app: FlytuiApp, name: str) -> str:
    """The text of a bar or of lines on the present screen."""
    widget = app.screen.query_one(name)
    rows = widget._rows if isinstance(widget, (Bar, LinesView)) else ()
    return "\n".join(text_of(row) for row in rows)


def rows_drawn(app: FlytuiApp, name: str) -> str:
    """The text of all rows of a list, at its present width."""
    rows = app.screen.query_one(name, RowsView)
    return "\n".join(text_of(row.draw(rows.size.width - 2)) for row in rows._rows)


def trust_items(count: int) -> tuple[TrustItem, ...]:
    """Entries that wait for trust; every second one had been trusted before."""
    return tuple(
        TrustItem(
            sidecar=f"side{n}.local",
            digest=f"{n:064x}",
            changed=n % 2 == 1,
            lines=(f"command  flytui-sidecar side{n}.local", "permissions  network none"),
        )
        for n in range(count)
    )
