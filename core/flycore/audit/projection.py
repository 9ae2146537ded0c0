"""Projections of the audit log: the history of calls, metrics, and a person's past decisions.

A projection is computed from the log alone, so a new one over the same log has the same content. Its memory
grows with the number of tools, callers and hours, not with the length of the log.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from pathlib import Path
from statistics import median

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
from flycore.model.approval import Checks, NamedPlaces, PastUse
from flycore.model.audit import ApprovalReport, Metrics
from flycore.model.base import Value
from flycore.model.caller import Caller
from flycore.model.enums import RequestState

MOST_RECORDS = 1_000
"""Ended calls that a Projection keeps one by one."""
MOST_CALLERS = 256
"""Callers whose own metrics are kept; beyond this the one without a call for longest is dropped."""
_ENDS = (TOOL_EXECUTED, TOOL_OUTCOME_UNKNOWN)
_OF_A_CALL = frozenset((TOOL_CALLED, APPROVAL_ASKED, APPROVAL_DECIDED, TOOL_STARTED, *_ENDS))


class Projection:
    """A summary of one folder's log up to line `seq`. Only `update` reads from disk."""

    def __init__(
        self,
        folder: Path,
        span: TimeRange = ALL_TIME,
        *,
        max_calls: int = MOST_RECORDS,
        tool: str = "",
        caller: str = "",
    ) -> None:
        self._folder, self._span = folder, span
        self._max_calls, self._tool, self._caller = max_calls, tool, caller
        self._lines = self._unreadable = 0
        self.seq = 0
        """The number of the last line that was read."""
        self._reset()

    def update(self) -> None:
        """Read the new lines, or all lines if the log was replaced. Raises OSError."""
        if self._follower.replaced():
            self._reset()
        for raw in self._follower.lines():
            self.add_line(raw)

    def add_line(self, raw: bytes) -> None:
        """Take one more line, without newline; a Projection that gets every line so needs no `update`."""
        line = read_line(raw)
        if line is None or not line.event:
            self.seq += 1  # the log numbers its lines without gaps
            self._unreadable += 1
            return
        self.seq = line.seq
        if self._span.covers(line.time):
            self._add_record(line)

    def history(self, limit: int = MOST_RECORDS) -> tuple[CallRecord, ...]:
        """Return the calls under way, then the calls that ended, each newest first."""
        return self._history.records(limit)

    def unfinished(self) -> tuple[CallRecord, ...]:
        """Return the calls that started and have not ended, oldest first."""
        return self._history.unfinished()

    def metrics(self) -> Metrics:
        """Return the metrics of each tool."""
        return Metrics(
            since=self._since,
            until=self._until,
            lines=self._lines,
            unreadable=self._unreadable,
            tools=self._tools.metrics(self._history.open_calls()),
        )

    def metrics_of(self, caller_key: str) -> Metrics:
        """Return the metrics of each tool over one caller's calls, without any number of other callers."""
        tools = self._callers.get(caller_key[:LONGEST_NAME]) or ToolTallies()
        return Metrics(
            since="",
            until="",
            lines=0,
            unreadable=0,
            tools=tools.metrics(self._history.open_calls(caller_key)),
        )

    def approvals(self) -> ApprovalReport:
        """Report how often a person was asked, in total and per caller and tool."""
        return ApprovalReport(total=self._fatigue.all(), pairs=self._fatigue.pairs())

    def past_decisions(self, caller: Caller, tool: str, input_digest: str, since: str) -> Checks:
        """Count a person's decisions on that very call of that program since a time of the log."""
        return self._decisions.decisions(_caller_of(caller.key, caller.name), tool, input_digest, since)

    def past_use(self, tool: str, named: NamedPlaces) -> PastUse:
        """Compare places that a call names, and its tool, with the calls that have started."""
        return self._places.past_use(tool, named)

    def _reset(self) -> None:
        self.seq = 0
        self._places = PastPlaces()
        self._decisions = PastDecisions()
        self._follower = Follower(self._folder)
        self._history = History(self._max_calls, self._tool, self._caller)
        self._tools = ToolTallies()
        self._callers: OrderedDict[str, ToolTallies] = OrderedDict()
        self._fatigue = ApprovalFatigue()
        self._since = self._until = ""
        self._lines = self._unreadable = 0

    def _add_record(self, line: LogRecord) -> None:
        self._since = self._since or line.time
        self._until = line.time
        self._lines += 1
        if line.event == APPROVAL_ASKED:
            self._fatigue.add_request(line)
        elif line.event == APPROVAL_DECIDED:
            self._fatigue.add_decision(line)
            self._decisions.add(line)
        elif line.event == TOOL_STARTED:
            self._places.add(line)
        elif line.event in _ENDS:
            self._tools.add(line)
            self._tallies_of(line.caller_key[:LONGEST_NAME]).add(line)
        if line.event in _OF_A_CALL:
            self._history.add(line)

    def _tallies_of(self, key: str) -> ToolTallies:
        tallies = self._callers.pop(key, None) or ToolTallies()
        self._callers[key] = tallies
        if len(self._callers) > MOST_CALLERS:
            self._callers.popitem(last=False)
        return tallies


