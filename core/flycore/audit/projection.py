"""History and metrics, made of the log and nothing else: thrown away and made anew they are the same.

A Projection holds what it has seen and reads on from there; `history`, `metrics` and `approvals` make one,
use it and forget it. Memory does not grow with the log: only with the number of tools, callers and hours.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from flycore.audit.answers import PastDecisions
from flycore.audit.events import (
    APPROVAL_ASKED,
    APPROVAL_DECIDED,
    TOOL_CALLED,
    TOOL_EXECUTED,
    TOOL_OUTCOME_UNKNOWN,
    TOOL_STARTED,
)
from flycore.audit.fatigue import ApprovalFatigue
from flycore.audit.follow import Follower
from flycore.audit.history import CallRecord, History
from flycore.audit.line import LONGEST_NAME, LogRecord, program_of, read_line
from flycore.audit.metrics import ToolTallies
from flycore.audit.span import ALL_TIME, TimeRange
from flycore.model.approval import Checks
from flycore.model.audit import ApprovalReport, Metrics

KEPT = 1_000
"""Calls that a Projection remembers one by one."""
MOST_CALLERS = 256
"""Callers whose own metrics are kept; the one that was quiet for longest is given up."""
_ENDS = (TOOL_EXECUTED, TOOL_OUTCOME_UNKNOWN)
_OF_A_CALL = frozenset((TOOL_CALLED, APPROVAL_ASKED, APPROVAL_DECIDED, TOOL_STARTED, *_ENDS))


class Projection:
    """What the log of one folder says so far. `update` reads on; nothing else touches the disk."""

    def __init__(
        self, folder: Path, span: TimeRange = ALL_TIME, *, kept: int = KEPT, tool: str = "", caller: str = ""
    ) -> None:
        self._folder, self._span = folder, span
        self._kept, self._tool, self._caller = kept, tool, caller
        self._lines = self._unreadable = 0
        self.seq = 0
        """Number of the last line that was taken."""
        self._anew()

    def update(self) -> None:
        """Take in what has come since; everything, where the log is no longer the one known. OSError."""
        if self._follower.replaced():
            self._anew()
        for raw in self._follower.lines():
            self.take(raw)

    def take(self, raw: bytes) -> None:
        """One more line, without newline. A Projection that is fed like this has no need to `update`."""
        line = read_line(raw)
        if line is None or not line.event:
            self.seq += 1
            self._unreadable += 1
            return
        self.seq = line.seq
        if self._span.covers(line.time):
            self._take(line)

    def history(self, limit: int = KEPT) -> tuple[CallRecord, ...]:
        """Calls under way, then those that ended, each newest first."""
        return self._history.records(limit)

    def unfinished(self) -> tuple[CallRecord, ...]:
        """Calls that have started and not ended, oldest first."""
        return self._history.unfinished()

    def metrics(self) -> Metrics:
        """Per tool."""
        return Metrics(
            since=self._since,
            until=self._until,
            lines=self._lines,
            unreadable=self._unreadable,
            tools=self._tools.metrics(self._history.open_calls()),
        )

    def metrics_of(self, caller_key: str) -> Metrics:
        """The same over the calls of one caller, with nothing in it of others."""
        tools = self._callers.get(caller_key[:LONGEST_NAME]) or ToolTallies()
        return Metrics(
            since="",
            until="",
            lines=0,
            unreadable=0,
            tools=tools.metrics(self._history.open_calls(caller_key)),
        )

    def approvals(self) -> ApprovalReport:
        """How much a person was asked, in all and per caller and tool."""
        return ApprovalReport(total=self._fatigue.all(), pairs=self._fatigue.pairs())

    def answers(self, caller_key: str, tool: str, input_digest: str, since: str) -> Checks:
        """How a person answered that very call of that program, from `since` on, a time of the log."""
        return self._answers.decisions(program_of(caller_key), tool, input_digest, since)

    def _anew(self) -> None:
        self.seq = 0
        self._answers = PastDecisions()
        self._follower = Follower(self._folder)
        self._history = History(self._kept, self._tool, self._caller)
        self._tools = ToolTallies()
        self._callers: OrderedDict[str, ToolTallies] = OrderedDict()
        self._fatigue = ApprovalFatigue()
        self._since = self._until = ""
        self._lines = self._unreadable = 0

    def _take(self, line: LogRecord) -> None:
        self._since = self._since or line.time
        self._until = line.time
        self._lines += 1
        if line.event == APPROVAL_ASKED:
            self._fatigue.asked(line)
        elif line.event == APPROVAL_DECIDED:
            self._fatigue.decided(line)
            self._answers.add(line)
        elif line.event in _ENDS:
            self._tools.add(line)
            self._of_caller(line.caller_key[:LONGEST_NAME]).add(line)
        if line.event in _OF_A_CALL:
            self._history.add(line)

    def _of_caller(self, key: str) -> ToolTallies:
        tallies = self._callers.pop(key, None) or ToolTallies()
        self._callers[key] = tallies
        if len(self._callers) > MOST_CALLERS:
            self._callers.popitem(last=False)
        return tallies


def history(
    folder: Path, *, limit: int = 100, tool: str = "", caller: str = "", span: TimeRange = ALL_TIME
) -> tuple[CallRecord, ...]:
    """The latest calls, newest first; of one tool, of one caller by its key or its door and program.

    Raises OSError.
    """
    made = Projection(folder, span, kept=limit, tool=tool, caller=caller)
    made.update()
    return made.history(limit)


def metrics(folder: Path, span: TimeRange = ALL_TIME) -> Metrics:
    """Per tool, from the whole log. OSError."""
    made = Projection(folder, span, kept=0)
    made.update()
    return made.metrics()


def approvals(folder: Path, span: TimeRange = ALL_TIME) -> ApprovalReport:
    """How much a person was asked, from the whole log. OSError."""
    made = Projection(folder, span, kept=0)
    made.update()
    return made.approvals()
