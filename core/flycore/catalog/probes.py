"""Probes: asking sidecars whether they work, reading their answers, and keeping the answers in a cache."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from flycore.catalog.answer_cache import AnswerCache, CacheFile
from flycore.catalog.builtin import BUNDLED_PROBED
from flycore.catalog.fixes import probe_again_remedy
from flycore.catalog.reasons import where
from flycore.model.base import Value
from flycore.model.enums import ProbeMode, ProbeState, ReasonCode
from flycore.model.json import Json, JsonObject, digest
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import ProbeEvidence, Reason, ToolProbe
from flycore.registry.paths import PROBES_FILE


class ProbeFinding(Value, frozen=True, kw_only=True):
    """The state of the probe dimension, the reason where it is not healthy, and the answer that it rests on.
    `evidence.tools` holds what the answer says of single tools."""

    state: ProbeState
    reason: Reason | None = None
    evidence: ProbeEvidence | None = None
    fresh: bool = False
    """Whether the sidecar was asked just now; False for an answer from the cache."""


SKIPPED = ProbeFinding(state=ProbeState.SKIPPED)


# Reading an answer.


SENTENCE = 400
"""Characters that are kept of a sentence of a sidecar."""
STDERR = 4_096
"""Characters that are kept of the end of a sidecar's error output."""
LONGEST_PROTOCOL = 40
"""Characters that are kept of the name of a protocol or a dialect."""
SLOW_SHARE = 0.5
"""A healthy answer that took more than this share of its time limit counts as slow."""
_STATES = {state.value: state for state in ProbeState} | {"available": ProbeState.HEALTHY}
_TOOL_CODES = {
    code.value: code
    for code in (ReasonCode.TOOL_UNAVAILABLE, ReasonCode.DELEGATE_MISSING, ReasonCode.SECRET_MISSING)
}


class ProbeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How the process of a probe ended. `fields` holds what its answer says besides `ok`, `code` and
    `error`."""

    ok: bool
    code: str = ""
    error: str = ""
    fields: JsonObject = msgspec.field(default_factory=dict)
    duration_ms: int = 0
    stderr_tail: str = ""
    timed_out: bool = False
    crashed: bool = False
    program_changed: bool = False
    """Whether it was not asked, because its program changed since a person accepted it."""


def read_answer(entry: SidecarEntry, answer: ProbeAnswer, *, timeout_ms: int, at: float) -> ProbeFinding:
    """Return the finding for an answer. A sidecar's sentences are cut, and left out where they are not
    text."""
    evidence = ProbeEvidence(
        at=at,
        duration_ms=answer.duration_ms,
        stderr_tail=answer.stderr_tail[-STDERR:],
        tools=_tools(entry, answer.fields.get("tools")),
        protocol=_text(answer.fields.get("protocol"))[:LONGEST_PROTOCOL],
        dialect=_text(answer.fields.get("dialect"))[:LONGEST_PROTOCOL],
    )
    state, reason = _judge_answer(entry, answer, timeout_ms)
    return ProbeFinding(state=state, reason=reason, evidence=evidence)


def _judge_answer(
    entry: SidecarEntry, answer: ProbeAnswer, timeout_ms: int
) -> tuple[ProbeState, Reason | None]:
    if answer.program_changed:
        return ProbeState.DEGRADED, _changed_finding(entry)
    if answer.timed_out:
        return ProbeState.UNAVAILABLE, _timed_out(entry, timeout_ms)
    if answer.crashed or not answer.ok:
        return ProbeState.UNAVAILABLE, _failed_finding(entry, answer)
    status = answer.fields.get("status", ProbeState.HEALTHY.value)
    stated = _STATES.get(status) if isinstance(status, str) else None
    if stated is ProbeState.UNAVAILABLE:
        return stated, _failed_finding(entry, answer)
    if stated is None or stated is ProbeState.DEGRADED:
        return ProbeState.DEGRADED, _degraded_finding(entry, answer)
    if answer.duration_ms > timeout_ms * SLOW_SHARE:
        return ProbeState.DEGRADED, _slow_finding(entry, timeout_ms)
    return ProbeState.HEALTHY, None


def _tools(entry: SidecarEntry, answer: Json) -> dict[str, ToolProbe]:
    """Return what the answer says of the entry's own tools. What it says of others is not used."""
    if not isinstance(answer, dict):
        return {}
    return {name: _tool(fields) for name in entry.tool_names if isinstance(fields := answer.get(name), dict)}


def _tool(fields: JsonObject) -> ToolProbe:
    status = fields.get("status")
    state = _STATES.get(status, ProbeState.DEGRADED) if isinstance(status, str) else ProbeState.DEGRADED
    code = fields.get("code")
    return ToolProbe(
        status=state,
        code=_TOOL_CODES.get(code) if isinstance(code, str) and state is ProbeState.UNAVAILABLE else None,
        reason=_text(fields.get("reason")),
        remedy=_text(fields.get("remedy")),
    )


def _text(value: Json) -> str:
    return value[:SENTENCE] if isinstance(value, str) else ""


def _failed_finding(entry: SidecarEntry, answer: ProbeAnswer) -> Reason:
    if answer.crashed:
        message = f"the probe of {entry.id} ended without an answer"
    else:
        message = answer.error or _text(answer.fields.get("reason")) or f"{entry.id} says that it cannot work"
    return Reason(
        code=ReasonCode.TOOL_UNAVAILABLE if answer.code == "unavailable" else ReasonCode.PROBE_UNAVAILABLE,
        dimension="probe",
        message=message[:SENTENCE],
        remedy=_text(answer.fields.get("remedy")) or probe_again_remedy(entry),
    )


