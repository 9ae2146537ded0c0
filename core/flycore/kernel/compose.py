"""Puts a kernel together: opens every room, hands each what it needs, and closes them in reverse."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple

import anyio

from flycore.approval.blocks import BlockBook
from flycore.approval.groups import GroupLocks
from flycore.approval.guards import Quota
from flycore.approval.hands import HandsOn
from flycore.approval.loops import LoopGuard
from flycore.approval.queue import ApprovalQueue
from flycore.audit.log import AuditLog
from flycore.catalog.probe_cache import ProbeCache
from flycore.catalog.probes import Prober
from flycore.catalog.runtime import RuntimeTracker
from flycore.executive.activity import ActivityBook
from flycore.executive.ask import record_decision
from flycore.executive.desktop_x11 import X11Desktop
from flycore.executive.folders import ArtifactFolders
from flycore.executive.prepare import masks_for
from flycore.executive.rooms import Rooms
from flycore.executive.staying import key_holds
from flycore.kernel.approver import Reach
from flycore.kernel.attaching import Attaching
from flycore.kernel.bus import Bus
from flycore.kernel.clock import SystemClock
from flycore.kernel.kernel import Kernel
from flycore.kernel.limits import LiveLimits
from flycore.kernel.lock import FOR_GOOD, Holder
from flycore.kernel.notify import Notifier
from flycore.kernel.panic import Panic, end_standing
from flycore.kernel.past import Past
from flycore.kernel.probing import probe_spawn
from flycore.kernel.questions import QuestionBook, TrustQuestions
from flycore.kernel.seats import Seats
from flycore.kernel.standing import Revocations, Standing
from flycore.kernel.staying import keep_instances
from flycore.kernel.sweep import sweep
from flycore.kernel.tickets import keeper, load_tickets
from flycore.kernel.unfinished import begin_session, tell_unfinished
from flycore.kernel.upkeep import Upkeep
from flycore.kernel.upstreams import Upstreams
from flycore.kernel.world import Ground, find_ground
from flycore.model.approval import Ask
from flycore.model.canonical import JsonObject
from flycore.model.errors import AuditUnwritable
from flycore.model.events import Event, EventClass
from flycore.registry.places import Places
from flycore.runners.pool import InstancePool
from flycore.sandbox.masks import Masks
from flysafe.atomic import private_folder

AUDIT_GROUP_SECONDS = 0.05
"""Result lines are synced together within this time; lines before an effect are synced at once."""


CONSOLE_SETTLES_MS = 10_000
"""How long a console that holds the root may take to be ready for its first card."""


@asynccontextmanager
async def open_kernel(
    places: Places, holder: Holder, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Kernel]:
    """A kernel for one root. The caller holds the root's lock."""
    surroundings = dict(os.environ if environ is None else environ)
    private_folder(places.state_dir)
    clock, bus = SystemClock(), Bus()
    ground = find_ground(places, surroundings)
    audit = _open_log(places, clock)
    cache = ProbeCache(places.cache_dir)
    try:
        session = await begin_session(places.state_dir, audit)
        prober = Prober(probe_spawn(ground, lambda: upkeep.files, session), cache, clock.now)
        blocks = BlockBook.load(places.blocks_file)
        upkeep = Upkeep(ground, clock, bus.publish, audit, RuntimeTracker(), prober, blocks)
        await anyio.to_thread.run_sync(sweep, places.state_dir, places.data_dir, clock.now())
        await anyio.to_thread.run_sync(upkeep.load)
        past = Past(places.audit_dir, clock, bus.publish)
        audit.told = past.told
        hands = HandsOn(clock, bus.publish)
        limits = LiveLimits(lambda: upkeep.world.settings)
        seats = _seats(clock, bus)
        standing, queue = _approval(ground, clock, bus, audit, upkeep, limits, hands, blocks)
        upstreams = _upstreams(ground, clock, upkeep, session)
        asking = _asking(ground, clock, bus, audit, queue, upkeep, upstreams, lambda: len(seats) > 0)
        reach = _reach(queue, upkeep, asking, seats, standing, hands, lambda pid: attaching.refuse(pid))
        attaching = Attaching(reach, clock, bus.publish, audit, holder.role)
        rooms = _rooms(
            ground, clock, bus, audit, past, upkeep, limits, queue, hands, seats, holder, standing, asking
        )
        notifier = Notifier(
            bus, clock, surroundings, queue.asks, lambda: upkeep.world.settings.notify_command
        )
        book, panic, _, asked, _ = asking
        kernel = Kernel(
            rooms, book, bus, upkeep, past, notifier, holder, standing, panic, asked, attaching, session
        )
        async with anyio.create_task_group() as group:
            for beside in (upkeep.run, hands.run, queue.leases.watch, queue.run, past.run):
                group.start_soon(beside)
            group.start_soon(_group_sync, audit)
            group.start_soon(tell_unfinished, past, audit, session, bus, clock)
            group.start_soon(keep_instances, rooms.instances, bus)
            await group.start(asking.upstreams.run, bus)
            if holder.role in FOR_GOOD:
                group.start_soon(notifier.run)
            try:
                yield kernel
            finally:
                upkeep.stop()
                await kernel.stop()
                rooms.folders.close()
                group.cancel_scope.cancel()
    finally:
        cache.save()
        with suppress(AuditUnwritable):
            audit.close()