def history(
    folder: Path, *, limit: int = 100, tool: str = "", caller: str = "", span: TimeRange = ALL_TIME
) -> tuple[CallRecord, ...]:
    """Read the latest calls, newest first: of all, of one tool, or of one caller.

    `caller` is a caller key, or its door and program alone. Raises OSError.
    """
    projection = Projection(folder, span, max_calls=limit, tool=tool, caller=caller)
    projection.update()
    return projection.history(limit)


def metrics(folder: Path, span: TimeRange = ALL_TIME) -> Metrics:
    """Compute the metrics of each tool from the log. Raises OSError."""
    projection = Projection(folder, span, max_calls=0)
    projection.update()
    return projection.metrics()


def approvals(folder: Path, span: TimeRange = ALL_TIME) -> ApprovalReport:
    """Report how often a person was asked, from the log. Raises OSError."""
    projection = Projection(folder, span, max_calls=0)
    projection.update()
    return projection.approvals()


# The history of calls.


MOST_OPEN = 10_000
"""Unfinished calls that are kept; beyond this the oldest are dropped."""
PLAN_AUTHORITY = "its steps"
"""The `authority` of a plan that has begun a step."""
MOST_VALUE_CHARS = 4_096
"""Characters of one input or output that are kept with its call; `flytui audit show` has all of it."""


class CallRecord(Value, frozen=True, kw_only=True):
    """One call, built from the log lines with its id. Times are texts as the log writes them."""

    call_id: str
    tool: str
    caller: str
    caller_key: str
    called_at: str
    ended_at: str = ""
    """Empty while the call runs, and if the kernel was killed before it ended."""
    sidecar: str = ""
    status: str = ""
    code: str = ""
    message: str = ""
    risk: str = ""
    decision: str = ""
    """`approved`, `denied`, `timed-out` or `withdrawn`; empty if nobody was asked."""
    decided_by: str = ""
    reason: str = ""
    """The reason a person gave for denying it."""
    took_ms: int = 0
    """Milliseconds from the request to the decision."""
    authority: str = ""
    """What permitted the call: a request, a lease or a rule."""
    level: str = ""
    parent_call_id: str = ""
    """The call id of the plan that this call is a step of; empty if it is none."""
    duration_ms: int = 0
    waited_ms: int = 0
    input: str = ""
    """The redacted JSON of the log, cut after `MOST_VALUE_CHARS` bytes."""
    output: str = ""
    """The JSON of the log; empty if outputs are not logged or this one is longer than `MOST_VALUE_CHARS`."""


class History:
    """The calls that have not ended, and the `limit` latest that have, of one tool or caller or of all."""

    def __init__(self, limit: int, tool: str = "", caller: str = "") -> None:
        self._tool, self._caller = tool, caller
        self._open: OrderedDict[str, CallRecord] = OrderedDict()
        self._ended: deque[CallRecord] = deque(maxlen=limit)

    def add(self, line: LogRecord) -> None:
        """Take one more line of a call."""
        known = self._open.get(line.call_id)
        if known is None and line.event in (events.APPROVAL_ASKED, events.APPROVAL_DECIDED):
            return  # the call has ended with a ticket for its caller; the request was answered later
        is_end = line.event in _ENDS
        if is_end and not self._ended.maxlen:
            self._open.pop(line.call_id, None)
            return  # a summary, which keeps no calls that have ended
        record = known or _new_record(line)
        if is_end:
            self._open.pop(line.call_id, None)
            if self._tool in ("", record.tool) and self._caller in ("", record.caller_key, line.program):
                self._ended.append(_finished_record(record, line))
            return
        self._open[line.call_id] = _updated_record(record, line)
        plan = self._open.get(line.parent_call_id)
        if plan is not None and line.event == events.TOOL_STARTED:
            self._open[line.parent_call_id] = msgspec.structs.replace(plan, authority=PLAN_AUTHORITY)
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)

    def records(self, limit: int) -> tuple[CallRecord, ...]:
        """Return the calls under way, then the calls that ended, each newest first."""
        under_way = [
            record
            for record in reversed(self._open.values())
            if self._tool in ("", record.tool) and self._caller in ("", record.caller_key)
        ]
        return tuple([*under_way, *reversed(self._ended)][:limit])

    def unfinished(self) -> tuple[CallRecord, ...]:
        """Return the calls that started and have not ended, oldest first."""
        return tuple(record for record in self._open.values() if record.authority)

    def open_calls(self, caller_key: str = "") -> Counter[str]:
        """Count the calls that have not ended by tool, of one caller or of all."""
        return Counter(
            record.tool[:LONGEST_NAME]
            for record in self._open.values()
            if caller_key in ("", record.caller_key)
        )


