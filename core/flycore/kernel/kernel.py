"""The kernel: the one object that servers and the console call. It is built in `compose.py`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

import flycore
from flycore.approval.nested_roots import NestedRoots, is_nested_root
from flycore.audit.events import LOGIN_CHANGED, TOKEN_CHANGED, login_changed, token_changed
from flycore.catalog.build import over_quota
from flycore.catalog.probes import ProbeCache
from flycore.kernel.background import BackgroundProcesses
from flycore.kernel.bus import Bus
from flycore.kernel.call_history import ArtifactImages, CallHistory
from flycore.kernel.connections import ConnectionInfo, Connections
from flycore.kernel.console_pairing import ConsolePairing
from flycore.kernel.doctor import check_up
from flycore.kernel.lock import LockHolder, record_role
from flycore.kernel.loop_watch import LoopWatch
from flycore.kernel.notify import Notifier
from flycore.kernel.package_questions import PackageQuestions
from flycore.kernel.packages import PackageActions
from flycore.kernel.panic import STOP_SECONDS, Panic
from flycore.kernel.peers import identify_local_peer
from flycore.kernel.questions import QuestionRegistry
from flycore.kernel.quota_events import QuotaEvents
from flycore.kernel.samplings import Samplings
from flycore.kernel.standing_permissions import StandingPermissions
from flycore.kernel.starter_offer import starter_offer
from flycore.kernel.undo import UndoActions
from flycore.model.approval import Ask, Lease, Outcome, StandingRule, highest_waiting
from flycore.model.audit import Metrics
from flycore.model.call import Activity, Caller, CallRequest, Picture, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Check
from flycore.model.enums import KernelRole, PackageAction, PackageScope, RootPermission
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.model.package import PackageCheck, PackageView
from flycore.model.question import Block, Question, TrustItem
from flycore.model.starter import StarterOffer, StarterPlan
from flycore.model.status import Status
from flycore.pipeline.call import OnCancellable, OnProgress
from flycore.pipeline.context import PipelineContext
from flycore.pipeline.pipeline import run_call
from flycore.plans.run import is_plan, run_plan
from flycore.registry.starter import plan_starter
from flycore.sandbox.levels import sandbox_in_words

LOOK_AGAIN_SECONDS = 1.0
"""The pause between two looks whether a kernel on demand is still used."""


class KernelParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a kernel, built in `compose.py`."""

    context: PipelineContext
    bus: Bus
    background: BackgroundProcesses
    call_history: CallHistory
    notifier: Notifier
    holder: LockHolder
    permissions: StandingPermissions
    panic: Panic
    questions: QuestionRegistry
    samplings: Samplings
    nested_roots: NestedRoots
    packages: PackageActions
    package_questions: PackageQuestions
    pairing: ConsolePairing
    loop_watch: LoopWatch
    quota_events: QuotaEvents
    session: str
    """The prefix of this kernel's call ids."""