def _open_log(places: Places, clock: SystemClock) -> AuditLog:
    return AuditLog.open(
        places.audit_dir,
        places.anchors_file,
        clock=clock.now,
        monotonic=clock.monotonic,
    )


def _seats(clock: SystemClock, bus: Bus) -> Seats:
    """Where consoles sit; whoever draws the kernel's status hears when that is another."""
    return Seats(
        lambda: bus.publish(Event(cls=EventClass.APPROVAL, type="status.changed", at=clock.now(), payload={}))
    )


def _reach(
    queue: ApprovalQueue,
    upkeep: Upkeep,
    asking: _Asking,
    seats: Seats,
    standing: Standing,
    hands: HandsOn,
    refuse: Callable[[int], bool],
) -> Reach:
    """What every console has its hand on."""
    return Reach(
        queue,
        upkeep,
        asking.questions.answer,
        seats,
        lambda by: Revocations(standing, queue.leases, hands.active, by),
        refuse,
    )


def _approval(
    ground: Ground,
    clock: SystemClock,
    bus: Bus,
    audit: AuditLog,
    upkeep: Upkeep,
    limits: LiveLimits,
    hands: HandsOn,
    blocks: BlockBook,
) -> tuple[Standing, ApprovalQueue]:
    """The queue, with what an earlier kernel left in it, and what its answers leave standing."""

    def unsaved(fields: JsonObject) -> None:
        bus.publish(Event(cls=EventClass.APPROVAL, type="tickets.unwritable", at=clock.now(), payload=fields))

    def unattended(ask: Ask) -> None:
        """Nothing runs because of this line; a log that takes none refuses the call that comes back."""
        entry = upkeep.world.entries.get(ask.request.sidecar)
        masks = Masks({}) if entry is None else masks_for(entry, ground.environ)
        took_ms = int((clock.now() - ask.request.asked_at) * 1000)
        with suppress(AuditUnwritable):
            record_decision(audit, ask, ask.request.call_id, took_ms, masks)

    standing = Standing(
        ground.places.policy_file,
        blocks,
        clock,
        bus.publish,
        audit,
        names=lambda: frozenset(upkeep.world.index),
        changed=upkeep.reload,
    )
    state_dir = ground.places.state_dir
    queue = ApprovalQueue(
        clock,
        bus.publish,
        limits,
        hands,
        first=standing.before,
        told=standing.lease_moved,
        keep=keeper(state_dir, unsaved),
        unattended=unattended,
    )
    queue.restore(load_tickets(state_dir))
    return standing, queue


