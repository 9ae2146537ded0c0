"""Probes: what sidecars answer when they are asked whether they work, read, and kept in a cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

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
HEALTHY_FOR_S = 600.0
"""Seconds for which a healthy answer counts as known."""


def all_well(finding: ProbeFinding) -> bool:
    """Return whether the sidecar and each tool that its answer names are healthy."""
    tools = finding.evidence.tools.values() if finding.evidence else ()
    return finding.reason is None and all(tool.status is ProbeState.HEALTHY for tool in tools)


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


# One sidecar that may be asked.


DESKTOP_NAMES = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR")


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
