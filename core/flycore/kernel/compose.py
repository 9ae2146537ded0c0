"""The composition of a kernel: its parts are opened in order, connected, and closed in reverse.

Each part gets everything it needs in its constructor, so the parts are built in the order of their needs. Two
parts that need each other share a third: the panic switch, the question events, or the background processes.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress

import anyio
import msgspec
from anyio.abc import TaskGroup

from flycore.approval.desktop_control import DesktopControl
from flycore.approval.exclusive_groups import GroupLocks
from flycore.approval.leases import is_caller_alive
from flycore.approval.loop_guard import LoopGuard
from flycore.approval.nested_roots import NestedRoots
from flycore.approval.queue import ApprovalQueue
from flycore.approval.tickets import load_tickets, ticket_writer
from flycore.approval.tool_blocks import ToolBlockStore
from flycore.audit.log import AuditLog
from flycore.catalog.probes import ProbeCache
from flycore.kernel.approver import ApproverDeps
from flycore.kernel.background import BackgroundProcesses
from flycore.kernel.bus import Bus, GroupSync, Recorder, line_event
from flycore.kernel.call_history import CallHistory
from flycore.kernel.connections import OpenConsoles
from flycore.kernel.console_pairing import ConsolePairing
from flycore.kernel.crash_recovery import begin_session, record_unfinished, remove_expired
from flycore.kernel.kept_catalog import KeptCatalogWriter
from flycore.kernel.kernel import Kernel, KernelParts
from flycore.kernel.load_state import RootEnvironment, find_environment
from flycore.kernel.lock import LockHolder
from flycore.kernel.loop_watch import LoopWatch, watch_loop
from flycore.kernel.mcp_servers import McpServers
from flycore.kernel.notify import Notifier
from flycore.kernel.package_questions import PackageQuestions
from flycore.kernel.packages import PackageActions, recover_packages
from flycore.kernel.panic import Panic, PanicSwitch, revoke_permissions
from flycore.kernel.questions import PolicyQuestion, QuestionEvents, QuestionRegistry, TrustQuestions
from flycore.kernel.quota_events import QuotaEvents
from flycore.kernel.refresh import StateRefresher, load_state
from flycore.kernel.samplings import Samplings
from flycore.kernel.server_questions import ServerQuestions
from flycore.kernel.standing_permissions import RevocationHistory, StandingPermissions
from flycore.model.approval import Ask
from flycore.model.clock import SystemClock
from flycore.model.errors import AuditUnwritable
from flycore.model.events import EventClass
from flycore.model.json import JsonObject
from flycore.pipeline.activity import ActivityLog
from flycore.pipeline.artifacts import ArtifactFolders
from flycore.pipeline.authorize import record_decision
from flycore.pipeline.context import (
    AdmissionContext,
    AskContext,
    JudgeContext,
    LiveLimits,
    PipelineContext,
    RunContext,
    SlotContext,
)
from flycore.pipeline.prepare import masks_for
from flycore.pipeline.slots import key_is_current
from flycore.pipeline.targets.window import X11Desktop
from flycore.registry.names import looks_secret
from flycore.registry.paths import RootPaths
from flycore.runners.child.launcher import prepare_launcher
from flycore.runners.pool import ProcessPool
from flycore.runners.workspace.project_files import project_of
from flycore.runners.workspace.run import Workspace
from flycore.runners.workspace.undo_store import UndoStore
from flysafe.atomic import private_folder
from flysafe.control_groups import claim
from flysafe.own_process import erase_from_environment, forbid_inspection


@asynccontextmanager
async def open_kernel(
    places: RootPaths,
    holder: LockHolder,
    environ: Mapping[str, str] | None = None,
    *,
    declared: Mapping[str, str] | None = None,
) -> AsyncIterator[Kernel]:
    """Open the kernel of one root and close it when the block ends. The caller holds the root's lock.
    `declared` are variables that entries may declare, beside those of this process."""
    # First, and in a process of its own only: tests hand in an environment, and their process may be traced.
    if environ is None:
        _protect_process()
    variables = {**(declared or {}), **(os.environ if environ is None else environ)}
    # It starts on another processor while this one reads the root's files.
    prepare_launcher()
    private_folder(places.state_dir)
    clock, bus, sync = SystemClock(), Bus(), GroupSync()
    call_history = CallHistory(places.audit_dir, clock, bus.publish)
    audit = _open_log(places, clock, call_history, bus, sync)
    cache = ProbeCache(places.cache_dir)
    watches = ExitStack()
    try:
        # First: the processes that a killed kernel left are ended before this one starts any.
        session = await begin_session(places.state_dir, audit)
        root = await _load_root(places, variables, cache, session, Recorder(clock, bus.publish, audit))
        parts = _build_parts(root, bus, call_history, holder, watches.enter_context(watch_loop()))
        kernel, context = Kernel(parts), parts.context
        async with anyio.create_task_group() as group:
            _start_services(group, parts, root, call_history)
            group.start_soon(sync.run, audit)
            group.start_soon(record_unfinished, call_history, audit, session, bus, clock)
            # `start` waits until the MCP servers have subscribed: a catalog event before that would be lost.
            await group.start(parts.background.mcp_servers.run, bus)
            if not holder.on_demand:
                group.start_soon(parts.notifier.run)
                group.start_soon(_kept_catalog(root).run, bus)
            try:
                yield kernel
            finally:
                # The group is cancelled last: its tasks are needed while the calls end.
                root.refresher.stop()
                await kernel.stop()
                context.run.folders.close()
                group.cancel_scope.cancel()
    finally:
        watches.close()
        cache.save()
        # The log is closed last: tasks of the group write lines until they have ended.
        with suppress(AuditUnwritable):
            audit.close()


def _start_services(group: TaskGroup, parts: KernelParts, root: _Root, call_history: CallHistory) -> None:
    """Start the tasks of the parts, which run as long as the kernel."""
    queue, bus = parts.context.ask.queue, parts.bus
    for service in (
        root.refresher.run,
        parts.context.run.desktop_control.run,
        queue.leases.watch,
        queue.run,
        call_history.run,
        parts.quota_events.run,
    ):
        group.start_soon(service)
    group.start_soon(parts.background.watch, bus)
    group.start_soon(_note_changes, bus, parts.context.admission.loops)
    group.start_soon(_ask_about_packages, bus, parts.package_questions)


def _protect_process() -> None:
    forbid_inspection()
    erase_from_environment([name for name in os.environ if looks_secret(name)])
    # Before the launcher is started: a group that limits memory may hold no process.
    claim()


def _open_log(
    places: RootPaths, clock: SystemClock, call_history: CallHistory, bus: Bus, sync: GroupSync
) -> AuditLog:
    def on_line(seq: int, line: bytes) -> None:
        sync.note_line()
        call_history.on_line(seq, line)
        bus.publish(line_event(line, clock.now()))

    return AuditLog.open(
        places.audit_dir,
        places.anchors_file,
        clock=clock.now,
        monotonic=clock.monotonic,
        on_line=on_line,
    )


class _Root(msgspec.Struct, frozen=True):
    """The root as it was read, and the refresher that keeps it current: the base of all other parts."""

    environment: RootEnvironment
    recorder: Recorder
    session: str
    blocks: ToolBlockStore
    panic_switch: PanicSwitch
    refresher: StateRefresher
    quota_events: QuotaEvents

    @property
    def limits(self) -> LiveLimits:
        return LiveLimits(self.refresher.state)


async def _load_root(
    places: RootPaths, environ: Mapping[str, str], cache: ProbeCache, session: str, recorder: Recorder
) -> _Root:
    environment = find_environment(places, environ)
    with suppress(OSError):  # without it, there are no tools in it
        private_folder(places.user_tools_dir)
    now = recorder.clock.now()
    # Before any call: a folder that is removed here cannot belong to one.
    await anyio.to_thread.run_sync(remove_expired, places.state_dir, places.data_dir, now)
    # Before the files are read: a version that was applied in part is neither the old nor the new one.
    await anyio.to_thread.run_sync(recover_packages, environment, recorder)
    loaded = await anyio.to_thread.run_sync(load_state, environment, cache, now)
    switch = PanicSwitch(places.state_dir)
    refresher = StateRefresher(loaded, recorder, cache, session, switch.active)
    return _Root(
        environment, recorder, session, loaded.registry.trust.blocks, switch, refresher, QuotaEvents(recorder)
    )


def _build_parts(
    root: _Root, bus: Bus, call_history: CallHistory, holder: LockHolder, loop_watch: LoopWatch
) -> KernelParts:
    environment, recorder, refresher = root.environment, root.recorder, root.refresher
    clock, switch = recorder.clock, root.panic_switch
    consoles = OpenConsoles(lambda: recorder.publish(EventClass.APPROVAL, "status.changed", {}), holder)
    desktop_control = DesktopControl(clock, bus.publish)
    permissions = _standing_permissions(root)
    queue = _approval_queue(root, permissions, desktop_control)
    if switch.active():  # a stop outlives a restart, so what an earlier kernel granted must not
        revoke_permissions(queue)
    pool = ProcessPool(clock.monotonic, lambda key: key_is_current(refresher.root_state, key))
    activity = ActivityLog(clock, bus.publish)
    events = QuestionEvents(recorder)
    server_questions = _server_questions(root, events, consoles, activity, desktop_control)
    samplings = Samplings(recorder, server_questions)
    mcp_servers = McpServers(
        environment, clock, refresher, switch.active, root.session, server_questions, samplings
    )
    background = BackgroundProcesses(pool, mcp_servers, refresher)
    panic = Panic(switch, recorder, queue, activity, background)
    loops = LoopGuard(clock, consoles.present, events.publish_asked, events.publish_ended)
    trust = TrustQuestions(clock, refresher.pending_trust, refresher.trust)
    places, controlled = environment.places, desktop_control.active
    nested_roots = NestedRoots(places.nested_roots_file, places.app_root, clock, events.publish_asked)
    rules = PolicyQuestion(clock, lambda: refresher.waiting_rules, refresher.accept_rules, controlled)
    packages, package_questions = _package_parts(root, activity, pool, controlled, events)
    sources = (panic, server_questions, rules, loops, package_questions, trust, nested_roots)
    questions = QuestionRegistry(recorder.audit, events, sources)
    approver_deps = ApproverDeps(
        queue,
        refresher,
        packages,
        questions.answer,
        consoles,
        lambda by: RevocationHistory(permissions, queue.leases, controlled, by),
    )
    context = _pipeline_context(
        root, approver_deps, background, permissions, desktop_control, loops, activity, call_history
    )
    return KernelParts(
        context=context,
        bus=bus,
        background=background,
        call_history=call_history,
        notifier=_notifier(root, bus, queue),
        holder=holder,
        permissions=permissions,
        panic=panic,
        questions=questions,
        samplings=samplings,
        nested_roots=nested_roots,
        packages=packages,
        package_questions=package_questions,
        pairing=ConsolePairing(approver_deps, recorder, holder),
        session=root.session,
        loop_watch=loop_watch,
        quota_events=root.quota_events,
    )


def _standing_permissions(root: _Root) -> StandingPermissions:
    refresher = root.refresher
    return StandingPermissions(
        root.environment.places.policy_file,
        root.blocks,
        root.recorder,
        names=lambda: frozenset(refresher.root_state.index),
        changed=refresher.reload,
        accepted=refresher.accepted_policy,
    )


def _kept_catalog(root: _Root) -> KeptCatalogWriter:
    state = root.refresher.state
    return KeptCatalogWriter(root.environment.places, lambda: state.latest.catalog, root.recorder.clock.now)


def _notifier(root: _Root, bus: Bus, queue: ApprovalQueue) -> Notifier:
    environment, refresher = root.environment, root.refresher
    return Notifier(
        bus,
        root.recorder.clock,
        environment.environ,
        queue.asks,
        lambda: refresher.root_state.files.settings.notify_command,
    )


def _package_parts(
    root: _Root,
    activity: ActivityLog,
    pool: ProcessPool,
    controlled: Callable[[], bool],
    events: QuestionEvents,
) -> tuple[PackageActions, PackageQuestions]:
    packages = PackageActions(root.environment, root.recorder, root.refresher, activity, pool, controlled)
    return packages, PackageQuestions(packages, root.recorder.clock.now, events)


def _server_questions(
    root: _Root,
    events: QuestionEvents,
    consoles: OpenConsoles,
    activity: ActivityLog,
    desktop_control: DesktopControl,
) -> ServerQuestions:
    """Build what asks a person the questions of MCP servers."""
    return ServerQuestions(
        root.recorder.clock,
        events,
        consoles.approver_within,
        lambda: root.refresher.root_state.files.settings.approval_times.medium,
        activity.find,
        desktop_control.active,
    )


def _pipeline_context(
    root: _Root,
    approver_deps: ApproverDeps,
    background: BackgroundProcesses,
    permissions: StandingPermissions,
    desktop_control: DesktopControl,
    loops: LoopGuard,
    activity: ActivityLog,
    call_history: CallHistory,
) -> PipelineContext:
    """Build the dependencies of each step of a call."""
    environment, recorder, state = root.environment, root.recorder, root.refresher.state
    clock, queue, consoles, switch = (
        recorder.clock,
        approver_deps.queue,
        approver_deps.consoles,
        root.panic_switch,
    )
    desktop = X11Desktop(environment.environ)

    return PipelineContext(
        clock=clock,
        audit=recorder.audit,
        activity=activity,
        judge=JudgeContext(
            environment,
            clock,
            state,
            root.blocks,
            desktop,
            consoles.protected_windows,
            permissions.count_rules,
        ),
        admission=AdmissionContext(
            environment.places.app_root, switch.active, loops, root.quota_events.quota(root.limits)
        ),
        ask=AskContext(
            environment.places.app_root,
            clock,
            recorder.audit,
            queue,
            call_history,
            desktop,
            consoles.approver_within,
        ),
        slots=SlotContext(GroupLocks(), queue.leases, queue.grants, background.pool, background.mcp_servers),
        run=_run_context(root, desktop_control, consoles),
    )


def _run_context(root: _Root, desktop_control: DesktopControl, consoles: OpenConsoles) -> RunContext:
    """Build the dependencies of the step that starts a sidecar."""
    return RunContext(
        root=root.environment,
        state=root.refresher.state,
        audit=root.recorder.audit,
        folders=ArtifactFolders(root.environment.places.artifacts_dir),
        desktop_control=desktop_control,
        protected_windows=consoles.protected_windows,
        workspace=Workspace(
            project_of(root.environment.places),
            UndoStore(root.environment.places.undo_dir),
            root.recorder.clock.now,
        ),
        observations=root.refresher.observations,
    )


def _approval_queue(
    root: _Root, permissions: StandingPermissions, desktop_control: DesktopControl
) -> ApprovalQueue:
    """Build the queue, with the tickets that an earlier kernel saved."""
    environment, recorder = root.environment, root.recorder

    def publish_unsaved(fields: JsonObject) -> None:
        recorder.publish(EventClass.APPROVAL, "tickets.unwritable", fields)

    def record_unattended(ask: Ask) -> None:
        """Log the end of a request whose caller no longer waits."""
        root_state = root.refresher.root_state
        masks = masks_for(root_state, root_state.entries.get(ask.request.sidecar), environment)
        took_ms = int((recorder.clock.now() - ask.request.asked_at) * 1000)
        # Nothing runs because of this line: a call that comes back needs a start line of its own.
        with suppress(AuditUnwritable):
            record_decision(recorder.audit, ask, ask.request.call_id, took_ms, masks)

    state_dir = environment.places.state_dir
    queue = ApprovalQueue(
        recorder.clock,
        recorder.send,
        root.limits,
        desktop_control,
        write_permission=permissions.write_for_answer,
        on_lease_change=permissions.record_lease,
        save_tickets=ticket_writer(state_dir, publish_unsaved),
        on_unattended=record_unattended,
        is_alive=is_caller_alive,
    )
    queue.restore(load_tickets(state_dir))
    return queue


async def _note_changes(bus: Bus, loops: LoopGuard) -> None:
    """Tell the loop guard which tools have changed."""
    with bus.subscribe(frozenset((EventClass.CATALOG,))) as events:
        async for event in events:
            names = event.payload.get("names")
            if isinstance(names, list):
                loops.note_change(name for name in names if isinstance(name, str))


async def _ask_about_packages(bus: Bus, questions: PackageQuestions) -> None:
    """Publish the questions about packages as they arise."""
    with bus.subscribe(frozenset((EventClass.PACKAGE,))) as events:
        questions.publish_new()
        async for _ in events:
            questions.publish_new()
