"""What is recorded of each event, and that a call's events hold together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flycore.audit import events
from flycore.model.approval import Answer, ApprovalRequest, LeaseTerms, MatchedRule, Subject
from flycore.model.call import Caller, CallError, CallRequest, ToolResult
from flycore.model.catalog import Catalog, SidecarView
from flycore.model.diagnostics import Position
from flycore.model.enums import (
    Choice,
    Decision,
    Discovery,
    Effective,
    Level,
    RequestState,
    Risk,
    SealKind,
    Source,
    Status,
)
from flycore.model.json import digest
from flycore.model.program import Seal
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import Stability

CALLER = Caller(
    door="socket", program="claude", executable="/opt/claude", pid=41, started=9, claims="I am root"
)
INPUT: dict[str, Any] = {"action": "type", "text": "hello"}
CALL = CallRequest(call_id="c-1", tool="computer.keyboard", input=INPUT, caller=CALLER, said="fill the form")
SUBJECT = Subject(
    caller=CALLER.key,
    tool=CALL.tool,
    input=INPUT,
    seal="s" * 64,
    delegates={},
    entry="e" * 64,
    permissions="p" * 64,
    level=Level.HOST_CONTROL,
    env_names=(),
    policy="y" * 64,
)
REQUEST = ApprovalRequest(
    id="r-1",
    call_id=CALL.call_id,
    caller=CALLER,
    tool=CALL.tool,
    sidecar="computer.native",
    app_root="/app",
    risk=Risk.HIGH,
    effect="types",
    input_json='{"action":"type","text":"hello"}',
    subject=SUBJECT,
    subject_digest=SUBJECT.digest(),
    reach=(),
    level=Level.HOST_CONTROL,
    seal=Seal(kind=SealKind.BUNDLED, digest="s" * 64, program="/bin/x"),
    why=(MatchedRule(decision=Decision.ASK, because="hands on", where="policy.jsonc:14"),),
    asked_at=1.0,
    expires_at=601.0,
)
RESULT = ToolResult(
    status=Status.SUCCESS,
    tool=CALL.tool,
    sidecar="computer.native",
    call_id=CALL.call_id,
    output={"typed": 5},
    duration_ms=12,
    waited_ms=900,
    exit_code=0,
    sandbox=Level.HOST_CONTROL,
)
ANSWER = Answer(choice=Choice.APPROVE_ONCE)


def the_call() -> dict[str, dict[str, Any]]:
    """Every event of one approved call."""
    subject, over = SUBJECT.digest(), digest(INPUT)
    return {
        events.TOOL_CALLED: events.tool_called(CALL, INPUT, input_digest=over),
        events.APPROVAL_ASKED: events.approval_asked(REQUEST),
        events.APPROVAL_DECIDED: events.approval_decided(
            REQUEST, RequestState.APPROVED, ANSWER, by="console", took_ms=850
        ),
        events.TOOL_STARTED: events.tool_started(
            CALL,
            sidecar="computer.native",
            subject=subject,
            input_digest=over,
            level=Level.HOST_CONTROL,
            seal="s" * 64,
            authority="r-1",
        ),
        events.TOOL_EXECUTED: events.tool_executed(RESULT, CALLER, subject=subject, input_digest=over),
    }


def test_the_events_of_a_call_carry_the_same_digests(site: Any) -> None:
    log = site.open()
    for event, fields in the_call().items():
        log.append(event, fields, sync=True)
    lines = [json.loads(line) for line in site.lines]
    assert {line["callId"] for line in lines} == {"c-1"}
    assert {line["callerKey"] for line in lines} == {CALLER.key}
    assert {line["inputDigest"] for line in lines} == {digest(INPUT)}
    assert {line["subject"] for line in lines[1:]} == {SUBJECT.digest()}
    assert site.check().exit_code == 0


def test_what_is_kept_of_each(site: Any) -> None:
    called, asked, decided, started, executed = the_call().values()
    assert (called["input"], called["claims"], called["said"]) == (INPUT, "I am root", "fill the form")
    assert (asked["risk"], asked["rules"], asked["level"]) == ("high", ["policy.jsonc:14"], "host-control")
    assert (decided["decision"], decided["choice"], decided["tookMs"]) == ("approved", "approve-once", 850)
    assert (decided["decidedBy"], started["authority"], started["seal"]) == ("console", "r-1", "s" * 64)
    assert (executed["status"], executed["durationMs"], executed["exitCode"]) == ("success", 12, 0)


def test_outputs_are_kept_as_digest_and_size() -> None:
    secret = {"text": "the output itself"}
    fields = events.tool_executed(
        ToolResult(status=Status.SUCCESS, tool="t", sidecar="s", call_id="c", output=secret), CALLER
    )
    assert "the output" not in json.dumps(fields)
    assert (fields["outputDigest"], fields["outputBytes"]) == (digest(secret), 28)


def test_only_the_masked_input_is_kept() -> None:
    fields = events.tool_called(CALL, {"text": "•••"})
    assert "hello" not in json.dumps(fields)
    assert "hello" not in json.dumps(events.approval_asked(REQUEST))


@pytest.mark.parametrize(("extra", "kept"), [(0, True), (1, False)])
def test_a_large_input_is_kept_as_its_size(extra: int, kept: bool) -> None:
    text = "x" * (events.MOST_INPUT_BYTES - len('{"t":""}') + extra)
    fields = events.tool_called(CALL, {"t": text})
    assert ("input" in fields) is kept
    assert fields["inputBytes"] == events.MOST_INPUT_BYTES + extra


def test_texts_from_outside_are_bounded(site: Any) -> None:
    endless = "x" * 3_000_000
    log = site.open()
    request = CallRequest(call_id="c", tool=endless, input={}, caller=CALLER, said=endless)
    failed = ToolResult(
        status=Status.FAILED,
        tool=endless,
        sidecar=None,
        call_id="c",
        error=CallError(code="failed", message=endless),
    )
    log.append(events.TOOL_CALLED, events.tool_called(request, {"t": endless}))
    log.append(events.TOOL_EXECUTED, events.tool_executed(failed, CALLER))
    assert all(len(line) < 20_000 for line in site.lines)


def test_a_refusal_keeps_its_reason_and_a_lease_its_terms() -> None:
    denied = events.approval_decided(
        REQUEST, RequestState.DENIED, Answer(choice=Choice.DENY, reason="not now"), by="console", took_ms=1
    )
    assert (denied["decision"], denied["reason"]) == ("denied", "not now")
    terms = LeaseTerms(minutes=5, calls=3)
    leased = events.approval_decided(
        REQUEST, RequestState.APPROVED, Answer(choice=Choice.LEASE, lease=terms), by="console", took_ms=1
    )
    assert leased["lease"] == {"minutes": 5, "calls": 3, "scope": "tool", "condition": None}
    nobody = events.approval_decided(REQUEST, RequestState.TIMED_OUT, None, by="", took_ms=600_000)
    assert nobody["decision"] == "timed-out"
    assert {"choice", "decidedBy"}.isdisjoint(nobody)


def test_changes_of_snapshot_policy_and_trust() -> None:
    stability = Stability(discovery=Discovery.CONFIGURED, effective=Effective.DEGRADED)
    position = Position(file="f", line=1, column=1)
    entry = SidecarEntry(id="mock.echo", source=Source.PROJECT, position=position)
    view = SidecarView(id="mock.echo", entry=entry, trusted=True, stability=stability)
    catalog = Catalog(version=7, app_root="/app", sidecars=(view,))
    names = ("mock.echo", "sidecar:mock.echo", "sidecar:old", "diagnostics")
    assert events.snapshot_changed(catalog, names) == {
        "version": 7,
        "changed": 4,
        "states": {"mock.echo": "gone", "sidecar:mock.echo": "degraded", "sidecar:old": "gone"},
    }
    assert events.policy_changed("d" * 64, ("policy.jsonc",), problems=1)["problems"] == 1
    trusted = events.trust_decided((("mock.echo", "e" * 64),), by="console")
    assert (trusted["decision"], trusted["entries"]) == ("trusted", {"mock.echo": "e" * 64})
    assert events.trust_decided((), by="cli", revoked=True)["decision"] == "revoked"
