"""Probing: asking sidecars, a few at once, each with its own time limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread
import msgspec

from flycore.catalog.probes import (
    HEALTHY_FOR_S,
    SKIPPED,
    ProbeAnswer,
    ProbeCache,
    ProbeFinding,
    ProbeWork,
    all_well,
    known_finding,
    probe_mode,
    read_answer,
    work_key,
)
from flycore.model.enums import ProbeMode
from flycore.model.sidecar import SidecarEntry

AT_ONCE = 4
GRACE_S = 10.0
"""Seconds beyond the probe's own limit, in which its process tree is ended. Then the prober gives up."""
OTHERWISE_FOR_S = 30.0
"""Seconds for which an answer that was not healthy counts as known, since the fault may be corrected soon."""

ProbeSpawn = Callable[[SidecarEntry, str, ProbeMode, int], Awaitable[ProbeAnswer]]
"""Runs one probe, given the entry, the tool to name, the mode and the limit in milliseconds. Never raises for
what the child does, and ends the child's whole process tree before it returns."""


class Prober:
    """Runs probes and keeps their answers. `now` returns Unix time in seconds."""

    def __init__(self, spawn: ProbeSpawn, cache: ProbeCache, now: Callable[[], float]) -> None:
        self._spawn = spawn
        self._cache = cache
        self._now = now
        self._limiter = anyio.Semaphore(AT_ONCE)
        self._asking: dict[str, anyio.Event] = {}
        self._forgotten: set[str] = set()

    def known(self, work: ProbeWork) -> ProbeFinding | None:
        """Return what is known of the sidecar without asking it."""
        return known_finding(self._cache, work)

    def forget(self, sidecar: str) -> None:
        """Ask that sidecar again at the next `probe`, even if a recent answer is known."""
        self._forgotten.add(sidecar)

    async def probe(self, work: ProbeWork) -> ProbeFinding:
        """Return the sidecar's answer, and ask for it unless a recent one is known.

        Callers that ask the same at the same time share one answer. The cache is saved when no probe runs any
        more.
        """
        mode = probe_mode(work)
        if mode is None:
            return SKIPPED
        key = work_key(work)
        # A loop: the probe that this waited for may have been cancelled, and then another waiter has begun.
        while key in self._asking:
            await self._asking[key].wait()
        recent = self._recent(key)
        if recent is not None and work.entry.id not in self._forgotten:
            return recent
        done = self._asking[key] = anyio.Event()
        try:
            async with self._limiter:
                self._forgotten.discard(work.entry.id)
                finding = await self._ask(work, mode)
            self._cache.put(key, finding)
        finally:
            del self._asking[key]
            done.set()
        if not self._asking:
            await anyio.to_thread.run_sync(self._cache.save)
        return msgspec.structs.replace(finding, fresh=True)

    async def _ask(self, work: ProbeWork, mode: ProbeMode) -> ProbeFinding:
        timeout_ms = work.entry.probe.timeout_ms
        answer = ProbeAnswer(ok=False, timed_out=True, duration_ms=timeout_ms)
        with anyio.move_on_after(timeout_ms / 1000 + GRACE_S):
            answer = await self._spawn(work.entry, work.entry.tool_names[0], mode, timeout_ms)
        return read_answer(work.entry, answer, timeout_ms=timeout_ms, at=self._now())

    def _recent(self, key: str) -> ProbeFinding | None:
        found = self._cache.get(key)
        if found is None or found.evidence is None:
            return None
        holds = HEALTHY_FOR_S if all_well(found) else OTHERWISE_FOR_S
        return found if 0 <= self._now() - found.evidence.at < holds else None
