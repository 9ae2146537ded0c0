"""The quota of calls per caller, checked before a person is asked."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from flycore.model.clock import Clock
from flycore.model.enums import Risk

WINDOW_SECONDS = 60.0
MAX_CALLERS = 4096
"""Callers whose counts are kept. Beyond, the idle caller that was not seen for longest is forgotten."""


class QuotaLimits(Protocol):
    """The limits of one caller. They are read at each call, because the settings may change meanwhile."""

    @property
    def calls_per_minute(self) -> int:
        """The number of calls that may begin within a minute."""
        ...

    @property
    def running(self) -> int:
        """The number of calls that may run at once."""
        ...

    @property
    def high_risk_per_session(self) -> int:
        """The number of calls of high or critical risk that one process of the caller may make."""
        ...


class FixedQuotaLimits(NamedTuple):
    """Limits that do not change."""

    calls_per_minute: int = 60
    running: int = 8
    high_risk_per_session: int = 50


class QuotaRefusal(NamedTuple):
    """Why a call is over quota. `free_in` is the number of seconds until a call is free again; None where
    only the end of a call or a new session frees one."""

    message: str
    free_in: float | None = None


@dataclass(slots=True)
class _Usage:
    calls: deque[float] = field(default_factory=deque)
    running: int = 0
    high_risk: int = 0
    refused: bool = False
    """Whether the latest call was refused."""


class Quota:
    """Counts the calls of each caller (`Caller.key`). One process of the caller is one session."""

    def __init__(
        self, clock: Clock, limits: QuotaLimits, on_change: Callable[[str, str], None] = lambda *_: None
    ) -> None:
        """`on_change` is called with a caller's key and the reason when its calls begin to be refused, and
        with an empty reason at its first call after that."""
        self._on_change = on_change
        self._clock = clock
        self._limits = limits
        self._usage: OrderedDict[str, _Usage] = OrderedDict()

    def admit(self, caller: str, risk: Risk, *, step: bool = False) -> QuotaRefusal | None:
        """Count a call, or return why it is over quota; then it does not count. A `step` runs in the place of
        its plan, which already counts as running."""
        usage, now = self._usage_of(caller), self._clock.monotonic()
        refusal = self._refusal(usage, risk, now, usage.running - step)
        if refusal is None:
            usage.calls.append(now)
            usage.high_risk += risk.at_least(Risk.HIGH)
        # Once for each change: a caller that calls on and on makes no flood of it.
        if usage.refused != (refusal is not None):
            usage.refused = refusal is not None
            self._on_change(caller, refusal.message if refusal is not None else "")
        return refusal

    def used_up(self, caller: str) -> QuotaRefusal | None:
        """Return why the caller's next call would be refused whatever its risk; None where it would not."""
        usage = self._usage.get(caller)
        return (
            None if usage is None else self._refusal(usage, Risk.LOW, self._clock.monotonic(), usage.running)
        )

    @contextmanager
    def running(self, caller: str) -> Iterator[None]:
        """Count a call as running for the block, also while it waits for its turn."""
        usage = self._usage_of(caller)
        usage.running += 1
        try:
            yield
        finally:
            usage.running -= 1

    def _refusal(self, usage: _Usage, risk: Risk, now: float, running: int) -> QuotaRefusal | None:
        limits = self._limits
        while usage.calls and usage.calls[0] <= now - WINDOW_SECONDS:
            usage.calls.popleft()
        if running >= limits.running:
            return QuotaRefusal(
                f"{limits.running} calls of this caller are running; wait until one has ended"
            )
        if len(usage.calls) >= limits.calls_per_minute:
            # With a limit of 0 there is no earlier call, so waiting never frees one.
            free_in = usage.calls[0] + WINDOW_SECONDS - now if usage.calls else None
            sentence = f"{limits.calls_per_minute} calls in the last minute"
            return QuotaRefusal(
                sentence if free_in is None else f"{sentence}; free in {free_in:.0f} s", free_in
            )
        if risk.at_least(Risk.HIGH) and usage.high_risk >= limits.high_risk_per_session:
            return QuotaRefusal(f"{limits.high_risk_per_session} high-risk calls in this session")
        return None

    def _usage_of(self, caller: str) -> _Usage:
        usage = self._usage.pop(caller, None) or _Usage()
        self._usage[caller] = usage
        if len(self._usage) > MAX_CALLERS:
            idle = next((key for key, item in self._usage.items() if not item.running), None)
            if idle is not None and idle != caller:
                del self._usage[idle]
        return usage