def _new_record(line: LogRecord) -> CallRecord:
    return CallRecord(
        call_id=line.call_id,
        tool=line.tool,
        caller=line.caller,
        caller_key=line.caller_key,
        called_at=line.time,
        parent_call_id=line.parent_call_id,
        input=bytes(line.input)[:MOST_VALUE_CHARS].decode("utf-8", "replace"),
    )


def _updated_record(record: CallRecord, line: LogRecord) -> CallRecord:
    """Return the record with the fields of this line."""
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


def _finished_record(record: CallRecord, line: LogRecord) -> CallRecord:
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
        output=bytes(line.output).decode("utf-8", "replace")
        if len(bytes(line.output)) <= MOST_VALUE_CHARS
        else "",
    )


# Past decisions on equal calls: the same caller, tool and input.


MOST_DECIDED_CALLS = 10_000
"""Different calls that are kept; beyond this the call with the oldest decision is dropped."""
MOST_DECISIONS = 100
"""Decisions kept for one call: a card that shows 100 of them needs no higher number."""
_CallKey = tuple[str, str, str]


def _caller_of(key: str, name: str) -> str:
    """The caller as its decisions are counted: its program and its own name, without the process."""
    # One interpreter runs many scripts, and the decision on one of them says nothing about another.
    return f"{program_of(key)} {name[:LONGEST_NAME]}"


class PastDecisions:
    """A person's decisions, by caller, tool and input digest."""

    def __init__(self) -> None:
        self._by_call: OrderedDict[_CallKey, deque[tuple[str, bool]]] = OrderedDict()

    def add(self, line: LogRecord) -> None:
        """Take the line of a decided request. Only an answer by a person has a choice; others are skipped."""
        if not line.choice or line.decision not in (RequestState.APPROVED, RequestState.DENIED):
            return
        key = _caller_of(line.caller_key, line.caller_name), line.tool[:LONGEST_NAME], line.input_digest
        decisions = self._by_call.pop(key, None) or deque(maxlen=MOST_DECISIONS)
        decisions.append((line.time, line.decision == RequestState.APPROVED))
        self._by_call[key] = decisions  # put back at the end: the first key is the one decided longest ago
        if len(self._by_call) > MOST_DECIDED_CALLS:
            self._by_call.popitem(last=False)

    def decisions(self, caller: str, tool: str, input_digest: str, since: str) -> Checks:
        """Count the approvals and denials of that call since a time, written as in the log."""
        decisions = self._by_call.get((caller, tool[:LONGEST_NAME], input_digest), ())
        approved = [approved for time, approved in decisions if time >= since]
        return Checks(approved=approved.count(True), denied=approved.count(False))


# What calls from this root have named before, and how large the inputs of a tool are.


MOST_PLACES = 5_000
"""Hosts, and folders, that are kept; beyond this the one that was named longest ago is dropped."""
MOST_SIZES = 25
"""Sizes of inputs that are kept for one tool."""
LEAST_SIZES = 5
"""From so many sizes on, a tool has a usual one."""


class _ToolUse:
    """The seal that was approved last for a tool, and the sizes of its latest inputs."""

    def __init__(self) -> None:
        self.approved_seal = ""
        self.sizes: deque[int] = deque(maxlen=MOST_SIZES)


class PastPlaces:
    """Hosts and folders that calls have named, and the latest use of each tool."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, None] = OrderedDict()
        self._folders: OrderedDict[str, None] = OrderedDict()
        self._tools: OrderedDict[str, _ToolUse] = OrderedDict()

    def add(self, line: LogRecord) -> None:
        """Take the line of a started call. A call that was denied has none, and makes nothing familiar."""
        for known, names in ((self._hosts, line.hosts), (self._folders, line.folders)):
            for name in names:
                known.pop(name, None)
                known[name[:LONGEST_NAME]] = None
                if len(known) > MOST_PLACES:
                    known.popitem(last=False)
        key = line.tool[:LONGEST_NAME]
        use = self._tools.pop(key, None) or _ToolUse()
        self._tools[key] = use
        if len(self._tools) > MOST_DECIDED_CALLS:
            self._tools.popitem(last=False)
        if line.seal and line.authority.startswith(_BY_PERSON):
            use.approved_seal = line.seal
        if line.input_bytes > 0:
            use.sizes.append(line.input_bytes)

    def past_use(self, tool: str, named: NamedPlaces) -> PastUse:
        """Compare a call with those that have started."""
        use = self._tools.get(tool[:LONGEST_NAME]) or _ToolUse()
        usual = int(median(use.sizes)) if len(use.sizes) >= LEAST_SIZES else 0
        return PastUse(
            new_hosts=tuple(name for name in named.hosts if name not in self._hosts),
            new_folders=tuple(name for name in named.folders if name not in self._folders),
            approved_seal=use.approved_seal,
            usual_bytes=usual,
        )


_BY_PERSON = "request "
"""What `authority` begins with where a person approved the very call."""
