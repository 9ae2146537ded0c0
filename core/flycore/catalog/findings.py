"""What a probe found, as the snapshot takes it."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import ProbeState
from flycore.model.stability import ProbeEvidence, Reason


class ProbeFinding(Value, frozen=True, kw_only=True):
    """The dimension, why it is not healthy, and the answer it rests on; `evidence.tools` narrows tools."""

    state: ProbeState
    reason: Reason | None = None
    evidence: ProbeEvidence | None = None
    fresh: bool = False
    """Whether it was asked for just now, not taken from the cache. Evidence, not identity."""


SKIPPED = ProbeFinding(state=ProbeState.SKIPPED)
