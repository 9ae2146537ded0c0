"""What a kernel knows of the past is the log's and nobody else's, and survives it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import anyio
import pytest

from flycore.client.client import connect_unix
from flycore.kernel.call_history import CallHistory
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask
from flycore.model.enums import Choice, Code, RequestState, Status
from kits.kernel import (
    Root,
    a_caller,
    answered_call,
    approved_call,
    approver_of,
    kernel_of,
    request,
    tool,
    until,
)
from kits.unix_socket import served

pytestmark = pytest.mark.anyio
SECRET = "hunter2-and-more"
SAYS = """#!/bin/sh
read -r request
printf '{"ok": true, "password": "%s", "note": "plain"}\\n' hunter2-and-more
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("say", SAYS, tool("say.do"), tool("say.free", risk="low"))
    made.policy({"tool": "say.free", "decision": "allow", "because": "test"})
    return made


async def deny(kernel: Kernel, ask: Ask) -> None:
    answer = Answer(choice=Choice.DENY)
    assert (await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)).accepted


async def test_finished_calls_outlive_the_kernel_with_their_inputs_redacted(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await kernel.call(request(kernel, "say.free", {"apiKey": SECRET, "n": 1}))
        await kernel.call(request(kernel, "say.free", {"n": 2}))
    async with kernel_of(root) as kernel:
        await kernel.call_history.ready()
        calls = kernel.activity()
        assert [json.loads(call.input_text)["n"] for call in calls] == [2, 1]
        assert SECRET not in str(calls)
        assert [call.caller for call in calls] == [a_caller()] * 2
        result = calls[0].result
        assert result is not None
        assert result.status is Status.SUCCESS
        assert result.output is None
        await kernel.call(request(kernel, "say.free", {"n": 3}))
        now = kernel.activity()
        assert [json.loads(call.input_text)["n"] for call in now] == [3, 2, 1]
        assert now[0].result is not None
        assert now[0].result.output is not None


async def test_a_call_says_who_decided_and_how_fast_also_after_its_kernel(root: Root) -> None:
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        group.start_soon(kernel.call, request(kernel, "say.do", {"n": 1}))
        await until(lambda: kernel.asks())
        await deny(kernel, kernel.asks()[0])
        await until(lambda: kernel.activity()[0].result is not None)
        live = kernel.activity()[0].decision
        await kernel.call(request(kernel, "say.free", {"n": 2}))
        free = kernel.activity()[0]
        assert (free.decision, free.authority.partition(" ")[0]) == (None, "policy")
    assert live is not None
    assert live.outcome is RequestState.DENIED
    assert "console" in live.by
    assert live.took_ms >= 0
    async with kernel_of(root) as kernel:
        await kernel.call_history.ready()
        assert [call.decision for call in kernel.activity()] == [None, live]


async def test_a_call_that_no_kernel_ended_is_told_as_unknown(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await kernel.call(request(kernel, "say.free", {}))
    [log] = (root.places.audit_dir).glob("*.jsonl")
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if "TOOL_EXECUTED" not in line))
    made = CallHistory(log.parent, _Clock(), lambda event: None)
    await made.run()
    [call] = made.calls(())
    assert call.result is not None
    assert call.result.error is not None
    assert (call.result.status, call.result.error.code) == (Status.UNKNOWN, Code.OUTCOME_UNKNOWN)


class _Clock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


async def test_lines_written_while_the_log_is_read_are_taken_once(root: Root) -> None:
    async with kernel_of(root) as kernel:
        for _ in range(5):
            await kernel.call(request(kernel, "say.free", {}))
    [log] = (root.places.audit_dir).glob("*.jsonl")
    made = CallHistory(log.parent, _Clock(), lambda event: None)
    lines = log.read_bytes().splitlines()
    for seq, line in list(enumerate(lines, 1))[-7:]:
        made.on_line(seq, line)
    await made.run()
    [metrics] = made.metrics().tools
    assert (metrics.calls, metrics.success, made.metrics().lines) == (5, 5, len(lines))


async def test_what_is_kept_live_is_what_is_read_anew(root: Root) -> None:
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        for number in range(12):
            name = ["say.free", "say.none"][number % 2]
            group.start_soon(kernel.call, request(kernel, name, {"n": number}, caller=a_caller("x", number)))
        await until(lambda: len([call for call in kernel.activity() if call.result]) == 12)
        await approved_call(kernel, "say.do")
        await answered_call(kernel, lambda ask: deny(kernel, ask), "say.do")
        anew = CallHistory(root.places.audit_dir, _Clock(), lambda event: None)
        await anew.run()
        assert anew.metrics() == kernel.call_history.metrics()
        assert anew.calls(()) == kernel.call_history.calls(())
        for caller in (a_caller().key, a_caller("x", 3).key):
            assert anew.metrics(caller) == kernel.call_history.metrics(caller)


async def test_the_card_counts_earlier_answers_of_today_over_restarts(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await approved_call(kernel, "say.do", {"n": 1})
        await answered_call(kernel, lambda ask: deny(kernel, ask), "say.do", {"n": 1})
        await approved_call(kernel, "say.do", {"n": 2})
    async with kernel_of(root) as kernel:
        seen: list[Ask] = []

        async def look(ask: Ask) -> None:
            seen.append(ask)
            await deny(kernel, ask)

        await answered_call(kernel, look, "say.do", {"n": 1}, caller=a_caller(pid=77))
        await answered_call(kernel, look, "say.do", {"n": 1}, caller=a_caller("other"))
    checks = [ask.request.checks for ask in seen]
    assert [(check.approved, check.denied) for check in checks] == [(1, 1), (0, 0)]


@pytest.mark.parametrize("kept", [False, True])
async def test_outputs_are_kept_only_where_asked_for_and_then_redacted(root: Root, kept: bool) -> None:
    if kept:
        (root.base / "config" / "flytui").mkdir(parents=True, exist_ok=True)
        (root.base / "config" / "flytui" / "config.jsonc").write_text('{"audit": {"outputs": true}}')
    async with kernel_of(root) as kernel:
        await kernel.call(request(kernel, "say.free", {}))
    [line] = [line for line in root.audit() if line["event"] == "TOOL_EXECUTED"]
    assert SECRET not in json.dumps(line)
    assert line["outputBytes"] > 0
    assert len(line["outputDigest"]) == 64
    assert (line.get("output", {}).get("note") == "plain") is kept
    async with kernel_of(root) as kernel:
        await kernel.call_history.ready()
        result = kernel.activity()[0].result
        assert result is not None
        assert (result.output is not None) is kept


async def test_an_agent_is_told_of_its_own_calls_and_their_metrics(root: Root) -> None:
    async with served(root) as kernel:
        await kernel.call(request(kernel, "say.free", {"of": "another"}))
        async with connect_unix(root.places.socket) as agent:
            await agent.call("say.free", {"of": "me"})
            own, calls = await agent.metrics(), await agent.activity()
        async with connect_unix(root.places.socket, viewer=True) as viewer:
            every = await viewer.metrics()
    assert [item.calls for item in own.tools] == [1]
    assert (own.since, own.lines) == ("", 0)
    assert [json.loads(call.input_text)["of"] for call in calls] == ["me"]
    assert [item.calls for item in every.tools] == [2]
