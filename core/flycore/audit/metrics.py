"""The tallies behind the metrics: durations, calls per tool, and how often a person is asked."""

from __future__ import annotations

from collections import Counter, OrderedDict

from flycore.audit.record import LONGEST_NAME, LogRecord
from flycore.model.audit import ApprovalMetrics, LastError, ToolMetrics
from flycore.model.enums import Code, RequestState, Status

_EXACT_BITS = 10
"""Milliseconds below 1,024 are counted exactly, larger ones to within 0.2 %, so memory stays small."""
_MOST = 10**12


class DurationHistogram:
    """A histogram of milliseconds: count, sum and percentiles. The order of the values does not matter."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self._counts: Counter[int] = Counter()

    def add(self, amount: int) -> None:
        """Add one duration. It is clamped, as a forged log line may have any number."""
        amount = min(max(amount, 0), _MOST)
        self.count += 1
        self.total += amount
        coarse = max(amount.bit_length() - _EXACT_BITS, 0)
        self._counts[amount >> coarse << coarse] += 1

    @property
    def average(self) -> float:
        """The exact mean; 0 without values."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: int) -> int:
        """Return the percentile by nearest rank; 0 without values."""
        rank = -(-self.count * percent // 100)
        passed = 0
        for amount in sorted(self._counts):
            passed += self._counts[amount]
            if passed >= rank:
                return amount
        return 0


# Calls per tool.


MOST_TOOLS = 1_000
"""Tools that are counted separately; further ones are counted together as OTHERS."""
OTHERS = "(others)"
NO_SUCH_TOOL = "(no such tool)"
"""The name for calls of tools that do not exist: a caller could fill the memory with invented names."""
_MOST_MESSAGE = 500
_ERRORS = (Status.FAILED, Status.UNAVAILABLE, Status.UNKNOWN)


class ToolTally:
    """The tally of one tool's calls."""

    def __init__(self) -> None:
        self._ends: Counter[str] = Counter()
        self._durations = DurationHistogram()
        self._last_executed = ""
        self._last_error: LastError | None = None

    def add(self, line: LogRecord) -> None:
        """Add the last line of a call."""
        self._ends[line.status] += 1
        if line.ran:
            self._durations.add(line.duration_ms)
            self._last_executed = line.time
        if line.status in _ERRORS:
            self._last_error = LastError(at=line.time, code=line.code, message=line.message[:_MOST_MESSAGE])

    def metrics(self, tool: str, open_calls: int) -> ToolMetrics:
        """Return the metrics as a value."""
        ends, durations = self._ends, self._durations
        counted = {status: ends[status] for status in Status}
        return ToolMetrics(
            tool=tool,
            calls=ends.total() + open_calls,
            success=counted[Status.SUCCESS],
            failed=counted[Status.FAILED],
            denied=counted[Status.DENIED],
            unavailable=counted[Status.UNAVAILABLE],
            other=ends.total() - sum(counted[status] for status in _COUNTED),
            open=open_calls,
            ran=durations.count,
            total_ms=durations.total,
            average_ms=round(durations.average, 1),
            p95_ms=durations.percentile(95),
            last_executed=self._last_executed,
            last_error=self._last_error,
        )


_COUNTED = (Status.SUCCESS, Status.FAILED, Status.DENIED, Status.UNAVAILABLE)


class ToolTallies:
    """The tallies of all tools."""

    def __init__(self) -> None:
        self._tallies: dict[str, ToolTally] = {}

    def add(self, line: LogRecord) -> None:
        """Add the last line of a call."""
        name = NO_SUCH_TOOL if line.code == Code.NOT_FOUND else line.tool[:LONGEST_NAME]
        if name not in self._tallies and len(self._tallies) >= MOST_TOOLS:
            name = OTHERS
        tally = self._tallies.get(name)
        if tally is None:
            tally = self._tallies[name] = ToolTally()
        tally.add(line)

    def metrics(self, open_calls: Counter[str]) -> tuple[ToolMetrics, ...]:
        """Return the metrics of every tool, by name. `open_calls` has the calls that have not ended."""
        names = sorted(self._tallies.keys() | open_calls.keys())
        return tuple(self._tallies.get(name, ToolTally()).metrics(name, open_calls[name]) for name in names)


# Approval fatigue: how often a person is asked, and how fast they answer.


REFLEX_MS = 1_000
"""Milliseconds below which an approval counts as a reflex: nobody reads a card in less."""
MOST_PAIRS = 1_000
"""Pairs of caller and tool that are counted separately; further ones are counted as OTHER_PAIRS."""
MOST_OPEN = 10_000
"""Undecided requests that are kept; beyond this the oldest are dropped."""
OTHER_PAIRS = "(others)"
_HOUR = len("2026-06-15T12")


class _PairTally:
    def __init__(self) -> None:
        self.hours: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.not_shown = self.at_once = 0
        self.decided = DurationHistogram()

    def end(self, line: LogRecord, hour: str) -> None:
        if line.decision == RequestState.DENIED and not line.choice:
            # Denied without a choice: refused because too many requests waited. No card was shown for it.
            self.not_shown += 1
            self.hours[hour] -= 1
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
    """The tallies of all requests, and of each pair of caller and tool."""

    def __init__(self) -> None:
        self._all = _PairTally()
        self._pairs: dict[tuple[str, str], _PairTally] = {}
        self._undecided: OrderedDict[str, str] = OrderedDict()

    def add_request(self, line: LogRecord) -> None:
        """Add a request that was shown to a person."""
        hour = line.time[:_HOUR]
        self._all.hours[hour] += 1
        self._pair(line).hours[hour] += 1
        self._undecided[line.request_id] = hour
        if len(self._undecided) > MOST_OPEN:
            self._undecided.popitem(last=False)

    def add_decision(self, line: LogRecord) -> None:
        """Add the end of a request. One that is not among the undecided is skipped."""
        asked = self._undecided.pop(line.request_id, None)
        if asked is not None:
            self._all.end(line, asked)
            self._pair(line).end(line, asked)

    def all(self) -> ApprovalMetrics:
        """Return the metrics over all callers and tools."""
        return self._all.metrics("", "")

    def pairs(self) -> tuple[ApprovalMetrics, ...]:
        """Return the metrics per caller and tool, the most asked first."""
        found = [pair.metrics(caller, tool) for (caller, tool), pair in self._pairs.items()]
        return tuple(sorted(found, key=lambda item: (-item.prompts, item.caller, item.tool)))

    def _pair(self, line: LogRecord) -> _PairTally:
        key = line.program, line.tool[:LONGEST_NAME]
        if key not in self._pairs and len(self._pairs) >= MOST_PAIRS:
            key = OTHER_PAIRS, OTHER_PAIRS
        return self._pairs.setdefault(key, _PairTally())


def _share(some: int, of: int) -> float:
    return round(some / of, 4) if of else 0.0