class _Asking(NamedTuple):
    """What stops calls, and asks a person about more than one of them."""

    book: ActivityBook
    panic: Panic
    loops: LoopGuard
    questions: QuestionBook
    upstreams: Upstreams


def _asking(
    ground: Ground,
    clock: SystemClock,
    bus: Bus,
    audit: AuditLog,
    queue: ApprovalQueue,
    upkeep: Upkeep,
    upstreams: Upstreams,
    present: Callable[[], bool],
) -> _Asking:
    book = ActivityBook(clock, bus.publish)

    def start_all() -> None:
        upkeep.start_probes()
        upstreams.review()

    panic = Panic(ground.places.state_dir, clock, bus.publish, audit, queue, book, start_all)
    upkeep.held = panic.active
    if panic.active():
        end_standing(queue)
    loops = LoopGuard(
        clock,
        present,
        asked=lambda question: questions.asked(question),
        ended=lambda question: questions.ended(question),
    )
    trust = TrustQuestions(clock, upkeep.pending_trust, upkeep.trust)
    questions = QuestionBook(clock, bus.publish, audit, (panic, loops, trust))
    return _Asking(book, panic, loops, questions, upstreams)


def _rooms(
    ground: Ground,
    clock: SystemClock,
    bus: Bus,
    audit: AuditLog,
    past: Past,
    upkeep: Upkeep,
    limits: LiveLimits,
    queue: ApprovalQueue,
    hands: HandsOn,
    seats: Seats,
    holder: Holder,
    standing: Standing,
    asking: _Asking,
) -> Rooms:
    instances = InstancePool(clock.monotonic, lambda key: key_holds(upkeep.world, key))
    asking.panic.halt = partial(_halt, instances, asking.upstreams)

    async def approver_within(milliseconds: int) -> bool:
        """A console that holds the root is there in a moment; to others a caller has to give the time."""
        settles = CONSOLE_SETTLES_MS if holder.role == "console" else 0
        waits = max(milliseconds, settles) if holder.role in FOR_GOOD else 0
        return len(seats) > 0 or (waits > 0 and await seats.arrives_within(waits / 1000))

    return Rooms(
        places=ground.places,
        clock=clock,
        environ=ground.environ,
        interpreter_dir=ground.interpreter_dir,
        distribution=ground.distribution,
        world=lambda: upkeep.world,
        audit=audit,
        past=past,
        queue=queue,
        blocks=standing.blocks,
        groups=GroupLocks(),
        quota=Quota(clock, limits),
        hands=hands,
        note_run=upkeep.note_run,
        note_rules=standing.note_rules,
        desktop=X11Desktop(ground.environ),
        seat=lambda: seats.seat,
        instances=instances,
        upstreams=asking.upstreams,
        folders=ArtifactFolders(ground.places.artifacts_dir),
        approver_within=approver_within,
        stopped=asking.panic.active,
        loops=asking.loops,
        publish=bus.publish,
    )


def _upstreams(ground: Ground, clock: SystemClock, upkeep: Upkeep, session: str) -> Upstreams:
    """The sessions with MCP servers, and who looks after them."""
    upstreams = Upstreams(
        ground,
        clock,
        lambda: upkeep.files,
        lambda: upkeep.world,
        upkeep.note_upstream,
        lambda: upkeep.held(),
        upkeep.caught_up,
        session,
    )
    upkeep.asked_again = upstreams.again
    return upstreams


async def _halt(instances: InstancePool, upstreams: Upstreams) -> None:
    """End every process that stays."""
    async with anyio.create_task_group() as ending:
        ending.start_soon(instances.halt)
        ending.start_soon(upstreams.halt)


async def _group_sync(audit: AuditLog) -> None:
    """Sync result lines that were written without."""
    while True:
        await anyio.sleep(AUDIT_GROUP_SECONDS)
        if audit.dirty and not audit.stopped:
            with suppress(AuditUnwritable):
                audit.flush()
