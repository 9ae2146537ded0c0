"""Puts a kernel together: opens every part, hands each what it needs, and closes them in reverse.

Parts are built in the order of what they need, so each gets all of it when it is made. Where two need each
other, a value is between them: the panic switch, the question events, the processes of the background.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio

from flycore.approval.desktop_control import DesktopControl
from flycore.approval.exclusive_groups import GroupLocks
from flycore.approval.loop_guard import LoopGuard
from flycore.approval.queue import ApprovalQueue
from flycore.approval.quota import Quota
from flycore.approval.tickets import load_tickets, ticket_writer
from flycore.approval.tool_blocks import ToolBlockStore
from flycore.audit.log import AuditLog
from flycore.catalog.probes import ProbeCache
from flycore.kernel.approver import ApproverDeps
from flycore.kernel.background import BackgroundProcesses
from flycore.kernel.bus import Bus, Recorder
from flycore.kernel.call_history import CallHistory
from flycore.kernel.connections import OpenConsoles
from flycore.kernel.console_pairing import ConsolePairing
from flycore.kernel.crash_recovery import begin_session, record_unfinished, remove_expired
from flycore.kernel.kernel import Kernel, KernelParts
from flycore.kernel.load_state import RootEnvironment, find_environment
from flycore.kernel.lock import LASTING_ROLES, LockHolder
from flycore.kernel.mcp_servers import McpServers
from flycore.kernel.notify import Notifier
from flycore.kernel.panic import Panic, PanicSwitch, revoke_permissions
from flycore.kernel.questions import QuestionEvents, QuestionRegistry, TrustQuestions
from flycore.kernel.refresh import StateRefresher, load_state
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
    PipelineContext,
    RunContext,
    SlotContext,
)
from flycore.pipeline.prepare import masks_for
from flycore.pipeline.slots import key_is_current
from flycore.pipeline.state import LiveLimits
from flycore.pipeline.targets.window import X11Desktop
from flycore.registry.paths import RootPaths
from flycore.runners.pool import ProcessPool
from flycore.sandbox.secret_masks import Masks
from flysafe.atomic import private_folder

AUDIT_GROUP_SECONDS = 0.05
"""Result lines are synced together within this time; lines before an effect are synced at once."""


@asynccontextmanager
async def open_kernel(
    places: RootPaths, holder: LockHolder, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Kernel]:
    """A kernel for one root. The caller holds the root's lock."""
    surroundings = dict(os.environ if environ is None else environ)
    private_folder(places.state_dir)
    clock, bus = SystemClock(), Bus()
    past = CallHistory(places.audit_dir, clock, bus.publish)
    audit = _open_log(places, clock, past)
    cache = ProbeCache(places.cache_dir)
    try:
        session = await begin_session(places.state_dir, audit)
        root = await _load_root(places, surroundings, cache, session, Recorder(clock, bus.publish, audit))
        parts = _composed(root, bus, past, holder)
        kernel, context = Kernel(parts), parts.context
        async with anyio.create_task_group() as group:
            queue = context.ask.queue
            for beside in (root.upkeep.run, context.run.hands.run, queue.leases.watch, queue.run, past.run):
                group.start_soon(beside)
            group.start_soon(_group_sync, audit)
            group.start_soon(record_unfinished, past, audit, session, bus, clock)
            group.start_soon(parts.background.watch, bus)
            await group.start(parts.background.upstreams.run, bus)
            if holder.role in LASTING_ROLES:
                group.start_soon(parts.notifier.run)
            try:
                yield kernel
            finally:
                root.upkeep.stop()
                await kernel.stop()
                context.run.folders.close()
                group.cancel_scope.cancel()
    finally:
        cache.save()
        with suppress(AuditUnwritable):
            audit.close()


def _open_log(places: RootPaths, clock: SystemClock, past: CallHistory) -> AuditLog:
    return AuditLog.open(
        places.audit_dir,
        places.anchors_file,
        clock=clock.now,
        monotonic=clock.monotonic,
        on_line=past.on_line,
    )


@dataclass(frozen=True, slots=True)
class _Root:
    """What everything else is built on: the root as it was read, and what keeps that true."""

    ground: RootEnvironment
    recorder: Recorder
    session: str
    blocks: ToolBlockStore
    switch: PanicSwitch
    upkeep: StateRefresher

    @property
    def limits(self) -> LiveLimits:
        return LiveLimits(self.upkeep.state)


async def _load_root(
    places: RootPaths, environ: Mapping[str, str], cache: ProbeCache, session: str, recorder: Recorder
) -> _Root:
    ground = find_environment(places, environ)
    blocks = ToolBlockStore.load(places.blocks_file)
    now = recorder.clock.now()
    # Before anything is started: what is swept away belongs to nobody yet.
    await anyio.to_thread.run_sync(remove_expired, places.state_dir, places.data_dir, now)
    loaded = await anyio.to_thread.run_sync(load_state, ground, blocks, cache, now)
    switch = PanicSwitch(places.state_dir)
    upkeep = StateRefresher(loaded, recorder, cache, session, switch.active)
    return _Root(ground, recorder, session, blocks, switch, upkeep)


