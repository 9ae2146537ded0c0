"""The `runtime` dimension: what the last calls of each sidecar showed.

Only the codes `crashed`, `spawn`, `timeout` and `invalid-output` change it, because only these are usually
the sidecar's own fault. The sidecar is ready again after the next call or probe that succeeds, or after a
minute without a call, since an old failure says little about the present. Times are Unix seconds.
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
    """The state of the dimension, and the call that it rests on."""

    state: RuntimeState = RuntimeState.READY
    evidence: RuntimeEvidence | None = None


READY = RuntimeFinding()


class RuntimeTracker:
    """Keeps, for each sidecar, the call that changed the dimension and the time of the last call."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[RuntimeFinding, float]] = {}

    def note(self, sidecar: str, code: str, at: float, *, message: str = "", stderr_tail: str = "") -> None:
        """Note a call that ended at `at`. `code` is empty for a success; a healthy probe counts as one."""
        if not code:
            self._failures.pop(sidecar, None)
            return
        state = STATE_BY_CODE.get(Code(code)) if code in set(Code) else None
        if state is not None:
            evidence = RuntimeEvidence(at=at, code=code, message=message, stderr_tail=stderr_tail)
            self._failures[sidecar] = (RuntimeFinding(state=state, evidence=evidence), at)
        elif sidecar in self._failures:
            self._failures[sidecar] = (self._failures[sidecar][0], at)

    def finding(self, sidecar: str, now: float) -> RuntimeFinding:
        """Return the state of the sidecar at `now`."""
        failure = self._failures.get(sidecar)
        if failure is None or now - failure[1] >= FORGOTTEN_AFTER_S:
            return READY
        return failure[0]

    def next_change(self, now: float) -> float | None:
        """Return when the next sidecar becomes ready without a call, as Unix time; None where all are
        ready."""
        ends = [
            last + FORGOTTEN_AFTER_S for _, last in self._failures.values() if now - last < FORGOTTEN_AFTER_S
        ]
        return min(ends, default=None)
