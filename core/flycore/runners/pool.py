"""The pool of persistent processes: which call gets which process, how many there are, and when each one
ends.

A process serves one key only: the same sidecar, program, entry, permissions, sandbox level and caller. It is
started by the first call that needs it, serves one call at a time, and is ended when it was idle for long
enough, when it breaks the protocol, or when its key is outdated.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio
import msgspec

from flycore.model.session import CALL_ID_VARIABLE
from flycore.runners.child.spawn import NOT_CONFINED, SpawnError
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome, not_started, outcome_from_answer
from flycore.runners.output import OnEvent
from flycore.runners.persistent import PersistentProcess, ask_process

MOST_IDLE = 64
"""How many processes may be without a call; beyond that the one that is idle longest and not busy is
ended."""
FIRST_PAUSE_S = 0.1
"""The pause before a process that died is started again; each further death doubles it, up to
`LONGEST_PAUSE_S`."""
LONGEST_PAUSE_S = 5.0


class ProcessKey(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that a process may serve. All fields but `sidecar`, `level` and `caller` are digests."""

    sidecar: str
    program: str
    """The digest over the seals of the program and its delegates."""
    entry: str
    permissions: str
    level: str
    caller: str


class _IdleProcess(msgspec.Struct, eq=False):
    """A process without a call. Times are in seconds."""

    instance: PersistentProcess
    since: float
    idle_s: float


class _Group(msgspec.Struct, eq=False):
    """The processes of one key."""

    places: anyio.Semaphore
    free: list[_IdleProcess] = msgspec.field(default_factory=list)
    serving: set[PersistentProcess] = msgspec.field(default_factory=set)
    users: int = 0
    """How many calls hold a place or wait for one."""
    deaths: int = 0
    """How many processes died since the last good answer."""
    not_before: float = 0.0


class ProcessSlot:
    """The right of one call to use one process of its key, which is started where none is free."""

    __slots__ = ("_group", "_idle_s", "_key", "_pool")

    def __init__(self, pool: ProcessPool, key: ProcessKey, group: _Group, idle_s: float) -> None:
        self._pool, self._key, self._group, self._idle_s = pool, key, group, idle_s

    @property
    def key(self) -> ProcessKey:
        """The key of its process."""
        return self._key

    async def call(self, job: ProcessJsonJob, on_event: OnEvent | None = None) -> RunOutcome:
        """Run the call; every end is an outcome. A process that cannot go on has ended with its whole tree
        when this returns. A cancellation first cancels the request in the process."""
        pool, group = self._pool, self._group
        instance = await pool.take(self._key, group)
        if instance is None:
            spec = job.spawn_spec
            # A name of its own, because the process outlives this call. It begins with the kernel's
            # session, by which a later kernel finds what a crashed one left behind.
            name = f"{spec.call_id}-stays-{secrets.token_hex(4)}"
            spec = replace(spec, call_id=name, env={**spec.env, CALL_ID_VARIABLE: name})
            try:
                instance = PersistentProcess(spec, pool.note_change)
            except SpawnError as fault:
                pool.note_exit(group)
                meaning = not_started(job, fault.failure)
                unstarted = outcome_from_answer(job, meaning, exit_code=None, stderr_tail="", duration_ms=0)
                return replace(unstarted, unconfined=fault.failure.fault == NOT_CONFINED)
        group.serving.add(instance)
        outcome: RunOutcome | None = None
        survivors = 0
        try:
            outcome = await ask_process(instance, job, on_event)
        finally:
            # A cancelled call as well returns its process or ends it.
            group.serving.discard(instance)
            survivors = await pool.give_back(self._key, group, instance, self._idle_s)
        return outcome.with_survivors(survivors)