def _composed(root: _Root, bus: Bus, past: CallHistory, holder: LockHolder) -> KernelParts:
    ground, recorder, upkeep = root.ground, root.recorder, root.upkeep
    clock, switch = recorder.clock, root.switch
    seats = OpenConsoles(lambda: recorder.publish(EventClass.APPROVAL, "status.changed", {}), holder.role)
    hands = DesktopControl(clock, bus.publish)
    standing = StandingPermissions(
        ground.places.policy_file,
        root.blocks,
        recorder,
        names=lambda: frozenset(upkeep.world.index),
        changed=upkeep.reload,
    )
    queue = _queue(root, standing, hands)
    if switch.active():
        revoke_permissions(queue)
    instances = ProcessPool(clock.monotonic, lambda key: key_is_current(upkeep.world, key))
    upstreams = McpServers(ground, clock, upkeep, switch.active, root.session)
    background = BackgroundProcesses(instances, upstreams, upkeep)
    activity = ActivityLog(clock, bus.publish)
    panic = Panic(switch, recorder, queue, activity, background)
    events = QuestionEvents(recorder)
    loops = LoopGuard(clock, seats.present, asked=events.publish_asked, ended=events.publish_ended)
    trust = TrustQuestions(clock, upkeep.pending_trust, upkeep.trust)
    questions = QuestionRegistry(recorder.audit, events, (panic, loops, trust))
    reach = ApproverDeps(
        queue,
        upkeep,
        questions.answer,
        seats,
        lambda by: RevocationHistory(standing, queue.leases, hands.active, by),
    )
    context = _pipeline_context(root, reach, background, standing, hands, loops, activity, past)
    return KernelParts(
        context=context,
        bus=bus,
        background=background,
        past=past,
        notifier=Notifier(
            bus, clock, ground.environ, queue.asks, lambda: upkeep.world.settings.notify_command
        ),
        holder=holder,
        standing=standing,
        panic=panic,
        questions=questions,
        attaching=ConsolePairing(reach, recorder, holder.role),
        session=root.session,
    )


def _pipeline_context(
    root: _Root,
    reach: ApproverDeps,
    background: BackgroundProcesses,
    standing: StandingPermissions,
    hands: DesktopControl,
    loops: LoopGuard,
    activity: ActivityLog,
    past: CallHistory,
) -> PipelineContext:
    """What each step of a call gets."""
    ground, recorder, state = root.ground, root.recorder, root.upkeep.state
    clock, queue, seats, switch = recorder.clock, reach.queue, reach.seats, root.switch
    desktop = X11Desktop(ground.environ)
    return PipelineContext(
        clock=clock,
        audit=recorder.audit,
        activity=activity,
        judge=JudgeContext(
            ground, clock, state, root.blocks, desktop, seats.protected_windows, standing.count_rules
        ),
        admission=AdmissionContext(ground.places.app_root, switch.active, loops, Quota(clock, root.limits)),
        ask=AskContext(
            ground.places.app_root,
            clock,
            recorder.audit,
            queue,
            past,
            desktop,
            seats.approver_within,
        ),
        slots=SlotContext(
            GroupLocks(), queue.leases, queue.grants, background.instances, background.upstreams
        ),
        run=RunContext(
            ground=ground,
            state=state,
            audit=recorder.audit,
            folders=ArtifactFolders(ground.places.artifacts_dir),
            hands=hands,
            seat=seats.protected_windows,
            note_run=root.upkeep.record_run,
        ),
    )


def _queue(root: _Root, standing: StandingPermissions, hands: DesktopControl) -> ApprovalQueue:
    """The queue, with what an earlier kernel left in it."""
    ground, recorder = root.ground, root.recorder

    def unsaved(fields: JsonObject) -> None:
        recorder.publish(EventClass.APPROVAL, "tickets.unwritable", fields)

    def unattended(ask: Ask) -> None:
        """Nothing runs because of this line; a log that takes none refuses the call that comes back."""
        entry = root.upkeep.world.entries.get(ask.request.sidecar)
        masks = Masks({}) if entry is None else masks_for(entry, ground.environ)
        took_ms = int((recorder.clock.now() - ask.request.asked_at) * 1000)
        with suppress(AuditUnwritable):
            record_decision(recorder.audit, ask, ask.request.call_id, took_ms, masks)

    state_dir = ground.places.state_dir
    queue = ApprovalQueue(
        recorder.clock,
        recorder.send,
        root.limits,
        hands,
        first=standing.write_for_answer,
        told=standing.record_lease,
        keep=ticket_writer(state_dir, unsaved),
        unattended=unattended,
    )
    queue.restore(load_tickets(state_dir))
    return queue


async def _group_sync(audit: AuditLog) -> None:
    """Sync result lines that were written without."""
    while True:
        await anyio.sleep(AUDIT_GROUP_SECONDS)
        if audit.dirty and not audit.stopped:
            with suppress(AuditUnwritable):
                audit.flush()