class Kernel:
    """The kernel of one app root."""

    def __init__(self, parts: KernelParts) -> None:
        self.bus = parts.bus
        self.pairing = parts.pairing
        self.yielded = anyio.Event()
        """Set when the kernel takes no more calls."""
        self._stopped = False
        self._context = parts.context
        self._activity = parts.context.activity
        self._queue = parts.context.ask.queue
        self._places = parts.context.judge.root.places
        self._background = parts.background
        self._refresher = parts.background.refresher
        self.call_history = parts.call_history
        self._notifier = parts.notifier
        self._holder = parts.holder
        self._permissions = parts.permissions
        self._panic = parts.panic
        self._questions = parts.questions
        self._samplings = parts.samplings
        self._nested_roots = parts.nested_roots
        self._packages = parts.packages
        self._package_questions = parts.package_questions
        self._images = ArtifactImages(self._places)
        self._connections = Connections(self._publish_status_change)
        self._addresses: tuple[str, ...] = ()
        self._idle = anyio.Event()
        self._calls = 0
        """Calls that were taken and have not ended yet."""
        self._starter_answers = ProbeCache(None)
        self._numbers = itertools.count(1)
        self._session = parts.session
        self.loop_watch = parts.loop_watch
        self.undo_actions = UndoActions(
            parts.context.run.workspace, parts.context.audit, parts.context.run.desktop_control.active
        )
        """The undo of changes to files."""

    def new_call_id(self) -> str:
        """Make a call id. It is unique over all kernels and sorts by time within one."""
        return f"{self._session}-{next(self._numbers):06d}"

    async def call(
        self,
        request: CallRequest,
        on_progress: OnProgress | None = None,
        on_cancellable: OnCancellable | None = None,
    ) -> ToolResult:
        """Run one call, or a plan of calls, through the pipeline. A stopped kernel cancels it at once."""

        async def cancel_at_once() -> None:
            self._activity.cancel(request.call_id)
            await anyio.lowlevel.checkpoint()

        on_cancellable = cancel_at_once if self._stopped else on_cancellable
        # Counted before anything is awaited: a kernel that gives way must not end between taking a call and
        # its first step.
        self._calls += 1
        try:
            await self._refresher.schemas_ready(request.tool)
            tool = self._refresher.tool_name(request.tool)
            if tool != request.tool:
                request = msgspec.structs.replace(request, tool=tool)
            if is_plan(self._refresher.root_state, request.tool):
                return await run_plan(self._context, request, self.new_call_id, on_progress, on_cancellable)
            with self._samplings.taken_by(request, on_progress):
                return await run_call(self._context, request, on_progress, on_cancellable)
        finally:
            self._calls -= 1
            # An event cannot be cleared, so a new one replaces it for the next wait.
            if self._calls == 0:
                self._idle.set()
                self._idle = anyio.Event()

    @property
    def has_yielded(self) -> bool:
        """Whether the kernel takes no more calls."""
        return self.yielded.is_set()

    @property
    def inline_wait_ms(self) -> int:
        """The milliseconds a call waits for a person by default, before its caller gets a ticket."""
        return self._refresher.root_state.files.settings.inline_wait_ms

    def cancel(self, call_id: str) -> bool:
        """Cancel a running call; return False if it is not running."""
        return self._activity.cancel(call_id)

    def catalog(self, caller_key: str = "") -> Catalog:
        """Return the catalog; with a caller key, tools are unavailable if that caller's quota is used up."""
        catalog = self._refresher.root_state.catalog
        exceeded = self._context.admission.quota.used_up(caller_key) if caller_key else None
        return catalog if exceeded is None else over_quota(catalog, exceeded.message)

    def activity(self) -> tuple[Activity, ...]:
        """Return the calls that run and the latest that ended."""
        recent = self.call_history.with_decisions(self._activity.all())
        return (*recent, *self.call_history.calls({call.call_id for call in recent}))

    async def picture(self, call_id: str, index: int) -> Picture | None:
        """Return an image that the call or one of its steps made; None if it is gone or is no image."""
        call = self._activity.find(call_id)
        if call is None:
            return None
        steps = (step.call_id for step in self._activity.all() if step.parent_call_id == call_id)
        return await self._images.read(call, index, (call_id, *steps))

    async def metrics(self, caller_key: str = "") -> Metrics:
        """Return the metrics per tool, over all calls or those of one caller."""
        await self.call_history.ready()
        return self.call_history.metrics(caller_key)

    def identify_peer(self, pid: int, door: str) -> Caller:
        """Return the caller behind a process of this user, which is connected or is this one."""
        return identify_local_peer(pid, door, self._places, self._activity.find)

    def caller_of(self, call_id: str) -> str:
        """Return the key of the call's caller; empty if the call is no longer known."""
        return self._activity.caller_of(call_id)

    def asks(self) -> tuple[Ask, ...]:
        """Return the approval requests."""
        return self._queue.asks()

    def leases(self) -> tuple[Lease, ...]:
        """Return the active leases."""
        return self._queue.leases.active()

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocked tools."""
        return self._permissions.blocks.all()

    def rules(self) -> tuple[StandingRule, ...]:
        """Return the person's own rules, read from their policy file."""
        return self._permissions.rules()

    def questions(self) -> tuple[Question, ...]:
        """Return the questions that wait for a person."""
        return self._questions.all()

    def packages(self) -> tuple[PackageView, ...]:
        """Return the packages that are installed or staged, and what a staged version would change."""
        return self._packages.views()

    async def verify_packages(self) -> tuple[PackageCheck, ...]:
        """Compare the files of the packages with those that were installed."""
        return await self._packages.verify()

    async def ask_package(self, action: PackageAction, package: str, scope: PackageScope) -> Outcome:
        """Put a change of a package before a person."""
        # The command may have staged it a moment ago, before the watcher saw the record.
        self._refresher.reload()
        await self._refresher.refresh()
        wanted = self._package_questions.want(action, package, scope)
        if wanted.accepted:
            self._publish_status_change()
        return wanted

    async def nested_root(self, root: str, caller: Caller) -> RootPermission | None:
        """Return whether programs may work on a root within this one, and ask a person where nobody knows;
        None where there is no such root."""
        if not await anyio.to_thread.run_sync(is_nested_root, root, self._places.app_root):
            return None
        return self._nested_roots.permission(root, caller)

    async def create_tool(self, name: str, definition: JsonObject | str, caller: Caller) -> Outcome:
        """Keep a tool that an agent made for a person's review. While everything is stopped, none is made."""
        if self._panic.active():
            return Outcome(accepted=False, why_not="everything is stopped until a person releases it")
        return await self._refresher.create_tool(name, definition, str(caller))

    def answer_sampling(self, sampling_id: str, result: JsonObject | None, caller: Caller) -> Outcome:
        """Give an MCP server the answer of the caller's model; None refuses."""
        return self._samplings.answer(sampling_id, result, caller.key)

    async def panic(self, by: str) -> bool:
        """Stop everything until a person releases it. `by` names the client, for the person and the log."""
        return await self._panic.stop_everything(by)

    def pending_trust(self) -> tuple[TrustItem, ...]:
        """Return the entries that wait for trust."""
        return self._refresher.pending_trust()

    async def revoke_trust(self, by: str) -> Outcome:
        """Revoke all trust in the project's entries, from the next call on. `by` names the client in the log.

        This takes rights away only, so every client may do it.
        """
        return await self._refresher.revoke_trust(by)

    def probe(self, sidecar: str) -> None:
        """Probe a sidecar again, or connect to an MCP server again."""
        if not self._refresher.probe_again(sidecar):
            self._background.mcp_servers.retry(sidecar)

    async def refresh(self, probes: bool) -> None:
        """Read the files of the root again; with `probes`, wait for the probes that run."""
        await self._refresher.settle(probes=probes)

    async def checks(self) -> tuple[Check, ...]:
        """Run every doctor check but those of a terminal."""
        return await anyio.to_thread.run_sync(
            check_up, self._places, self._context.judge.root.environ, self.catalog(), self.status()
        )

    async def starter(self) -> StarterOffer:
        """Ask the bundled sidecars what works here, and return the starter entries."""
        root, ask = self._context.judge.root, not self._panic.active()
        return await starter_offer(root, self._refresher.files, self._starter_answers, self._session, ask=ask)

    async def plan_starter(self, sidecars: tuple[str, ...]) -> StarterPlan:
        """Return the change that writes these starter entries."""
        root = self._context.judge.root
        return (await anyio.to_thread.run_sync(plan_starter, root.places, root.environ, sidecars)).plan

    def status(self) -> Status:
        """Return the status of this kernel."""
        state = self._refresher.root_state
        return Status(
            app_root=str(self._places.app_root),
            pid=os.getpid(),
            since=self._holder.since,
            role=self._holder.role,
            on_demand=self._holder.on_demand,
            version=flycore.__version__,
            approver=self.pairing.consoles > 0,
            consoles=self.pairing.consoles,
            clients=self._connections.clients,
            agents=self._connections.agents,
            waiting=self._queue.waiting,
            running=self._activity.running(),
            leases=len(self._queue.leases.active()),
            policy_ok=state.files.policy.ok,
            waiting_rules=self._refresher.waiting_rules.count,
            sandbox=sandbox_in_words(state.catalog),
            waiting_trust=len(self._refresher.pending_trust()),
            hands_on=self._context.run.desktop_control.active(),
            waiting_risk=highest_waiting(self._queue.asks()),
            notify_problem=self._notifier.problem,
            anchor_problem=self._context.audit.anchor_problem,
            turned_away=self._queue.turned_away,
            panic=self._panic.active(),
            listening=self._addresses,
            loop_pauses=self.loop_watch.count,
            longest_pause_ms=self.loop_watch.longest_ms,
            latest_pause=self.loop_watch.latest,
        )

    @property
    def state_dir(self) -> Path:
        """The root's state folder, where only this kernel's process writes."""
        return self._places.state_dir

    def record_token_change(self, name: str, decision: str, by: str) -> None:
        """Log that a client's token was made or revoked. Raises AuditUnwritable."""
        fields = token_changed(name, decision, by=by)
        self._context.audit.append(TOKEN_CHANGED, fields, sync=True)
        payload: JsonObject = {"name": name, "decision": decision, "by": by, "about": f"token {name}"}
        self.bus.publish(
            Event(cls=EventClass.AUDIT, type="token.changed", at=self._context.clock.now(), payload=payload)
        )

    def record_login_change(self, sidecar: str, decision: str, by: str) -> None:
        """Log that a person logged in or out at the server of an entry. Raises AuditUnwritable."""
        self._context.audit.append(LOGIN_CHANGED, login_changed(sidecar, decision, by=by), sync=True)
        payload: JsonObject = {"name": sidecar, "decision": decision, "by": by, "about": f"login {sidecar}"}
        self.bus.publish(
            Event(cls=EventClass.AUDIT, type="login.changed", at=self._context.clock.now(), payload=payload)
        )

    @contextmanager
    def show_address(self, address: str) -> Iterator[None]:
        """Show that address in the status while the block runs."""
        self._addresses = (*self._addresses, address)
        try:
            yield
        finally:
            self._addresses = tuple(other for other in self._addresses if other != address)

    def serve_alone(self) -> None:
        """Go on as the kernel of `flytui serve`, because its console has left and its supervisor leaves."""
        self._holder = record_role(self._places, self._holder, KernelRole.HEADLESS)
        self.pairing.serve_alone()
        self._publish_status_change()

    def _publish_status_change(self) -> None:
        at = self._context.clock.now()
        self.bus.publish(Event(cls=EventClass.APPROVAL, type="status.changed", at=at, payload={}))

    def connection(self) -> AbstractContextManager[ConnectionInfo]:
        """Count one attached client while the block runs."""
        return self._connections.enter()

    def yield_root(self) -> bool:
        """Take no more calls, so that a console can have the root. Only a kernel on demand yields."""
        if self._holder.on_demand:
            self.yielded.set()
        return self.has_yielded

    async def wait_until_unused(self) -> None:
        """Wait until nobody has been connected for as long as the setting `kernel.idleMinutes` says.

        If looser policy rules wait for a person, who has no console here, it is enough that nobody is
        connected: the next kernel takes the files as they are.
        """
        while True:
            minutes = self._refresher.root_state.files.settings.idle_minutes
            limit = 0.0 if self._refresher.waiting_rules.count else minutes * 60.0
            used = self._connections.clients or self._calls
            if not used and self._connections.unused_seconds() >= limit:
                return
            with anyio.move_on_after(LOOK_AGAIN_SECONDS):
                await self._connections.changed()

    async def wait_until_idle(self) -> None:
        """Wait until no call is running."""
        while self._calls:
            await self._idle.wait()

    async def stop(self) -> None:
        """Take no more calls, end all others, and wait, STOP_SECONDS at most, until their processes are gone
        and their lines written."""
        self._stopped = True
        self.yielded.set()
        self._queue.approver_left()
        with anyio.move_on_after(STOP_SECONDS, shield=True):
            # First the calls that wait for a person: they end as refused, with the reason, not cancelled.
            await self._queue.all_resumed()
            self._activity.close()
            await self._background.pool.close()
            await self.wait_until_idle()
