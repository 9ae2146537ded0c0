"""The replay of past calls on a policy: what it would decide now, beside what was decided then.

The calls come from the lines of the audit log. Where the log does not hold a call's whole input, because
parts were masked or it was too large, the answer is approximate and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flycore.model.approval import MatchedRule, Verdict
from flycore.model.base import Value
from flycore.model.call import Caller
from flycore.model.caller import parse_caller_key
from flycore.model.enums import Code, Decision
from flycore.model.json import MASK, Json, JsonObject
from flycore.policy.default_decision import NOT_RULES


class PastCall(Value, frozen=True, kw_only=True):
    """One call as the audit log recorded it."""

    call_id: str
    at: str
    """The time of its line, ISO 8601."""
    tool: str
    caller: Caller
    input: JsonObject | None
    """None where the log holds only the digest and the size of the input."""
    was: str
    """How it was decided, such as `allowed by policy`, `approved by a person` or `denied by a person`."""
    policy_said: Decision | None = None
    """What policy decided then; None where the call ended before policy was evaluated."""
    approximate: str = ""
    """Why the replayed decision may be wrong; empty where it is exact."""


class Replayed(Value, frozen=True, kw_only=True):
    """A past call and what the policy decides about it now."""

    call: PastCall
    matched: tuple[MatchedRule, ...]
    """Rules of the draft that apply to it; empty where the default or another file decides."""
    decision: Decision | None
    """The decision now; None where no rule matches and the tool is no longer there."""

    @property
    def differs(self) -> bool:
        """Whether policy now decides otherwise than it did then."""
        before = self.call.policy_said
        return before is not None and self.decision is not None and before is not self.decision


Judge = Callable[[PastCall], Verdict | None]
"""Returns the verdict on a past call; None where no rule matches and the tool is no longer there."""


def past_calls(lines: Iterable[JsonObject], count: int) -> tuple[PastCall, ...]:
    """Return the last `count` calls among the lines of the log (oldest first), each with how it ended."""
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
    """Return what `judge` decides about each call. `draft_file` is the path of the draft, whose rules are
    listed as matched; None where all files together are the draft."""
    return tuple(_replayed(call, judge(call), draft_file) for call in calls)


def _replayed(call: PastCall, verdict: Verdict | None, draft_file: str | None) -> Replayed:
    if verdict is None:
        return Replayed(call=call, matched=(), decision=None)
    rules = (rule for rule in verdict.rules if rule.where not in NOT_RULES)
    matched = tuple(
        rule for rule in rules if draft_file is None or rule.where.rpartition(":")[0] == draft_file
    )
    return Replayed(call=call, matched=matched, decision=verdict.decision)


def _past(call_id: str, line: JsonObject, ends: dict[str, JsonObject]) -> PastCall:
    value = line.get("input")
    known = value if isinstance(value, dict) else None
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
    """Return in words how a call was decided, from the lines that followed it."""
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
    """Return what policy decided then. A person's answer or a lease means that policy asked."""
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
