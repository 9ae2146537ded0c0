"""The kernel: one object that doors and the console call, put together in `compose.py`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread

import flycore
from flycore.audit.events import TOKEN_CHANGED, token_changed
from flycore.catalog.build import over_quota
from flycore.kernel.artifact_images import ArtifactImages
from flycore.kernel.background import BackgroundProcesses
from flycore.kernel.bus import Bus
from flycore.kernel.call_history import CallHistory
from flycore.kernel.connections import ConnectionInfo, Connections
from flycore.kernel.console_pairing import ConsolePairing
from flycore.kernel.doctor import check_up
from flycore.kernel.lock import LockHolder
from flycore.kernel.notify import Notifier
from flycore.kernel.panic import STOP_SECONDS, Panic
from flycore.kernel.questions import QuestionRegistry
from flycore.kernel.standing_permissions import StandingPermissions
from flycore.model.approval import Ask, Lease, Outcome, StandingRule, highest_waiting
from flycore.model.audit import Metrics
from flycore.model.call import Activity, CallRequest, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Check
from flycore.model.enums import KernelRole
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.model.picture import Picture
from flycore.model.question import Block, Question, TrustItem
from flycore.model.status import Status
from flycore.pipeline.call import OnCancellable, OnProgress
from flycore.pipeline.context import PipelineContext
from flycore.pipeline.pipeline import run_call
from flycore.plans.run import is_plan, run_plan

SANDBOX_NOTE = "not enforced yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParts:
    """What a kernel is made of; put together in `compose.py`."""

    context: PipelineContext
    bus: Bus
    background: BackgroundProcesses
    past: CallHistory
    notifier: Notifier
    holder: LockHolder
    standing: StandingPermissions
    panic: Panic
    questions: QuestionRegistry
    attaching: ConsolePairing
    session: str
    """What the ids of this kernel's calls begin with."""


