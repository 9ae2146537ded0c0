"""What a probe answered, read strictly and in bounds: the `probe` dimension as a pure function."""

from __future__ import annotations

from dataclasses import dataclass, field

from flycore.catalog.findings import ProbeFinding
from flycore.catalog.reasons import where
from flycore.model.enums import ProbeState, ReasonCode
from flycore.model.json import Json, JsonObject
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import ProbeEvidence, Reason, ToolProbe

SENTENCE = 400
"""Characters kept of a sentence that a sidecar wrote."""
STDERR = 4_096
SLOW_SHARE = 0.5
"""A healthy answer that took more than this share of its limit is slow."""
_STATES = {state.value: state for state in ProbeState} | {"available": ProbeState.HEALTHY}
_TOOL_CODES = {
    code.value: code
    for code in (ReasonCode.TOOL_UNAVAILABLE, ReasonCode.DELEGATE_MISSING, ReasonCode.SECRET_MISSING)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """How a probe's process ended. `fields` is what an answer held besides `ok`, `code` and `error`."""

    ok: bool
    code: str = ""
    error: str = ""
    fields: JsonObject = field(default_factory=dict)
    duration_ms: int = 0
    stderr_tail: str = ""
    timed_out: bool = False
    crashed: bool = False


def read_answer(entry: SidecarEntry, answer: ProbeAnswer, *, timeout_ms: int, at: float) -> ProbeFinding:
    """The finding. What a sidecar writes is text: cut, taken where it is text, and otherwise left out."""
    evidence = ProbeEvidence(
        at=at,
        duration_ms=answer.duration_ms,
        stderr_tail=answer.stderr_tail[-STDERR:],
        tools=_tools(entry, answer.fields.get("tools")),
    )
    state, reason = _judge_answer(entry, answer, timeout_ms)
    return ProbeFinding(state=state, reason=reason, evidence=evidence)


def _judge_answer(
    entry: SidecarEntry, answer: ProbeAnswer, timeout_ms: int
) -> tuple[ProbeState, Reason | None]:
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


def _tools(entry: SidecarEntry, told: Json) -> dict[str, ToolProbe]:
    """What was said of the entry's own tools; of others nothing is believed."""
    if not isinstance(told, dict):
        return {}
    return {name: _tool(said) for name in entry.tool_names if isinstance(said := told.get(name), dict)}


def _tool(said: JsonObject) -> ToolProbe:
    status = said.get("status")
    state = _STATES.get(status, ProbeState.DEGRADED) if isinstance(status, str) else ProbeState.DEGRADED
    code = said.get("code")
    return ToolProbe(
        status=state,
        code=_TOOL_CODES.get(code) if isinstance(code, str) and state is ProbeState.UNAVAILABLE else None,
        reason=_text(said.get("reason")),
        remedy=_text(said.get("remedy")),
    )


def _text(value: Json) -> str:
    return value[:SENTENCE] if isinstance(value, str) else ""


def _excerpt(entry: SidecarEntry) -> str:
    return f"flytui inspect {entry.id} shows what it wrote; then probe it again"


def _failed_finding(entry: SidecarEntry, answer: ProbeAnswer) -> Reason:
    if answer.crashed:
        message = f"the probe of {entry.id} ended without an answer"
    else:
        message = answer.error or _text(answer.fields.get("reason")) or f"{entry.id} says that it cannot work"
    return Reason(
        code=ReasonCode.TOOL_UNAVAILABLE if answer.code == "unavailable" else ReasonCode.PROBE_UNAVAILABLE,
        dimension="probe",
        message=message[:SENTENCE],
        remedy=_text(answer.fields.get("remedy")) or _excerpt(entry),
    )


def _degraded_finding(entry: SidecarEntry, answer: ProbeAnswer) -> Reason:
    return Reason(
        code=ReasonCode.PROBE_DEGRADED,
        dimension="probe",
        message=_text(answer.fields.get("reason")) or f"{entry.id} says that it works in part",
        remedy=_text(answer.fields.get("remedy")) or _excerpt(entry),
    )


def _slow_finding(entry: SidecarEntry, timeout_ms: int) -> Reason:
    return Reason(
        code=ReasonCode.PROBE_SLOW,
        dimension="probe",
        message=f"the probe needed more than half of its {timeout_ms} ms",
        remedy=f'raise "timeoutMs" of "probe" at {where(entry, "probe")}, or see what slows the machine down',
    )


def _timed_out(entry: SidecarEntry, timeout_ms: int) -> Reason:
    return Reason(
        code=ReasonCode.PROBE_TIMEOUT,
        dimension="probe",
        message=f"the probe did not answer within {timeout_ms} ms",
        remedy=f'raise "timeoutMs" of "probe" at {where(entry, "probe")}, or set its "mode" to "off"',
    )
