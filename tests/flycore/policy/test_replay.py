"""Past calls from the log's lines, and what a draft says of them."""

from __future__ import annotations

from typing import Any

import pytest

from flycore.audit import events
from flycore.model.approval import Answer, LeaseTerms, MatchedRule, Verdict
from flycore.model.call import CallError, CallRequest, ToolResult
from flycore.model.enums import Choice, Code, Decision, Level, RequestState, Status
from flycore.model.json import MASK, JsonObject
from flycore.policy.replay import PastCall, past_calls, replay


def line(event: str, fields: JsonObject) -> JsonObject:
    return {"event": event, "time": "2030-01-01T00:00:00.000000Z", **fields}


ENDS = {
    "approved": (RequestState.APPROVED, Choice.APPROVE_ONCE),
    "lease-made": (RequestState.APPROVED, Choice.LEASE),
    "denied": (RequestState.DENIED, Choice.DENY),
    "timed-out": (RequestState.TIMED_OUT, None),
}


@pytest.fixture
def log(make_caller: Any, make_request: Any) -> Any:
    """Lines of one call as the kernel writes them, by how it ended."""

    def lines(call_id: str, end: str = "policy", input: Any = None) -> list[JsonObject]:
        caller = make_caller()
        call = CallRequest(call_id=call_id, tool="web.fetch", input={}, caller=caller)
        shown = {"url": "x"} if input is None else input
        found = [line("TOOL_CALLED", events.tool_called(call, shown, input_digest="d"))]
        card = make_request(call_id=call_id, tool="web.fetch")
        if end in ENDS:
            state, choice = ENDS[end]
            lease = LeaseTerms(minutes=5, calls=2) if choice is Choice.LEASE else None
            given = None if choice is None else Answer(choice=choice, lease=lease)
            found += [
                line("APPROVAL_ASKED", events.approval_asked(card)),
                line("APPROVAL_DECIDED", events.approval_decided(card, state, given, by="c", took_ms=1)),
            ]
        if end in ("approved", "policy", "lease", "lease-made"):
            authority = {"policy": "policy p:3", "lease": "lease 12"}.get(end, "request 12")
            started = events.tool_started(
                call, sidecar="s", subject="", input_digest="", level=Level.NONE, seal="", authority=authority
            )
            found.append(line("TOOL_STARTED", started))
        if end.startswith("code "):
            error = CallError(code=end.removeprefix("code "), message="m")
            result = ToolResult(
                status=Status.DENIED, tool="web.fetch", sidecar=None, call_id=call_id, error=error
            )
            found.append(line("TOOL_EXECUTED", events.tool_executed(result, caller)))
        return found

    return lines


@pytest.mark.parametrize(
    ("end", "was", "said"),
    [
        ("policy", "allowed by policy", "allow"),
        ("lease", "allowed by a lease", "ask"),
        ("approved", "approved by a person", "ask"),
        ("lease-made", "approved by a person (lease)", "ask"),
        ("denied", "denied by a person", "ask"),
        ("timed-out", "timed-out", "ask"),
        (f"code {Code.POLICY}", "denied by policy", "deny"),
        (f"code {Code.NO_APPROVER}", "not decided (no-approver)", "ask"),
        (f"code {Code.INVALID_INPUT}", "not decided (invalid-input)", None),
        ("", "not decided", None),
    ],
)
def test_how_a_call_was_decided(log: Any, end: str, was: str, said: str | None) -> None:
    [call] = past_calls(log("c1", end), 10)
    assert (call.was, call.policy_said) == (was, said)
    assert (call.tool, call.input, call.approximate) == ("web.fetch", {"url": "x"}, "")


def test_the_last_calls_in_order(log: Any) -> None:
    lines = [item for number in range(5) for item in log(f"c{number}")]
    assert [call.call_id for call in past_calls(lines, 2)] == ["c3", "c4"]
    assert past_calls([{"event": "UNREADABLE"}, {"callId": 7}, {}], 2) == ()
    assert past_calls(lines[1:2], 2) == ()


@pytest.mark.parametrize(
    ("input", "why"),
    [
        ({"body": "x" * 70_000}, "too large"),
        ({"password": f"{MASK}(8:0123abcd)"}, "redacted"),
        ({"deep": [{"a": [f"x {MASK}"]}]}, "redacted"),
        ({MASK: 1}, "redacted"),
        ({"plain": [1, None, {"a": "b"}]}, ""),
    ],
)
def test_what_the_log_does_not_hold_is_said(log: Any, input: Any, why: str) -> None:
    [call] = past_calls(log("c1", input=input), 1)
    assert why in call.approximate
    assert bool(call.approximate) == bool(why)
    assert (call.input is None) == (why == "too large")


def test_only_the_draft_s_rules_match(log: Any) -> None:
    said = {
        "c0": Verdict(decision=Decision.DENY, rules=(rule("deny", "/d.jsonc:3"), rule("ask", "/p.jsonc:1"))),
        "c1": Verdict(decision=Decision.ASK, rules=(rule("ask", "/p.jsonc:1"),)),
        "c2": Verdict(decision=Decision.ALLOW, rules=(rule("allow", "default"),)),
        "c3": None,
    }
    calls = past_calls([item for number in range(4) for item in log(f"c{number}")], 9)

    def judge(call: PastCall) -> Verdict | None:
        return said[call.call_id]

    drafted = replay(calls, judge, "/d.jsonc")
    assert [[item.where for item in found.matched] for found in drafted] == [["/d.jsonc:3"], [], [], []]
    assert [found.decision for found in drafted] == ["deny", "ask", "allow", None]
    assert [found.differs for found in drafted] == [True, True, False, False]
    assert [len(found.matched) for found in replay(calls, judge, None)] == [2, 1, 0, 0]


def rule(decision: str, where: str) -> MatchedRule:
    return MatchedRule(decision=Decision(decision), because="b", where=where)
