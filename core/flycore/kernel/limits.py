"""Limits that follow the settings: read at each use, so that a change counts without a restart."""

from __future__ import annotations

from flycore.executive.world import CurrentState
from flycore.model.enums import Risk


class LiveLimits:
    """What queue and quota hold callers to, as the user's settings say now. Lowered, they refuse what
    comes next and take nothing back."""

    def __init__(self, state: CurrentState) -> None:
        self._state = state

    @property
    def per_caller(self) -> int:
        """Requests of one caller that may wait."""
        return self._state.world.settings.queue_per_caller

    @property
    def total(self) -> int:
        """Requests that may wait."""
        return self._state.world.settings.queue_total

    def timeout(self, risk: Risk) -> float:
        """Seconds a request of that risk waits."""
        return self._state.world.settings.approval_times.of(risk) / 1000

    @property
    def calls_per_minute(self) -> int:
        """Calls of one caller."""
        return self._state.world.settings.calls_per_minute

    @property
    def running(self) -> int:
        """Calls of one caller at once."""
        return self._state.world.settings.running

    @property
    def high_risk_per_session(self) -> int:
        """High-risk calls of one caller's process."""
        return self._state.world.settings.high_risk_per_session
