"""Asks sidecars whether they are well: side by side, a few at once, each with its own limit, remembered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
import msgspec

from flycore.catalog.findings import SKIPPED, ProbeFinding
from flycore.catalog.known import BUNDLED_PROBED
from flycore.catalog.probe_answer import ProbeAnswer, read_answer
from flycore.catalog.probe_cache import ProbeCache, file_identity
from flycore.model.enums import ProbeMode, ProbeState
from flycore.model.json import digest
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import SidecarEntry

__all__ = ["ProbeAnswer", "ProbeSpawn", "ProbeWork", "Prober", "known_finding", "probe_mode", "work_key"]

AT_ONCE = 4
GRACE_S = 10.0
"""Beyond the probe's own limit, for ending its process tree; then the prober gives up on the spawner."""
HEALTHY_FOR_S = 600.0
OTHERWISE_FOR_S = 30.0
"""How long an answer counts as known, by whether it was healthy: what was broken may be mended soon."""
DESKTOP_NAMES = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR")

ProbeSpawn = Callable[[SidecarEntry, str, ProbeMode, int], Awaitable[ProbeAnswer]]
"""Runs one probe: entry, tool to name, `command` or `request`, limit in ms. Never raises for what the
child does; ends the child's whole tree before it returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeWork:
    """One sidecar that may be asked. Only resolved programs of trusted entries are to be handed in."""

    entry: SidecarEntry
    program: ResolvedProgram
    bundled: bool = False
    """Whether the program is that of this distribution."""
    delegates: Mapping[str, ResolvedProgram] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    """Where the display's names are looked up for a desktop sidecar, and `passEnv`."""


def known_finding(cache: ProbeCache, work: ProbeWork) -> ProbeFinding | None:
    """What is known without asking: `skipped`, the last answer however old, or None for nothing yet."""
    return SKIPPED if probe_mode(work) is None else cache.get(work_key(work))


class Prober:
    """Runs probes and remembers answers. `now` gives Unix time, seconds."""

    def __init__(self, spawn: ProbeSpawn, cache: ProbeCache, now: Callable[[], float]) -> None:
        self._spawn = spawn
        self._cache = cache
        self._now = now
        self._limiter = anyio.Semaphore(AT_ONCE)
        self._asking: dict[str, anyio.Event] = {}
        self._forgotten: set[str] = set()

    def known(self, work: ProbeWork) -> ProbeFinding | None:
        """See `known_finding`."""
        return known_finding(self._cache, work)

    def forget(self, sidecar: str) -> None:
        """Ask that sidecar at the next `probe`, whatever is known. What `known` says stays until then."""
        self._forgotten.add(sidecar)

    async def probe(self, work: ProbeWork) -> ProbeFinding:
        """The sidecar's answer, asked for unless a recent one is known.

        Two that ask the same at once share one answer. Answers are written down when nobody is being
        asked any more.
        """
        mode = probe_mode(work)
        if mode is None:
            return SKIPPED
        key = work_key(work)
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
        holds = HEALTHY_FOR_S if _all_well(found) else OTHERWISE_FOR_S
        return found if 0 <= self._now() - found.evidence.at < holds else None


def _all_well(finding: ProbeFinding) -> bool:
    tools = finding.evidence.tools.values() if finding.evidence else ()
    return finding.reason is None and all(tool.status is ProbeState.HEALTHY for tool in tools)


def probe_mode(work: ProbeWork) -> ProbeMode | None:
    """How the entry is asked; None where it is not: switched off, no tool to name, or no mode named and
    none of the bundled sidecars."""
    mode = work.entry.probe.mode
    if mode is ProbeMode.OFF or not work.entry.tools:
        return None
    if mode is ProbeMode.DEFAULT:
        return ProbeMode.REQUEST if work.bundled and work.entry.id in BUNDLED_PROBED else None
    return mode


def work_key(work: ProbeWork) -> str:
    """What an answer is kept under: the entry's content, the files that would run, and the environment
    the answer depends on. A changed program or display is another question."""
    programs = [work.program, *(work.delegates[name] for name in sorted(work.delegates))]
    names = (*work.entry.pass_env, *(DESKTOP_NAMES if work.entry.permissions.desktop else ()))
    return digest(
        {
            "entry": work.entry.digest,
            "programs": [[list(item.argv), file_identity(item.path)] for item in programs],
            "environ": {name: work.environ.get(name) for name in names},
        }
    )
