"""The quota of calls per caller, checked before a person is asked.

A limit per minute is a bucket: that many calls may begin at once, and they are freed one by one, evenly over
a minute. So a caller that goes on waits for fractions of a second, and not for the rest of a minute.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import msgspec

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
    def asked_per_minute(self) -> int:
        """The number of calls that a person would be asked about and that may begin within a minute."""
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

    calls_per_minute: int = 600
    asked_per_minute: int = 60
    running: int = 8
    high_risk_per_session: int = 50


class QuotaRefusal(NamedTuple):
    """Why a call is over quota. `free_in` is the number of seconds until a call is free again; None where
    only the end of a call or a new session frees one."""

    message: str
    free_in: float | None = None


class _Bucket(msgspec.Struct):
    """The calls of one kind that count at present."""

    level: float = 0.0
    at: float = 0.0
    """Monotonic time of `level`."""

    def free_in(self, limit: int, now: float) -> float | None:
        """Return the seconds until one more call may begin: 0 where it may now, None where it never may."""
        if limit < 1:
            return None
        self.level = max(0.0, self.level - (now - self.at) * limit / WINDOW_SECONDS)
        self.at = now
        over = self.level + 1 - limit
        # What is left of a call after many subtractions of floats is no call.
        return over * WINDOW_SECONDS / limit if over > _ROUNDING else 0.0


_ROUNDING = 1e-6


class _Usage(msgspec.Struct):
    calls: _Bucket = msgspec.field(default_factory=_Bucket)
    asked: _Bucket = msgspec.field(default_factory=_Bucket)
    running: int = 0
    high_risk: int = 0
    refused: tuple[Risk, bool] | None = None
    """Risk of the call that was refused, and whether a person would have been asked about it; None where a
    call like the latest one may begin."""


OnQuotaChange = Callable[[str, QuotaRefusal | None], None]
"""Called with a caller's key and why its calls begin to be refused, and with None once one is free again."""


class Quota:
    """Counts the calls of each caller (`Caller.key`). One process of the caller is one session."""

    def __init__(self, clock: Clock, limits: QuotaLimits, on_change: OnQuotaChange = lambda *_: None) -> None:
        self._on_change = on_change
        self._clock = clock
        self._limits = limits
        self._usage: OrderedDict[str, _Usage] = OrderedDict()

    def admit(
        self, caller: str, risk: Risk, *, step: bool = False, asked: bool = False
    ) -> QuotaRefusal | None:
        """Count a call, or return why it is over quota; then it does not count. A `step` runs in the place of
        its plan, which already counts as running. A person would be asked about a call that is `asked`."""
        usage, now = self._usage_of(caller), self._clock.monotonic()
        refusal = self._refusal(usage, risk, now, usage.running - step, asked=asked)
        if refusal is None:
            usage.calls.level += 1
            usage.asked.level += asked
            usage.high_risk += risk.at_least(Risk.HIGH)
        # Once for each change: a caller that calls on and on makes no flood of it.
        if (usage.refused is None) != (refusal is None):
            self._on_change(caller, refusal)
        usage.refused = None if refusal is None else (risk, asked)
        return refusal

    def free_again(self, caller: str) -> float | None:
        """Report that a call like the one that was refused may begin again, where that is so. Where it is
        not yet, return the seconds until it may; None where nothing waits for time."""
        usage = self._usage.get(caller)
        if usage is None or usage.refused is None:
            return None
        risk, asked = usage.refused
        refusal = self._refusal(usage, risk, self._clock.monotonic(), usage.running, asked=asked)
        if refusal is not None:
            return refusal.free_in
        usage.refused = None
        self._on_change(caller, None)
        return None

    def used_up(self, caller: str) -> QuotaRefusal | None:
        """Return why the caller's next call would be refused whatever its risk; None where it would not."""
        usage = self._usage.get(caller)
        return (
            None
            if usage is None
            else self._refusal(usage, Risk.LOW, self._clock.monotonic(), usage.running, asked=False)
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
            self.free_again(caller)

    def _refusal(
        self, usage: _Usage, risk: Risk, now: float, running: int, *, asked: bool
    ) -> QuotaRefusal | None:
        limits = self._limits
        if running >= limits.running:
            return QuotaRefusal(
                f"{limits.running} calls of this caller are running; wait until one has ended"
            )
        counted = [(usage.calls, limits.calls_per_minute, "calls in the last minute")]
        if asked:
            counted.append(
                (usage.asked, limits.asked_per_minute, "calls that need a person in the last minute")
            )
        for bucket, limit, words in counted:
            free_in = bucket.free_in(limit, now)
            if free_in is None:
                return QuotaRefusal(f"{limit} {words}")
            if free_in:
                return QuotaRefusal(f"{limit} {words}; free in {free_in:.1f} s", free_in)
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