class Kernel:
    """Everything there is on one app root."""

    def __init__(self, parts: KernelParts) -> None:
        self.bus = parts.bus
        self.approver = parts.attaching.own
        self.attaching = parts.attaching
        self.leaving = anyio.Event()
        """Set once it takes no more calls."""
        self._stopped = False
        self._context = parts.context
        self._activity = parts.context.activity
        self._queue = parts.context.ask.queue
        self._places = parts.context.judge.ground.places
        self._background = parts.background
        self._upkeep = parts.background.upkeep
        self.past = parts.past
        self._notifier = parts.notifier
        self._holder = parts.holder
        self._standing = parts.standing
        self._panic = parts.panic
        self._questions = parts.questions
        self._pictures = ArtifactImages(self._places)
        self._presence = Connections()
        self._listening: tuple[str, ...] = ()
        self._idle = anyio.Event()
        self._numbers = itertools.count(1)
        self._session = parts.session

    def new_call_id(self) -> str:
        """A call id: unique for good, sortable within one kernel."""
        return f"{self._session}-{next(self._numbers):06d}"

    async def call(
        self, request: CallRequest, tell: OnProgress | None = None, announce: OnCancellable | None = None
    ) -> ToolResult:
        """Run one call through the pipeline. A kernel that has stopped cancels it at once."""

        async def turn_away() -> None:
            self._activity.cancel(request.call_id)
            await anyio.lowlevel.checkpoint()

        announce = turn_away if self._stopped else announce
        try:
            if is_plan(self._upkeep.world, request.tool):
                return await run_plan(self._context, request, self.new_call_id, tell, announce)
            return await run_call(self._context, request, tell, announce)
        finally:
            if self._activity.running() == 0:
                self._idle.set()
                self._idle = anyio.Event()

    @property
    def yielding(self) -> bool:
        """Whether it takes no more calls."""
        return self.leaving.is_set()

    @property
    def inline_wait_ms(self) -> int:
        """How long a caller that names nothing waits for a person before it is handed a ticket."""
        return self._upkeep.world.settings.inline_wait_ms

    def cancel(self, call_id: str) -> bool:
        """End a call that is under way."""
        return self._activity.cancel(call_id)

    def catalog(self, caller_key: str = "") -> Catalog:
        """The catalog as it is now; for one caller where it is named, whose quota may be used up."""
        catalog = self._upkeep.world.catalog
        over = self._context.admission.quota.used_up(caller_key) if caller_key else None
        return catalog if over is None else over_quota(catalog, over.message)

    def activity(self) -> tuple[Activity, ...]:
        """See Client."""
        recent = self._activity.all()
        return (*recent, *self.past.calls({call.call_id for call in recent}))

    async def picture(self, call_id: str, index: int) -> Picture | None:
        """See Client."""
        call = self._activity.find(call_id)
        if call is None:
            return None
        steps = (step.call_id for step in self._activity.all() if step.parent_call_id == call_id)
        return await self._pictures.read(call, index, (call_id, *steps))

    async def metrics(self, caller_key: str = "") -> Metrics:
        """See Client; over the calls of one caller where it is named."""
        await self.past.ready()
        return self.past.metrics(caller_key)

    def caller_of(self, call_id: str) -> str:
        """Key of whose call it is; empty where it is not known any more."""
        return self._activity.caller_of(call_id)

    def asks(self) -> tuple[Ask, ...]:
        """See Client."""
        return self._queue.asks()

    def leases(self) -> tuple[Lease, ...]:
        """See Client."""
        return self._queue.leases.active()

    def blocks(self) -> tuple[Block, ...]:
        """See Client."""
        return self._standing.blocks.all()

    def rules(self) -> tuple[StandingRule, ...]:
        """See Client. Reads the person's policy file."""
        return self._standing.rules()

    def questions(self) -> tuple[Question, ...]:
        """See Client."""
        return self._questions.all()

    async def panic(self, by: str) -> bool:
        """Stop everything; `by` says who did, for the person and the log. See Client."""
        return await self._panic.pull(by)

    def pending_trust(self) -> tuple[TrustItem, ...]:
        """See Client."""
        return self._upkeep.pending_trust()

    async def revoke_trust(self, by: str) -> Outcome:
        """Trust nothing of the project any longer, from the next call on. It only takes away, so no person
        at the console is needed; `by` says in the log who did."""
        return await self._upkeep.revoke_trust(by)

    def probe(self, sidecar: str) -> None:
        """Ask a sidecar again whether it is well."""
        if not self._upkeep.probe_again(sidecar):
            self._background.upstreams.retry(sidecar)

    async def checks(self) -> tuple[Check, ...]:
        """See Client."""
        return await anyio.to_thread.run_sync(
            check_up, self._places, self._context.judge.ground.environ, self.catalog(), self.status()
        )

    def status(self) -> Status:
        """What this kernel says of itself."""
        world = self._upkeep.world
        return Status(
            app_root=str(self._places.app_root),
            pid=os.getpid(),
            since=self._holder.since,
            role=self._holder.role,
            version=flycore.__version__,
            approver=self.attaching.consoles > 0,
            consoles=self.attaching.consoles,
            clients=self._presence.clients,
            agents=self._presence.agents,
            waiting=self._queue.waiting,
            running=self._activity.running(),
            leases=len(self._queue.leases.active()),
            policy_ok=world.policy.ok,
            sandbox=SANDBOX_NOTE,
            waiting_trust=len(self._upkeep.pending_trust()),
            hands_on=self._context.run.hands.active(),
            waiting_risk=highest_waiting(self._queue.asks()),
            notify_problem=self._notifier.problem,
            anchor_problem=self._context.audit.anchor_problem,
            panic=self._panic.active(),
            listening=self._listening,
        )

    @property
    def state_dir(self) -> Path:
        """Where the root's state lies; this kernel's process alone writes there."""
        return self._places.state_dir

    def token_changed(self, name: str, decision: str, by: str) -> None:
        """Write down that a client is let in from now on, or no longer. Raises AuditUnwritable."""
        fields = token_changed(name, decision, by=by)
        self._context.audit.append(TOKEN_CHANGED, fields, sync=True)
        told: JsonObject = {"name": name, "decision": decision, "by": by, "about": f"token {name}"}
        self.bus.publish(
            Event(cls=EventClass.AUDIT, type="token.changed", at=self._context.clock.now(), payload=told)
        )

    @contextmanager
    def door_open(self, address: str) -> Iterator[None]:
        """Around a door that is open at that address."""
        self._listening = (*self._listening, address)
        try:
            yield
        finally:
            self._listening = tuple(other for other in self._listening if other != address)

    def connection(self) -> AbstractContextManager[ConnectionInfo]:
        """Around one attached client."""
        return self._presence.enter()

    def yield_root(self) -> bool:
        """Take no more calls, so that a console may have the root; only a provisional kernel does."""
        if self._holder.role == KernelRole.PROVISIONAL:
            self.leaving.set()
        return self.yielding

    async def wait_until_idle(self) -> None:
        """Wait until no call is under way."""
        while self._activity.running():
            await self._idle.wait()

    async def stop(self) -> None:
        """Take no more calls, refuse what waits for a person, end every other call, and wait, bounded,
        until their trees are gone and their lines written."""
        self._stopped = True
        self.leaving.set()
        self._queue.approver_left()
        with anyio.move_on_after(STOP_SECONDS, shield=True):
            await self._queue.all_resumed()
            for activity in self._activity.all():
                self._activity.cancel(activity.call_id)
            await self._background.instances.close()
            await self.wait_until_idle()
