"""What a policy would have said of calls that were really made, beside what was decided then.

The calls come from the audit log's lines. What the log does not hold whole (inputs that were masked or too
large, callers by their identity alone) makes an answer approximate, and it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flycore.model.approval import MatchedRule, Verdict
from flycore.model.base import Value
from flycore.model.call import Caller
from flycore.model.caller import parse_caller_key
from flycore.model.enums import Code, Decision
from flycore.model.json import MASK, Json, JsonObject
from flycore.policy.default_decision import DEFAULT


class PastCall(Value, frozen=True, kw_only=True):
    """One call as the log has it."""

    call_id: str
    at: str
    """The line's time, ISO 8601."""
    tool: str
    caller: Caller
    input: JsonObject | None
    """None where the log holds its digest and size alone."""
    was: str
    """How it was decided: `allowed by policy`, `approved by a person`, `denied by a person`, …"""
    policy_said: Decision | None = None
    """What policy decided then; None where the call ended before policy was asked."""
    approximate: str = ""
    """Why the answer may differ from what the policy would have said; empty where it would not."""


class Replayed(Value, frozen=True, kw_only=True):
    """A past call and what the draft says of it."""

    call: PastCall
    matched: tuple[MatchedRule, ...]
    """Rules of the draft that are about it; empty where only the default, or another file, speaks."""
    decision: Decision | None
    """What would be decided; None where no rule matches and the tool is no longer there."""

    @property
    def differs(self) -> bool:
        """Whether policy would now decide otherwise than it did."""
        said = self.call.policy_said
        return said is not None and self.decision is not None and said is not self.decision


Judge = Callable[[PastCall], Verdict | None]


def past_calls(lines: Iterable[JsonObject], count: int) -> tuple[PastCall, ...]:
    """The last `count` calls among the log's lines (oldest first), each with how it ended."""
    called: dict[str, JsonObject] = {}
    ends: dict[str, dict[str, JsonObject]] = {}
    for line in lines:
        call_id, event = _text(line, "callId"), _text(line, "event")
        if event == "TOOL_CALLED" and call_id:
            called[call_id] = line
            ends[call_id] = {}
        elif call_id in ends:
            ends[call_id][event] = line
    chosen = list(called)[-count:]
    return tuple(_past(call_id, called[call_id], ends[call_id]) for call_id in chosen)


def replay(calls: Iterable[PastCall], judge: Judge, draft_file: str | None) -> tuple[Replayed, ...]:
    """Ask `judge` about each call. `draft_file` tells the draft's rules by their place; None where all
    files together are the draft."""
    return tuple(_replayed(call, judge(call), draft_file) for call in calls)


def _replayed(call: PastCall, verdict: Verdict | None, draft_file: str | None) -> Replayed:
    if verdict is None:
        return Replayed(call=call, matched=(), decision=None)
    said = (rule for rule in verdict.rules if rule.where != DEFAULT)
    matched = tuple(
        rule for rule in said if draft_file is None or rule.where.rpartition(":")[0] == draft_file
    )
    return Replayed(call=call, matched=matched, decision=verdict.decision)


def _past(call_id: str, line: JsonObject, ends: dict[str, JsonObject]) -> PastCall:
    given = line.get("input")
    known = given if isinstance(given, dict) else None
    return PastCall(
        call_id=call_id,
        at=_text(line, "time"),
        tool=_text(line, "tool"),
        caller=parse_caller_key(_text(line, "callerKey")),
        input=known,
        was=_earlier_outcome(ends),
        policy_said=_earlier_verdict(ends),
        approximate=_approximate(line, known),
    )


def _approximate(line: JsonObject, known: JsonObject | None) -> str:
    if known is None:
        return "the input was too large for the log"
    if _masked(known):
        return "parts of the input were redacted"
    return ""


def _earlier_outcome(ends: dict[str, JsonObject]) -> str:
    """In words, from the lines that followed the call."""
    decided, started = ends.get("APPROVAL_DECIDED"), ends.get("TOOL_STARTED")
    if decided is not None:
        state = _text(decided, "decision")
        who = f"{state} by a person" if state in ("approved", "denied") and "choice" in decided else state
        return f"{who} ({_text(decided, 'choice')})" if _text(decided, "choice") == "lease" else who
    if started is not None:
        kind = _text(started, "authority").partition(" ")[0]
        return {"policy": "allowed by policy", "lease": "allowed by a lease"}.get(kind, "allowed")
    executed = ends.get("TOOL_EXECUTED")
    if executed is None:
        return "not decided"
    code = _code(ends)
    return "denied by policy" if code == Code.POLICY else f"not decided ({code or _text(executed, 'status')})"


def _earlier_verdict(ends: dict[str, JsonObject]) -> Decision | None:
    """An answer, or a lease, means that policy asked."""
    if "APPROVAL_ASKED" in ends:
        return Decision.ASK
    if "TOOL_STARTED" in ends:
        allowed = _text(ends["TOOL_STARTED"], "authority").startswith("policy ")
        return Decision.ALLOW if allowed else Decision.ASK
    code = _code(ends)
    if code == Code.POLICY:
        return Decision.DENY
    return Decision.ASK if code == Code.NO_APPROVER else None


def _code(ends: dict[str, JsonObject]) -> str:
    return _text(ends.get("TOOL_EXECUTED", {}), "code")


def _masked(value: Json) -> bool:
    if isinstance(value, str):
        return MASK in value
    if isinstance(value, dict):
        return any(MASK in key or _masked(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_masked, value))


def _text(line: JsonObject, key: str) -> str:
    value = line.get(key)
    return value if isinstance(value, str) else ""
