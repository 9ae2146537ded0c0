"""A fake kernel behind the client Protocol: the test sets the values, and decisions are recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import msgspec

from flycore.model.approval import (
    Answer,
    ApprovalRequest,
    Ask,
    Lease,
    Outcome,
    StandingRule,
)
from flycore.model.audit import Metrics
from flycore.model.call import Activity, Picture, Progress, ToolResult, UndoResult
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Check
from flycore.model.enums import (
    Choice,
    Decision,
    PackageAction,
    PackageScope,
    Phase,
    RequestState,
    Status,
)
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject, canonical_json
from flycore.model.package import PackageCheck, PackageView
from flycore.model.question import Block, Question, TrustItem
from flycore.model.starter import StarterOffer, StarterPlan
from flycore.model.status import Status as KernelStatus
from flycore.rpc.methods import OnProgress
from flytui.console.kernel_connection import OpenConnection
from kits.values import (
    NO_METRICS,
    NOW,
    panic_question,
    sample_catalog,
)

NO_STARTER = StarterOffer(file="tools/external.tools.jsonc", exists=False, entries=())


@dataclass
class World:
    """A client and an approver in one: holds the values and records the calls of the console."""

    catalog_value: Catalog
    asks_value: tuple[Ask, ...] = ()
    activity_value: tuple[Activity, ...] = ()
    pictures: dict[tuple[str, int], Picture] = field(default_factory=dict)
    metrics_value: Metrics = NO_METRICS
    trust_value: tuple[TrustItem, ...] = ()
    questions_value: tuple[Question, ...] = ()
    packages_value: tuple[PackageView, ...] = ()
    package_checks: tuple[PackageCheck, ...] = ()
    package_note: str = ""
    staged: list[tuple[str, PackageScope]] = field(default_factory=list)
    package_changes: list[tuple[PackageAction, str, PackageScope, str]] = field(default_factory=list)
    discarded: list[tuple[str, PackageScope]] = field(default_factory=list)
    stopped: bool = False
    answered: list[tuple[str, str, str]] = field(default_factory=list)
    filled: JsonObject | None = None
    """The values of the last answer that had some."""
    leases_value: tuple[Lease, ...] = ()
    blocks_value: tuple[Block, ...] = ()
    rules_value: tuple[StandingRule, ...] = ()
    taken_away: list[tuple[str, ...]] = field(default_factory=list)
    checks_value: tuple[Check, ...] = ()
    looked: int = 0
    switched: list[tuple[str, bool, str]] = field(default_factory=list)
    permitted: list[tuple[str, str]] = field(default_factory=list)
    starter_value: StarterOffer = NO_STARTER
    started: int = 0
    written: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
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
    attached: list[str] = field(default_factory=list)
    """What `opened` was used for."""
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

    async def catalog(self, outline: bool = False) -> Catalog:
        return self.catalog_value

    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        purpose: str = "",
        inline_wait_ms: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Start a call, wait until `call_ends` is set, and return its input."""
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

    async def undo_call(self, call_id: str, look: bool) -> UndoResult:
        if self.refuse:
            return UndoResult(accepted=False, why_not=self.refuse)
        return UndoResult(accepted=True, files=("notes.txt",))

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

    async def answer(
        self, question_id: str, option: str, text: str = "", content: JsonObject | None = None
    ) -> Outcome:
        self.answered.append((question_id, option, text))
        self.filled = content if content is not None else self.filled
        if self.refuse:
            return Outcome(accepted=False, why_not=self.refuse)
        self.questions_value = tuple(item for item in self.questions_value if item.id != question_id)
        self.stopped = self.stopped and question_id != "panic"
        self.publish("question.answered")
        return Outcome(accepted=True)

    async def enable(self, sidecar: str, enabled: bool, reason: str) -> Outcome:
        self.switched.append((sidecar, enabled, reason))
        return Outcome(accepted=not self.refuse, why_not=self.refuse)

    async def permit(self, sidecar: str, digest: str) -> Outcome:
        self.permitted.append((sidecar, digest))
        return Outcome(accepted=not self.refuse, why_not=self.refuse)

    async def import_server(self, path: str, name: str, digest: str) -> Outcome:
        self.imported.append((path, name, digest))
        return Outcome(accepted=not self.refuse, why_not=self.refuse)

    async def refuse_pairing(self, pid: int) -> bool:
        self.refused.append(pid)
        return self.refuse == ""

    async def starter(self) -> StarterOffer:
        return self.starter_value

    async def plan_starter(self, sidecars: tuple[str, ...]) -> StarterPlan:
        texts = tuple(entry.text for entry in self.starter_value.entries if entry.id in sidecars)
        return StarterPlan(
            file=self.starter_value.file,
            sidecars=sidecars,
            text="" if self.starter_value.exists else "\n".join(texts),
            difference=tuple(f"+{text}" for text in texts) if self.starter_value.exists else (),
            digest=f"digest of {', '.join(sidecars)}",
        )

    async def write_starter(self, sidecars: tuple[str, ...], digest: str) -> Outcome:
        self.started += 1
        self.written.append((sidecars, digest))
        return Outcome(accepted=not self.refuse, why_not=self.refuse)

    async def packages(self) -> tuple[PackageView, ...]:
        return self.packages_value

    async def verify_packages(self) -> tuple[PackageCheck, ...]:
        return self.package_checks

    async def stage_package(self, source: str, scope: PackageScope) -> Outcome:
        self.staged.append((source, scope))
        return Outcome(accepted=not self.refuse, why_not=self.refuse or "1.1.0")

    async def change_package(
        self, action: PackageAction, package: str, scope: PackageScope, digest: str
    ) -> Outcome:
        self.package_changes.append((action, package, scope, digest))
        return Outcome(accepted=not self.refuse, why_not=self.refuse or self.package_note)

    async def discard_package(self, package: str, scope: PackageScope) -> Outcome:
        self.discarded.append((package, scope))
        return Outcome(accepted=not self.refuse, why_not=self.refuse)

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

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[OpenConnection]:
        """Connect a console: the world is its client and its approver."""
        self.attached.append("attached")
        try:
            yield OpenConnection(self, self)
        finally:
            self.attached.append("detached")

    async def decide(self, request_id: str, subject_digest: str, answer: Answer) -> Outcome:
        self.decided.append((request_id, subject_digest, answer))
        if self.refuse:
            return Outcome(accepted=False, why_not=self.refuse)
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
        return Outcome(accepted=True)

    async def edit(self, request_id: str, subject_digest: str, input: JsonObject) -> Outcome:
        self.edited.append((request_id, subject_digest, input))
        if self.refuse:
            return Outcome(accepted=False, why_not=self.refuse)
        self.asks_value = tuple(
            msgspec.structs.replace(ask, request=_edited(ask.request, input))
            if ask.request.id == request_id
            else ask
            for ask in self.asks_value
        )
        self.publish("approval.changed")
        return Outcome(accepted=True)

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

    async def remove_rule(self, where: str, digest: str) -> Outcome:
        self.taken_away.append(("rule", where, digest))
        return Outcome(accepted=self.refuse == "", why_not=self.refuse)

    async def unblock(self, tool: str) -> bool:
        self.taken_away.append(("block", tool))
        return self.refuse == ""

    async def undo(self) -> Outcome:
        self.taken_away.append(("undo",))
        return Outcome(accepted=self.refuse == "", why_not=self.refuse)

    async def trust(self, accepted: tuple[tuple[str, str], ...]) -> Outcome:
        self.trusted.append(accepted)
        if self.refuse:
            return Outcome(accepted=False, why_not=self.refuse)
        self.trust_value = ()
        self.publish("trust.changed")
        return Outcome(accepted=True)

    def end(self) -> None:
        """End the kernel: the event stream of every listener ends."""
        for stream in self.streams:
            stream.close()
        self.streams.clear()

    def publish(self, type: str, **payload: object) -> None:
        """Send an event to every listener."""
        for stream in self.streams:
            stream.send_nowait(Event(cls=EventClass.APPROVAL, type=type, at=NOW, payload=dict(payload)))

    def ask_for(self, *requests: ApprovalRequest) -> None:
        """Add requests and publish them."""
        self.asks_value += tuple(Ask(request=request, state=RequestState.WAITING) for request in requests)
        self.publish("approval.asked")


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


def world(**more: object) -> World:
    """A world with the sample catalog."""
    return World(catalog_value=sample_catalog(), **more)  # type: ignore[arg-type]  # a test's own fields
