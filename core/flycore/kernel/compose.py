"""Puts a kernel together: opens every room, hands each what it needs, and closes them in reverse."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import anyio

from flycore.approval.blocks import BLOCKS_FILE, BlockBook
from flycore.approval.book import QueueLimits
from flycore.approval.groups import GroupLocks
from flycore.approval.guards import Quota, QuotaLimits
from flycore.approval.hands import HandsOn
from flycore.approval.queue import ApprovalQueue
from flycore.audit.log import AuditLog
from flycore.catalog.probe_cache import ProbeCache
from flycore.catalog.probes import Prober
from flycore.catalog.runtime import RuntimeTracker
from flycore.executive.activity import ActivityBook
from flycore.executive.desktop_x11 import X11Desktop
from flycore.executive.folders import ArtifactFolders
from flycore.executive.rooms import Rooms
from flycore.kernel.approver import KernelApprover
from flycore.kernel.bus import Bus
from flycore.kernel.clock import SystemClock
from flycore.kernel.kernel import Kernel
from flycore.kernel.lock import Holder
from flycore.kernel.past import Past
from flycore.kernel.probing import probe_spawn
from flycore.kernel.standing import Revocations, Standing
from flycore.kernel.sweep import sweep
from flycore.kernel.upkeep import Upkeep
from flycore.kernel.world import Ground, find_ground
from flycore.model.enums import Risk
from flycore.model.errors import AuditUnwritable
from flycore.registry.places import POLICY_FILE, Places
from flycore.registry.settings import Settings
from flysafe.atomic import private_folder

AUDIT_GROUP_SECONDS = 0.05
"""Result lines are synced together within this time; lines before an effect are synced at once."""


def queue_limits(settings: Settings) -> QueueLimits:
    """What the user's settings say about waiting for a person."""
    return QueueLimits(
        per_caller=settings.queue_per_caller,
        total=settings.queue_total,
        timeouts=tuple((risk, settings.approval_times.of(risk) / 1000) for risk in Risk),
    )


@asynccontextmanager
async def open_kernel(
    places: Places, holder: Holder, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Kernel]:
    """A kernel for one root. The caller holds the root's lock."""
    surroundings = dict(os.environ if environ is None else environ)
    private_folder(places.state_dir)
    clock, bus = SystemClock(), Bus()
    ground = find_ground(places, surroundings)
    audit = AuditLog.open(
        places.state_dir / "audit",
        places.data_dir / "anchors" / f"{places.key}.jsonl",
        clock=clock.now,
        monotonic=clock.monotonic,
    )
    cache = ProbeCache(places.cache_dir)
    try:
        prober = Prober(probe_spawn(ground, lambda: upkeep.files), cache, clock.now)
        blocks = BlockBook.load(places.state_dir / BLOCKS_FILE)
        upkeep = Upkeep(ground, clock, bus.publish, audit, RuntimeTracker(), prober, blocks)
        await anyio.to_thread.run_sync(sweep, places.state_dir, places.data_dir, clock.now())
        await anyio.to_thread.run_sync(upkeep.load)
        past = Past(places.state_dir / "audit", clock, bus.publish)
        audit.told = past.told
        hands = HandsOn(clock, bus.publish)
        standing, queue = _approval(ground, clock, bus, audit, upkeep, hands, blocks)
        approver = KernelApprover(queue, upkeep.trust, Revocations(standing, queue.leases))
        rooms = _rooms(ground, clock, bus, audit, past, upkeep, queue, hands, approver, holder, standing)
        book = ActivityBook(clock, bus.publish)
        kernel = Kernel(rooms, book, bus, upkeep, past, approver, holder, standing)
        async with anyio.create_task_group() as group:
            group.start_soon(upkeep.run)
            group.start_soon(hands.run)
            group.start_soon(queue.leases.watch)
            group.start_soon(_group_sync, audit)
            group.start_soon(past.run)
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


def _approval(
    ground: Ground,
    clock: SystemClock,
    bus: Bus,
    audit: AuditLog,
    upkeep: Upkeep,
    hands: HandsOn,
    blocks: BlockBook,
) -> tuple[Standing, ApprovalQueue]:
    """The queue, and what its answers leave standing."""
    standing = Standing(
        ground.places.config_dir / POLICY_FILE,
        blocks,
        clock,
        bus.publish,
        audit,
        names=lambda: frozenset(upkeep.world.index),
        changed=upkeep.reload,
    )
    limits = queue_limits(upkeep.world.settings)
    first, told = standing.before, standing.lease_moved
    return standing, ApprovalQueue(clock, bus.publish, limits, hands, first=first, told=told)


def _rooms(
    ground: Ground,
    clock: SystemClock,
    bus: Bus,
    audit: AuditLog,
    past: Past,
    upkeep: Upkeep,
    queue: ApprovalQueue,
    hands: HandsOn,
    approver: KernelApprover,
    holder: Holder,
    standing: Standing,
) -> Rooms:
    async def approver_within(milliseconds: int) -> bool:
        waits = holder.role == "console"
        return approver.present or (waits and await approver.arrives_within(milliseconds / 1000))

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
        quota=Quota(clock, quota_limits(upkeep.world.settings)),
        hands=hands,
        note_run=upkeep.note_run,
        note_rules=standing.note_rules,
        desktop=X11Desktop(ground.environ),
        seat=lambda: approver.seat,
        folders=ArtifactFolders(ground.places.state_dir / "artifacts"),
        approver_within=approver_within,
        publish=bus.publish,
    )


def quota_limits(settings: Settings) -> QuotaLimits:
    """What the user's settings say about how much a caller may do."""
    return QuotaLimits(
        calls_per_minute=settings.calls_per_minute,
        running=settings.running,
        high_risk_per_session=settings.high_risk_per_session,
    )


async def _group_sync(audit: AuditLog) -> None:
    """Sync result lines that were written without."""
    while True:
        await anyio.sleep(AUDIT_GROUP_SECONDS)
        if audit.dirty and not audit.stopped:
            with suppress(AuditUnwritable):
                audit.flush()
