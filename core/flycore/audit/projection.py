"""History and metrics, made of the log and nothing else: thrown away and made anew they are the same.

A Projection holds what it has seen and reads on from there; `history`, `metrics` and `approvals` make one,
use it and forget it. Memory does not grow with the log: only with the number of tools, callers and hours.
"""

from __future__ import annotations

from pathlib import Path

from flycore.audit.events import (
    APPROVAL_ASKED,
    APPROVAL_DECIDED,
    TOOL_CALLED,
    TOOL_EXECUTED,
    TOOL_STARTED,
)
from flycore.audit.fatigue import ApprovalMetrics, Fatigue
from flycore.audit.follow import Follower
from flycore.audit.history import CallRecord, History
from flycore.audit.line import Line, read_line
from flycore.audit.metrics import ToolMetrics, ToolTallies
from flycore.audit.span import EVER, Span
from flycore.model.base import Value

KEPT = 1_000
"""Calls that a Projection remembers one by one."""
_OF_A_CALL = frozenset((TOOL_CALLED, APPROVAL_ASKED, APPROVAL_DECIDED, TOOL_STARTED, TOOL_EXECUTED))


class Metrics(Value, frozen=True, kw_only=True):
    """All tools, over the lines that were meant."""

    since: str
    """Time of the first line, as the log writes it; empty where there is none."""
    until: str
    """Time of the last line."""
    lines: int
    unreadable: int
    """Lines that are none; `flytui audit verify` says where the first one is."""
    tools: tuple[ToolMetrics, ...]


class ApprovalReport(Value, frozen=True, kw_only=True):
    """How much a person was asked."""

    total: ApprovalMetrics
    pairs: tuple[ApprovalMetrics, ...]
    """Per caller and tool, the most asked first."""


class Projection:
    """What the log of one folder says so far. `update` reads on; nothing else touches the disk."""

    def __init__(
        self, folder: Path, span: Span = EVER, *, kept: int = KEPT, tool: str = "", caller: str = ""
    ) -> None:
        self._folder, self._span = folder, span
        self._kept, self._tool, self._caller = kept, tool, caller
        self._anew()

    def update(self) -> None:
        """Take in what has come since; everything, where the log is no longer the one known. OSError."""
        if self._follower.replaced():
            self._anew()
        for raw in self._follower.lines():
            line = read_line(raw)
            if line is None or not line.event:
                self._unreadable += 1
            elif self._span.covers(line.time):
                self._take(line)

    def history(self, limit: int = KEPT) -> tuple[CallRecord, ...]:
        """Calls under way, then those that ended, each newest first."""
        return self._history.records(limit)

    def metrics(self) -> Metrics:
        """Per tool."""
        return Metrics(
            since=self._since,
            until=self._until,
            lines=self._lines,
            unreadable=self._unreadable,
            tools=self._tools.metrics(self._history.open_calls()),
        )

    def approvals(self) -> ApprovalReport:
        """How much a person was asked, in all and per caller and tool."""
        return ApprovalReport(total=self._fatigue.all(), pairs=self._fatigue.pairs())

    def _anew(self) -> None:
        self._follower = Follower(self._folder)
        self._history = History(self._kept, self._tool, self._caller)
        self._tools = ToolTallies()
        self._fatigue = Fatigue()
        self._since = self._until = ""
        self._lines = self._unreadable = 0

    def _take(self, line: Line) -> None:
        self._since = self._since or line.time
        self._until = line.time
        self._lines += 1
        if line.event == APPROVAL_ASKED:
            self._fatigue.asked(line)
        elif line.event == APPROVAL_DECIDED:
            self._fatigue.decided(line)
        elif line.event == TOOL_EXECUTED:
            self._tools.add(line)
        if line.event in _OF_A_CALL:
            self._history.add(line)


def history(
    folder: Path, *, limit: int = 100, tool: str = "", caller: str = "", span: Span = EVER
) -> tuple[CallRecord, ...]:
    """The latest calls, newest first; of one tool, of one caller by its key or its door and program.

    Raises OSError.
    """
    made = Projection(folder, span, kept=limit, tool=tool, caller=caller)
    made.update()
    return made.history(limit)


def metrics(folder: Path, span: Span = EVER) -> Metrics:
    """Per tool, from the whole log. OSError."""
    made = Projection(folder, span, kept=0)
    made.update()
    return made.metrics()


def approvals(folder: Path, span: Span = EVER) -> ApprovalReport:
    """How much a person was asked, from the whole log. OSError."""
    made = Projection(folder, span, kept=0)
    made.update()
    return made.approvals()
