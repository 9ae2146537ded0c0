"""The latest calls: who called what, who let it, how it ended."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from pathlib import Path

import msgspec

from flycore.audit import events
from flycore.audit.events import (
    APPROVAL_ASKED,
    APPROVAL_DECIDED,
    TOOL_CALLED,
    TOOL_EXECUTED,
    TOOL_OUTCOME_UNKNOWN,
    TOOL_STARTED,
)
from flycore.audit.metrics import ApprovalFatigue, ToolTallies
from flycore.audit.query import Follower
from flycore.audit.record import ALL_TIME, LONGEST_NAME, LogRecord, TimeRange, program_of, read_line
from flycore.model.approval import Checks
from flycore.model.audit import ApprovalReport, Metrics
from flycore.model.base import Value
from flycore.model.enums import RequestState

MOST_OPEN = 10_000
"""Calls without an end that are remembered; the oldest of more are given up."""
BY_ITS_STEPS = "its steps"
"""What let a plan run that has begun."""
MOST_KEPT = 4_096
"""Characters of one input or output that are remembered with its call; `flytui audit show` has all of it."""


class CallRecord(Value, frozen=True, kw_only=True):
    """One call, from the lines of the log that carry its id. Times are as the log writes them."""

    call_id: str
    tool: str
    caller: str
    caller_key: str
    called_at: str
    ended_at: str = ""
    """Empty while it runs, or where the kernel was killed meanwhile."""
    sidecar: str = ""
    status: str = ""
    code: str = ""
    message: str = ""
    risk: str = ""
    decision: str = ""
    """`approved`, `denied`, `timed-out` or `withdrawn`; empty where nobody was asked."""
    decided_by: str = ""
    reason: str = ""
    """What a person gave for denying it."""
    took_ms: int = 0
    """From asking to the decision."""
    authority: str = ""
    """What let it run: a request, a lease, a rule."""
    level: str = ""
    parent_call_id: str = ""
    """Of the plan whose step it was."""
    duration_ms: int = 0
    waited_ms: int = 0
    input: str = ""
    """JSON as the log has it, redacted; cut where it is longer than `MOST_KEPT`."""
    output: str = ""
    """JSON, where the log has outputs and this one is short enough."""


class History:
    """Calls without an end, and the latest that ended."""

    def __init__(self, limit: int, tool: str = "", caller: str = "") -> None:
        self._tool, self._caller = tool, caller
        self._open: OrderedDict[str, CallRecord] = OrderedDict()
        self._ended: deque[CallRecord] = deque(maxlen=limit)

    def add(self, line: LogRecord) -> None:
        """One more line of a call."""
        known = self._open.get(line.call_id)
        if known is None and line.event in (events.APPROVAL_ASKED, events.APPROVAL_DECIDED):
            return  # decided after its caller had been told that it is pending
        record = known or _begun(line)
        if line.event in (events.TOOL_EXECUTED, events.TOOL_OUTCOME_UNKNOWN):
            self._open.pop(line.call_id, None)
            if self._tool in ("", record.tool) and self._caller in ("", record.caller_key, line.program):
                self._ended.append(_ended(record, line))
            return
        self._open[line.call_id] = _changed(record, line)
        plan = self._open.get(line.parent_call_id)
        if plan is not None and line.event == events.TOOL_STARTED:
            self._open[line.parent_call_id] = msgspec.structs.replace(plan, authority=BY_ITS_STEPS)
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)

    def records(self, limit: int) -> tuple[CallRecord, ...]:
        """Those under way, then those that ended, each newest first."""
        under_way = [
            record
            for record in reversed(self._open.values())
            if self._tool in ("", record.tool) and self._caller in ("", record.caller_key)
        ]
        return tuple([*under_way, *reversed(self._ended)][:limit])

    def unfinished(self) -> tuple[CallRecord, ...]:
        """Those that have started and not ended, oldest first."""
        return tuple(record for record in self._open.values() if record.authority)

    def open_calls(self, caller_key: str = "") -> Counter[str]:
        """Calls without an end, by tool; of one caller, or of all."""
        return Counter(
            record.tool[:LONGEST_NAME]
            for record in self._open.values()
            if caller_key in ("", record.caller_key)
        )


def _begun(line: LogRecord) -> CallRecord:
    return CallRecord(
        call_id=line.call_id,
        tool=line.tool,
        caller=line.caller,
        caller_key=line.caller_key,
        called_at=line.time,
        parent_call_id=line.parent_call_id,
        input=bytes(line.input)[:MOST_KEPT].decode("utf-8", "replace"),
    )


def _changed(record: CallRecord, line: LogRecord) -> CallRecord:
    """With what this line says of the call."""
    fields: dict[str, object] = {"sidecar": line.sidecar or record.sidecar}
    match line.event:
        case events.APPROVAL_ASKED:
            fields |= {"risk": line.risk}
        case events.APPROVAL_DECIDED:
            fields |= {
                "decision": line.decision,
                "decided_by": line.decided_by,
                "reason": line.reason,
                "took_ms": line.took_ms,
            }
        case events.TOOL_STARTED:
            fields |= {"authority": line.authority, "level": line.level}
    return msgspec.structs.replace(record, **fields)


def _ended(record: CallRecord, line: LogRecord) -> CallRecord:
    return msgspec.structs.replace(
        record,
        ended_at=line.time,
        sidecar=line.sidecar or record.sidecar,
        status=line.status,
        code=line.code,
        message=line.message,
        level=line.level or record.level,
        duration_ms=line.duration_ms,
        waited_ms=line.waited_ms,
        output=bytes(line.output).decode("utf-8", "replace") if len(bytes(line.output)) <= MOST_KEPT else "",
    )


# What a person said lately to one and the same call: the same program, tool and input.


MOST_CALLS = 10_000
"""Calls told apart; the one whose answer is oldest is given up."""
MOST_ANSWERS = 100
"""Answers to one call; a card that says a hundred says enough."""
_CallKey = tuple[str, str, str]


class PastDecisions:
    """Decisions of a person, by what was asked."""

    def __init__(self) -> None:
        self._given: OrderedDict[_CallKey, deque[tuple[str, bool]]] = OrderedDict()

    def add(self, line: LogRecord) -> None:
        """A request was settled; what no person answered does not count."""
        if not line.choice or line.decision not in (RequestState.APPROVED, RequestState.DENIED):
            return
        key = line.program, line.tool[:LONGEST_NAME], line.input_digest
        answers = self._given.pop(key, None) or deque(maxlen=MOST_ANSWERS)
        answers.append((line.time, line.decision == RequestState.APPROVED))
        self._given[key] = answers
        if len(self._given) > MOST_CALLS:
            self._given.popitem(last=False)

    def decisions(self, program: str, tool: str, input_digest: str, since: str) -> Checks:
        """How often that call was approved and denied, from `since` on, a time as the log writes it."""
        answers = self._given.get((program, tool[:LONGEST_NAME], input_digest), ())
        said = [approved for time, approved in answers if time >= since]
        return Checks(approved=said.count(True), denied=said.count(False))


# History and metrics, made of the log and nothing else: thrown away and made anew they are the same.
#
# A Projection holds what it has seen and reads on from there; `history`, `metrics` and `approvals` make one,
# use it and forget it. Memory does not grow with the log: only with the number of tools, callers and hours.


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
