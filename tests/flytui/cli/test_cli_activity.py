"""`flytui activity` beside real calls: listed, shown, followed, cancelled."""

from __future__ import annotations

import json
import signal
from typing import Any

import jsonschema

from flycore.model.call import Activity, Caller, CallError, Progress, ToolResult
from flycore.model.enums import Phase, Status
from flytui.cli.call_text import bar, call_page, outcome_text, share_of
from flytui.cli.commands.schema import schema_of
from flytui.cli.follow import ChangeTracker
from kits.command_line import Desk, until

SLOW = ("call", "try.echo", "message=hi", "delayMs=60000", "--json")


def calls(desk: Desk) -> list[dict[str, Any]]:
    """The calls of the document."""
    found: list[dict[str, Any]] = desk.document("activity")["calls"]
    return found


def test_calls_of_earlier_kernels_are_listed_and_shown(trusted: Desk) -> None:
    assert "no call yet" in trusted.run("activity").stdout
    made = [trusted.document("call", "try.echo", f"message={word}") for word in ("one", "two")]
    trusted.end_kernel()
    document = trusted.document("activity", "list")
    jsonschema.validate(document, schema_of("activity"), jsonschema.Draft202012Validator)
    assert document["running"] is False
    assert {call["callId"] for call in document["calls"]} == {call["callId"] for call in made}
    heading, *rows = trusted.run("activity", "-n", "1").stdout.splitlines()
    assert heading.split() == ["ID", "STATE", "TOOL", "CALLER", "STARTED", "TOOK", "HOW"]
    assert [("✓ success" in row, "try.echo" in row) for row in rows] == [(True, True)]
    shown = trusted.run("activity", "show", made[1]["callId"])
    assert shown.returncode == 0
    assert '"message": "two"' in shown.stdout
    assert trusted.run("activity", "show", "nothing-like-it").returncode == 3
    assert trusted.run("activity", "cancel", made[0]["callId"]).returncode == 3
    assert trusted.run("activity", "--follow").returncode == 3


def test_a_running_call_is_followed_and_cancelled_from_another_process(trusted: Desk) -> None:
    call = trusted.start(*SLOW)
    until("the call runs", lambda: [each["phase"] for each in calls(trusted)] == ["running"])
    with trusted.terminal("activity", "--follow") as shown:
        shown.until("▶ running")
        (under_way,) = calls(trusted)
        done = trusted.run("activity", "cancel", under_way["callId"][-8:])
        assert done.returncode == 0, done.stderr
        shown.until("cancelled")
        trusted.end_kernel()
        assert shown.end() == 0
    said, _ = call.communicate(timeout=60)
    assert json.loads(said)["error"]["code"] == "cancelled"
    assert call.returncode == 130
    assert [each["result"]["error"]["code"] for each in calls(trusted)] == ["cancelled"]
    assert trusted.survivors() == []


def test_following_ends_with_an_interrupt(trusted: Desk) -> None:
    call = trusted.start(*SLOW)
    until("the call runs", lambda: [each["phase"] for each in calls(trusted)] == ["running"])
    with trusted.terminal("activity", "--follow") as shown:
        shown.until("▶ running")
        shown.process.send_signal(signal.SIGINT)
        assert shown.end() == 130
    call.send_signal(signal.SIGTERM)
    call.communicate(timeout=60)


def activity(**fields: Any) -> Activity:
    """A call of that kind."""
    kept = {"call_id": "c-1", "phase": Phase.RUNNING, "started_at": 100.0, **fields}
    return Activity(tool="t", sidecar="s", caller=Caller(door="socket", program="p"), **kept)


def test_how_far_a_call_is_stands_in_words_and_cells() -> None:
    half = Progress(call_id="c-1", phase=Phase.RUNNING, progress=2, total=4, message="page 2")
    assert share_of(half) == 0.5
    assert bar(0.5) == "████████░░░░░░░░"
    assert (bar(0.0), bar(1.0)) == ("░" * 16, "█" * 16)
    assert outcome_text(activity(progress=half)) == "50% page 2"


def test_only_what_is_new_is_told() -> None:
    told, ended = ChangeTracker(), ToolResult(status=Status.SUCCESS, tool="t", sidecar="s", call_id="c-1")
    running, other = activity(), activity(call_id="c-2")
    assert list(told.changed_calls((other, running))) == [running, other]
    assert list(told.changed_calls((other, running))) == []
    done = activity(phase=Phase.FINISHED, result=ended)
    assert list(told.changed_calls((other, done))) == [done]


def test_a_page_lets_no_text_from_outside_begin_a_line() -> None:
    error = CallError(code="failed", message="x\nstate     ✓ success")
    result = ToolResult(status=Status.FAILED, tool="t", sidecar="s", call_id="c-1", error=error)
    page = "\n".join(call_page(activity(phase=Phase.FINISHED, result=result, input_text="{}"), 101.0))
    assert [line for line in page.split("\n") if line.startswith("state")] == ["state     ✗ failed"]
