"""Limits that follow the settings: read at each use, so that a change counts without a restart."""

from __future__ import annotations

from collections.abc import Callable

from flycore.model.enums import Risk
from flycore.registry.settings import Settings


class LiveLimits:
    """What queue and quota hold callers to, as the user's settings say now. Lowered, they refuse what
    comes next and take nothing back."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    @property
    def per_caller(self) -> int:
        """Requests of one caller that may wait."""
        return self._settings().queue_per_caller

    @property
    def total(self) -> int:
        """Requests that may wait."""
        return self._settings().queue_total

    def timeout(self, risk: Risk) -> float:
        """Seconds a request of that risk waits."""
        return self._settings().approval_times.of(risk) / 1000

    @property
    def calls_per_minute(self) -> int:
        """Calls of one caller."""
        return self._settings().calls_per_minute

    @property
    def running(self) -> int:
        """Calls of one caller at once."""
        return self._settings().running

    @property
    def high_risk_per_session(self) -> int:
        """High-risk calls of one caller's process."""
        return self._settings().high_risk_per_session
