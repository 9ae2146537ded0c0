"""How much a person is asked, and whether they still read: prompts an hour, time to decide, who asks."""

from __future__ import annotations

from collections import Counter, OrderedDict

from flycore.audit.amounts import DurationHistogram
from flycore.audit.line import LONGEST_NAME, LogRecord
from flycore.model.audit import ApprovalMetrics
from flycore.model.enums import RequestState

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