def _degraded_finding(entry: SidecarEntry, answer: ProbeAnswer) -> Reason:
    return Reason(
        code=ReasonCode.PROBE_DEGRADED,
        dimension="probe",
        message=_text(answer.fields.get("reason")) or f"{entry.id} says that it works in part",
        remedy=_text(answer.fields.get("remedy")) or probe_again_remedy(entry),
    )


def _changed_finding(entry: SidecarEntry) -> Reason:
    return Reason(
        code=ReasonCode.PROGRAM_CHANGED,
        dimension="probe",
        message=f"the program of {entry.id} changed since you trusted it, so it was not probed",
        remedy="make a call and approve it on its card, if the change is wanted",
    )


def _slow_finding(entry: SidecarEntry, timeout_ms: int) -> Reason:
    return Reason(
        code=ReasonCode.PROBE_SLOW,
        dimension="probe",
        message=f"the probe needed more than half of its {timeout_ms} ms",
        remedy=f'raise "timeoutMs" of "probe" at {where(entry, "probe")}, or find out what slows it down',
    )


def _timed_out(entry: SidecarEntry, timeout_ms: int) -> Reason:
    return Reason(
        code=ReasonCode.PROBE_TIMEOUT,
        dimension="probe",
        message=f"the probe did not answer within {timeout_ms} ms",
        remedy=f'raise "timeoutMs" of "probe" at {where(entry, "probe")}, or set its "mode" to "off"',
    )


# The cache, `<cache dir>/probes.json`.


KEPT = 512
"""Answers that are kept; beyond, the oldest are dropped."""
LARGEST = 4 * 1024 * 1024
"""Bytes of the cache's file."""
VERSION = 1


class ProbeCache(AnswerCache[ProbeFinding]):
    """The probe answers, by key. Where `folder` is None, they are kept in memory only."""

    def __init__(self, folder: Path | None) -> None:
        path = folder / PROBES_FILE if folder else None
        super().__init__(path, CacheFile[ProbeFinding], version=VERSION, kept=KEPT, largest=LARGEST)


def file_identity(path: str) -> list[int]:
    """Return device, inode, size, and the times of a file in nanoseconds; empty where it cannot be read."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return []
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


# Asking sidecars, a few at once, each with its own time limit.


AT_ONCE = 4
GRACE_S = 10.0
"""Seconds beyond the probe's own limit, in which its process tree is ended. Then the prober gives up."""
HEALTHY_FOR_S = 600.0
OTHERWISE_FOR_S = 30.0
"""Seconds for which an answer counts as known. One that was not healthy counts for a shorter time, since the
fault may be corrected soon."""
DESKTOP_NAMES = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR")

ProbeSpawn = Callable[[SidecarEntry, str, ProbeMode, int], Awaitable[ProbeAnswer]]
"""Runs one probe, given the entry, the tool to name, the mode and the limit in milliseconds. Never raises for
what the child does, and ends the child's whole process tree before it returns."""


class ProbeWork(msgspec.Struct, frozen=True, kw_only=True):
    """One sidecar that may be asked. It must be a resolved program of a trusted entry, because it is run."""

    entry: SidecarEntry
    program: ResolvedProgram
    bundled: bool = False
    """Whether the program is that of this distribution."""
    delegates: Mapping[str, ResolvedProgram] = msgspec.field(default_factory=dict)
    environ: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The environment in which the variables of `passEnv` and, for a desktop sidecar, of the display are
    looked up."""


def known_finding(cache: ProbeCache, work: ProbeWork) -> ProbeFinding | None:
    """Return what is known without asking: `skipped`, the last answer however old it is, or None."""
    return SKIPPED if probe_mode(work) is None else cache.get(work_key(work))


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
        holds = HEALTHY_FOR_S if _all_well(found) else OTHERWISE_FOR_S
        return found if 0 <= self._now() - found.evidence.at < holds else None


def _all_well(finding: ProbeFinding) -> bool:
    tools = finding.evidence.tools.values() if finding.evidence else ()
    return finding.reason is None and all(tool.status is ProbeState.HEALTHY for tool in tools)


def probe_mode(work: ProbeWork) -> ProbeMode | None:
    """Return how the entry is asked. None where it is not asked: its probe is off, it has no tool to name, or
    it names no mode and is not a bundled sidecar."""
    mode = work.entry.probe.mode
    if mode is ProbeMode.OFF or not work.entry.tools:
        return None
    if mode is ProbeMode.DEFAULT:
        return ProbeMode.REQUEST if work.bundled and work.entry.id in BUNDLED_PROBED else None
    return mode


def work_key(work: ProbeWork) -> str:
    """Return the key that an answer is kept under."""
    # The key covers the entry, the files that would run, and the environment that the answer depends on: an
    # answer must not outlive a changed program or display.
    programs = [work.program, *(work.delegates[name] for name in sorted(work.delegates))]
    names = (*work.entry.pass_env, *(DESKTOP_NAMES if work.entry.permissions.desktop else ()))
    return digest(
        {
            "entry": work.entry.digest,
            "programs": [[list(item.argv), file_identity(item.path)] for item in programs],
            "environ": {name: work.environ.get(name) for name in names},
        }
    )
