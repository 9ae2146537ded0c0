"""What the last calls showed of each sidecar: the `runtime` dimension, as a small memory.

Only four codes move it, because only these are the sidecar's fault in general: `crashed`, `spawn`,
`timeout`, `invalid-output`. It is ready again with the next good call or probe, or when no call came for
a minute: a failure long past says little of now. Times are Unix seconds, handed in.
"""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import Code, RuntimeState
from flycore.model.stability import RuntimeEvidence

FORGOTTEN_AFTER_S = 60.0
STATE_BY_CODE = {
    Code.CRASHED: RuntimeState.FAILED,
    Code.SPAWN: RuntimeState.FAILED,
    Code.TIMEOUT: RuntimeState.TIMED_OUT,
    Code.INVALID_OUTPUT: RuntimeState.SCHEMA_ERROR,
}


class RuntimeFinding(Value, frozen=True, kw_only=True):
    """The dimension as it stands, and the call it rests on."""

    state: RuntimeState = RuntimeState.READY
    evidence: RuntimeEvidence | None = None


READY = RuntimeFinding()


class RuntimeTracker:
    """Remembers, for each sidecar, the call that moved the dimension and when the last call was."""

    def __init__(self) -> None:
        self._moved: dict[str, tuple[RuntimeFinding, float]] = {}

    def note(self, sidecar: str, code: str, at: float, *, message: str = "", stderr_tail: str = "") -> None:
        """A call ended at `at`: `code` is empty for a success (a healthy probe counts as one)."""
        if not code:
            self._moved.pop(sidecar, None)
            return
        state = STATE_BY_CODE.get(Code(code)) if code in set(Code) else None
        if state is not None:
            evidence = RuntimeEvidence(at=at, code=code, message=message, stderr_tail=stderr_tail)
            self._moved[sidecar] = (RuntimeFinding(state=state, evidence=evidence), at)
        elif sidecar in self._moved:
            self._moved[sidecar] = (self._moved[sidecar][0], at)

    def finding(self, sidecar: str, now: float) -> RuntimeFinding:
        """How the sidecar stands at `now`."""
        moved = self._moved.get(sidecar)
        if moved is None or now - moved[1] >= FORGOTTEN_AFTER_S:
            return READY
        return moved[0]

    def next_change(self, now: float) -> float | None:
        """When the next sidecar is ready again without a call, as Unix time; None when all are."""
        ends = [
            last + FORGOTTEN_AFTER_S for _, last in self._moved.values() if now - last < FORGOTTEN_AFTER_S
        ]
        return min(ends, default=None)