class ProcessPool:
    """All persistent processes of a kernel. `monotonic` returns seconds; `key_is_current` says whether
    processes of a key may still serve calls."""

    def __init__(self, monotonic: Callable[[], float], key_is_current: Callable[[ProcessKey], bool]) -> None:
        self._monotonic, self._key_is_current = monotonic, key_is_current
        self._groups: dict[ProcessKey, _Group] = {}
        self._outdated: set[PersistentProcess] = set()
        self._ending: list[PersistentProcess] = []
        self._changed = anyio.Event()
        self._closing = False

    @asynccontextmanager
    async def slot(
        self, key: ProcessKey, *, instances: int, idle_ms: int, on_wait: Callable[[str], None]
    ) -> AsyncIterator[ProcessSlot]:
        """Hold a place while the block runs. `on_wait` is called with the reason before any waiting."""
        # The entry or program of this sidecar has changed: processes of the older one serve nobody any
        # more, and would count against the new one's resources until they are idle for long enough.
        self.retire(lambda other: other.sidecar == key.sidecar and _is_another(other, key))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(anyio.Semaphore(instances, fast_acquire=True))
        group.users += 1
        try:
            if group.places.value == 0:
                on_wait("waiting: the sidecar serves another call")
            async with group.places:
                # The pause is taken with the place held, so that waiting calls do not start the program at
                # once one after the other.
                pause = group.not_before - self._monotonic()
                if pause > 0 and not group.free:
                    on_wait(
                        f"waiting: the sidecar died {group.deaths} times and is starting again in a moment"
                    )
                    await anyio.sleep(pause)
                yield ProcessSlot(self, key, group, idle_ms / 1000)
        finally:
            group.users -= 1
            # A group with deaths is kept, so that its pause holds for the next call; `tidy` drops it
            # afterwards.
            if not group.users and not group.free and not group.deaths:
                self._groups.pop(key, None)

    async def take(self, key: ProcessKey, group: _Group) -> PersistentProcess | None:
        """A process of the group that can serve a call; None where one has to be started."""
        while group.free:
            instance = group.free.pop().instance
            if instance.ready():
                return instance
            await self._discard(group, instance)
        return None

    async def give_back(
        self, key: ProcessKey, group: _Group, instance: PersistentProcess, idle_s: float
    ) -> int:
        """Take back the process of a call that has ended, and keep or end it. Returns how many processes of
        its tree survive."""
        # The key may have become outdated during the call, by an edit of the entry or by a person's decision.
        outdated = instance in self._outdated or not self._key_is_current(key)
        self._outdated.discard(instance)
        if self._closing or instance.broken:
            return await self._discard(group, instance)
        group.deaths = 0
        if outdated:
            self._ending.append(instance)
        else:
            group.free.append(_IdleProcess(instance, self._monotonic(), idle_s))
            self._trim()
        self._wake()
        return 0

    async def _discard(self, group: _Group, instance: PersistentProcess) -> int:
        if instance.died:
            self.note_exit(group)
        return await instance.end(at_once=True)

    def note_exit(self, group: _Group) -> None:
        """Count a process that died, and set the pause before the next one is started."""
        pause = min(FIRST_PAUSE_S * 2**group.deaths, LONGEST_PAUSE_S)
        group.deaths += 1
        group.not_before = self._monotonic() + pause

    def note_change(self, instance: PersistentProcess) -> None:
        """Note that a process broke, or became busy or idle: it may have to be ended."""
        self._wake()

    def retire(self, outdated: Callable[[ProcessKey], bool]) -> None:
        """End the processes of these keys: idle ones soon, those that serve a call after its answer."""
        for key, group in self._groups.items():
            if outdated(key):
                self._ending += [resting.instance for resting in group.free]
                group.free.clear()
                self._outdated |= group.serving
                self._wake()

    def review(self) -> None:
        """End the processes whose key is outdated."""
        self.retire(lambda key: not self._key_is_current(key))

    async def run(self) -> None:
        """End processes that were idle for too long, died or were retired, until cancelled."""
        while True:
            # A new event before the look: a change during the look wakes the next wait.
            self._changed = anyio.Event()
            due = await self.tidy()
            with anyio.move_on_after(max(0.0, due)):
                await self._changed.wait()

    async def tidy(self) -> float:
        """End the processes whose end is due. Returns the seconds until the next one may be due."""
        now, due = self._monotonic(), float("inf")
        for group in self._groups.values():
            for resting in tuple(group.free):
                left = resting.since + resting.idle_s - now
                if not resting.instance.broken and (resting.instance.busy or left > 0):
                    due = min(due, left) if not resting.instance.busy else due
                    continue
                group.free.remove(resting)
                self._ending.append(resting.instance)
                if resting.instance.died:
                    self.note_exit(group)
        await self._end_due(at_once=False)
        self._drop_empty()
        return due

    async def _end_due(self, *, at_once: bool) -> None:
        ending, self._ending = self._ending, []
        async with anyio.create_task_group() as group:
            for instance in ending:
                group.start_soon(partial(instance.end, at_once=at_once or instance.broken))

    async def halt(self) -> None:
        """End every process at once, whether a call waits for its answer or not. Returns when the idle ones
        have ended; a process that serves a call is ended by that call."""
        for group in self._groups.values():
            self._ending += [resting.instance for resting in group.free]
            group.free.clear()
            for instance in group.serving:
                instance.abandon()
        with anyio.CancelScope(shield=True):
            await self._end_due(at_once=True)

    async def close(self) -> None:
        """End every process at once, and keep none from now on."""
        self._closing = True
        await self.halt()

    def _trim(self) -> None:
        resting = [(group, it) for group in self._groups.values() for it in group.free]
        if len(resting) <= MOST_IDLE:
            return
        idle = [(group, it) for group, it in resting if not it.instance.busy]
        if idle:
            group, longest = min(idle, key=lambda found: found[1].since)
            group.free.remove(longest)
            self._ending.append(longest.instance)

    def _drop_empty(self) -> None:
        now = self._monotonic()
        for key, group in tuple(self._groups.items()):
            if not group.users and not group.free and group.not_before <= now:
                del self._groups[key]

    def _wake(self) -> None:
        self._changed.set()


def _is_another(one: ProcessKey, other: ProcessKey) -> bool:
    """Whether the two keys are of different programs or entries of the sidecar, whoever calls it."""
    return (one.program, one.entry) != (other.program, other.entry)
