"""Per tool: how often, how it ended, how long it took."""

from __future__ import annotations

from collections import Counter

from flycore.audit.amounts import DurationHistogram
from flycore.audit.line import LONGEST_NAME, LogRecord
from flycore.model.audit import LastError, ToolMetrics
from flycore.model.enums import Code, Status

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
