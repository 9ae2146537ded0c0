"""Amounts of milliseconds, summed up in little space."""

from __future__ import annotations

from collections import Counter, OrderedDict

from flycore.audit.record import LONGEST_NAME, LogRecord
from flycore.model.audit import ApprovalMetrics, LastError, ToolMetrics
from flycore.model.enums import Code, RequestState, Status

_EXACT_BITS = 10
"""Amounts below 1,024 are kept as they are, larger ones to within 0.2 %."""
_MOST = 10**12


class DurationHistogram:
    """How many, their sum, and any percentile. Equal amounts in any order make equal Amounts."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self._kept: Counter[int] = Counter()

    def add(self, amount: int) -> None:
        """One more. Negative ones count as 0; a line that was forged may hold anything."""
        amount = min(max(amount, 0), _MOST)
        self.count += 1
        self.total += amount
        coarse = max(amount.bit_length() - _EXACT_BITS, 0)
        self._kept[amount >> coarse << coarse] += 1

    @property
    def average(self) -> float:
        """Exact; 0 where there is none."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: int) -> int:
        """The smallest amount that so many percent do not exceed (nearest rank); 0 where there is none."""
        rank = -(-self.count * percent // 100)
        passed = 0
        for amount in sorted(self._kept):
            passed += self._kept[amount]
            if passed >= rank:
                return amount
        return 0


# Per tool: how often, how it ended, how long it took.


MOST_TOOLS = 1_000
"""Tools told apart; later ones are counted together, as OTHERS."""
OTHERS = "(others)"
NO_SUCH_TOOL = "(no such tool)"
"""Calls of names that no tool has: whoever calls may choose them."""
_LAST_WORDS = 500
_ERRORS = (Status.FAILED, Status.UNAVAILABLE, Status.UNKNOWN)


class ToolTally:
    """What is known of one tool so far."""

    def __init__(self) -> None:
        self._ends: Counter[str] = Counter()
        self._durations = DurationHistogram()
        self._last_executed = ""
        self._last_error: LastError | None = None

    def add(self, line: LogRecord) -> None:
        """A call has ended."""
        self._ends[line.status] += 1
        if line.ran:
            self._durations.add(line.duration_ms)
            self._last_executed = line.time
        if line.status in _ERRORS:
            self._last_error = LastError(at=line.time, code=line.code, message=line.message[:_LAST_WORDS])

    def metrics(self, tool: str, open_calls: int) -> ToolMetrics:
        """As a value."""
        ends, durations = self._ends, self._durations
        counted = {status: ends[status] for status in Status}
        return ToolMetrics(
            tool=tool,
            calls=ends.total() + open_calls,
            success=counted[Status.SUCCESS],
            failed=counted[Status.FAILED],
            denied=counted[Status.DENIED],
            unavailable=counted[Status.UNAVAILABLE],
            other=ends.total() - sum(counted[status] for status in _NAMED),
            open=open_calls,
            ran=durations.count,
            total_ms=durations.total,
            average_ms=round(durations.average, 1),
            p95_ms=durations.percentile(95),
            last_executed=self._last_executed,
            last_error=self._last_error,
        )


_NAMED = (Status.SUCCESS, Status.FAILED, Status.DENIED, Status.UNAVAILABLE)


class ToolTallies:
    """All tools."""

    def __init__(self) -> None:
        self._tallies: dict[str, ToolTally] = {}

    def add(self, line: LogRecord) -> None:
        """A call has ended."""
        name = NO_SUCH_TOOL if line.code == Code.NOT_FOUND else line.tool[:LONGEST_NAME]
        if name not in self._tallies and len(self._tallies) >= MOST_TOOLS:
            name = OTHERS
        self._tallies.setdefault(name, ToolTally()).add(line)

    def metrics(self, open_calls: Counter[str]) -> tuple[ToolMetrics, ...]:
        """Every tool, by name; `open_calls` counts calls without an end."""
        names = sorted(self._tallies.keys() | open_calls.keys())
        return tuple(self._tallies.get(name, ToolTally()).metrics(name, open_calls[name]) for name in names)


# How much a person is asked, and whether they still read: prompts an hour, time to decide, who asks.


REFLEX_MS = 1_000
"""Nobody reads a card in less."""
MOST_PAIRS = 1_000
"""Callers and tools told apart; later ones are counted together, as OTHERS."""
MOST_OPEN = 10_000
OTHER_PAIRS = "(others)"
_HOUR = len("2026-06-15T12")


class _Pair:
    def __init__(self) -> None:
        self.hours: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.not_shown = self.at_once = 0
        self.decided = DurationHistogram()

    def end(self, line: LogRecord, asked: str) -> None:
        if line.decision == RequestState.DENIED and not line.choice:
            self.not_shown += 1
            self.hours[asked] -= 1
            return
        self.ends[line.decision] += 1
        if line.choice:
            self.decided.add(line.took_ms)
            self.at_once += line.decision == RequestState.APPROVED and line.took_ms < REFLEX_MS

    def metrics(self, caller: str, tool: str) -> ApprovalMetrics:
        prompts = self.hours.total()
        active = sum(count > 0 for count in self.hours.values())
        approved, denied = self.ends[RequestState.APPROVED], self.ends[RequestState.DENIED]
        return ApprovalMetrics(
            caller=caller,
            tool=tool,
            prompts=prompts,
            approved=approved,
            denied=denied,
            timed_out=self.ends[RequestState.TIMED_OUT],
            withdrawn=self.ends[RequestState.WITHDRAWN],
            waiting=max(prompts - self.ends.total(), 0),
            not_shown=self.not_shown,
            active_hours=active,
            prompts_per_hour=round(prompts / active, 2) if active else 0.0,
            busiest_hour=max(self.hours.values(), default=0),
            approved_at_once=self.at_once,
            approved_at_once_share=_share(self.at_once, approved),
            denied_share=_share(denied, approved + denied),
            median_ms=self.decided.percentile(50),
            p95_ms=self.decided.percentile(95),
        )


class ApprovalFatigue:
    """All cards, and those of each caller and tool."""

    def __init__(self) -> None:
        self._all = _Pair()
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self._asked: OrderedDict[str, str] = OrderedDict()

    def asked(self, line: LogRecord) -> None:
        """A card was put before a person."""
        hour = line.time[:_HOUR]
        self._all.hours[hour] += 1
        self._pair(line).hours[hour] += 1
        self._asked[line.request_id] = hour
        if len(self._asked) > MOST_OPEN:
            self._asked.popitem(last=False)

    def decided(self, line: LogRecord) -> None:
        """It is decided. What was never asked, or too long ago to be remembered, counts for nothing."""
        asked = self._asked.pop(line.request_id, None)
        if asked is not None:
            self._all.end(line, asked)
            self._pair(line).end(line, asked)

    def all(self) -> ApprovalMetrics:
        """Over all callers and tools."""
        return self._all.metrics("", "")

    def pairs(self) -> tuple[ApprovalMetrics, ...]:
        """Per caller and tool, the most asked first."""
        found = [pair.metrics(caller, tool) for (caller, tool), pair in self._pairs.items()]
        return tuple(sorted(found, key=lambda item: (-item.prompts, item.caller, item.tool)))

    def _pair(self, line: LogRecord) -> _Pair:
        key = line.program, line.tool[:LONGEST_NAME]
        if key not in self._pairs and len(self._pairs) >= MOST_PAIRS:
            key = OTHER_PAIRS, OTHER_PAIRS
        return self._pairs.setdefault(key, _Pair())


def _share(some: int, of: int) -> float:
    return round(some / of, 4) if of else 0.0
