"""Callers that come back, calls that are the same, inputs a person edits, time that stands still."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from flycore.approval.tickets import load_tickets
from flycore.model.approval import Answer
from flycore.model.call import Caller, CallRequest, ToolResult
from flycore.model.enums import Choice, Code, RequestState, Status
from flycore.registry.paths import TICKETS_FILE
from flysafe.procfs import read_process
from kits.kernel import (
    ECHO,
    Root,
    a_caller,
    approve,
    approver_of,
    close_console,
    kernel_of,
    open_console,
    request,
    until,
    waiting_ask,
)

pytestmark = pytest.mark.anyio
COUNTS = """#!/bin/sh
read -r request
printf 'ran\\n' >> "{marks}"
printf '{{"ok": true, "got": %s}}\\n' "$request"
"""
DENY = Answer(choice=Choice.DENY, reason="not today")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", COUNTS.format(marks=tmp_path / "marks"))
    return made


def runs(root: Root) -> int:
    marks = root.base / "marks"
    return len(marks.read_text().splitlines()) if marks.exists() else 0


def events(root: Root, *names: str) -> list[dict[str, Any]]:
    return [line for line in root.audit() if line["event"] in names]


class Callers:
    """Calls under way, and how they ended."""

    def __init__(self, kernel: Any, group: Any) -> None:
        self.kernel, self.group = kernel, group
        self.results: list[ToolResult] = []
        self.scopes: list[anyio.CancelScope] = []

    def call(self, **more: Any) -> CallRequest:
        wanted = request(self.kernel, "echo.do", more.pop("input", {"n": 1}), **more)
        scope = anyio.CancelScope()
        self.scopes.append(scope)

        async def run() -> None:
            with scope:
                self.results.append(await self.kernel.call(wanted))

        self.group.start_soon(run)
        return wanted

    async def ended(self, count: int) -> list[ToolResult]:
        await until(lambda: len(self.results) >= count)
        return self.results


async def no_wait(kernel: Any, **more: Any) -> ToolResult:
    given = more.pop("input", {"n": 1})
    return await kernel.call(request(kernel, "echo.do", given, inline_wait_ms=0, **more))


async def test_a_caller_that_does_not_wait_comes_back_for_its_answer(root: Root) -> None:
    async with kernel_of(root) as kernel:
        first = await no_wait(kernel)
        assert (first.status, first.error.code, first.exit_status) == (
            Status.PENDING,
            Code.APPROVAL_PENDING,
            8,
        )
        ask = await waiting_ask(kernel)
        assert (ask.ticket, ask.request.id) == (True, first.error.details["ticket"])
        again = await no_wait(kernel)
        assert again.error.details["ticket"] == ask.request.id
        assert len([ask for ask in kernel.asks() if ask.state is RequestState.WAITING]) == 1
        await approve(kernel, await waiting_ask(kernel))
        assert runs(root) == 0
        assert (await no_wait(kernel)).status is Status.SUCCESS
        assert runs(root) == 1
        assert (await no_wait(kernel)).status is Status.PENDING
        decided = events(root, "APPROVAL_DECIDED")
        assert [line["decision"] for line in decided] == ["approved"]


async def test_a_ticket_is_of_its_caller_alone(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await no_wait(kernel)
        await approve(kernel, await waiting_ask(kernel))
        stranger = await no_wait(kernel, caller=a_caller("other", 7))
        other_input = await no_wait(kernel, input={"n": 2})
        assert {stranger.status, other_input.status} == {Status.PENDING}
        assert runs(root) == 0


async def test_a_denied_ticket_tells_its_caller_once(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await no_wait(kernel)
        ask = await waiting_ask(kernel)
        assert (await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, DENY)).accepted
        told = await no_wait(kernel)
        assert (told.status, told.error.code) == (Status.DENIED, Code.DENIED)
        assert "not today" in told.error.message
        assert (await no_wait(kernel)).status is Status.PENDING


async def test_tickets_survive_a_restart(root: Root) -> None:
    async with kernel_of(root) as kernel:
        for n in (1, 2):
            await no_wait(kernel, input={"n": n})
        first = await waiting_ask(kernel, 2)
        await approve(kernel, first)
    file = root.places.state_dir / TICKETS_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    async with kernel_of(root) as kernel:
        left = await waiting_ask(kernel)
        assert left.ticket
        assert left.request.id != first.request.id
        assert (await no_wait(kernel, input=dict(first.request.subject.input))).status is Status.SUCCESS
        await approve(kernel, left)
        assert (await no_wait(kernel, input=dict(left.request.subject.input))).status is Status.SUCCESS
    assert runs(root) == 2
    assert load_tickets(root.places.state_dir) == ()


async def test_a_forged_ticket_file_approves_nothing_else(root: Root) -> None:
    """A ticket whose request is not its digest's is left out, and broken ones harm nobody."""
    async with kernel_of(root) as kernel:
        await no_wait(kernel)
        await approve(kernel, await waiting_ask(kernel))
    file = root.places.state_dir / TICKETS_FILE
    (true,) = json.loads(file.read_text())
    forged = json.loads(json.dumps(true).replace('"n": 1', '"n": 666'))
    assert forged != true
    file.write_text(json.dumps([{}, forged, "x", true, []]))
    assert [ticket.ask.request.subject.input for ticket in load_tickets(root.places.state_dir)] == [{"n": 1}]
    file.write_text(json.dumps([forged]))
    assert load_tickets(root.places.state_dir) == ()
    async with kernel_of(root) as kernel:
        assert (await no_wait(kernel, input={"n": 666})).status is Status.PENDING
    assert runs(root) == 0


async def test_a_changed_program_makes_a_ticket_worthless(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await no_wait(kernel)
        await approve(kernel, await waiting_ask(kernel))
        (root.folder / "tools/bin-echo/run").write_text(ECHO + "# another program\n")
        assert (await no_wait(kernel)).status is Status.PENDING


async def test_identical_calls_share_a_card_and_each_runs_once(root: Root) -> None:
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        callers = Callers(kernel, group)
        for _ in range(3):
            callers.call()
        callers.call(caller=a_caller("other", 7))
        ask = await until(lambda: next((ask for ask in kernel.asks() if ask.count == 3), None))
        await until(lambda: len(kernel.asks()) == 2)
        await approve(kernel, ask)
        assert {result.status for result in await callers.ended(3)} == {Status.SUCCESS}
        assert runs(root) == 3
        other = await waiting_ask(kernel)
        assert other.request.caller.program == "other"
        started = [line["callId"] for line in events(root, "TOOL_STARTED")]
        decided = [line["callId"] for line in events(root, "APPROVAL_DECIDED")]
        assert sorted(started) == sorted(decided)
        assert len(set(started)) == 3
        callers.scopes[3].cancel()


async def test_one_of_identical_calls_that_leaves_leaves_the_others(root: Root) -> None:
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        callers = Callers(kernel, group)
        callers.call()
        await waiting_ask(kernel)
        callers.call()
        await until(lambda: kernel.asks()[0].count == 2)
        callers.scopes[0].cancel()
        await until(lambda: kernel.asks()[0].count == 1)
        assert kernel.asks()[0].state is RequestState.WAITING
        await approve(kernel, kernel.asks()[0])
        assert (await callers.ended(1))[0].status is Status.SUCCESS
        assert runs(root) == 1


async def test_an_edited_input_is_what_runs_and_the_caller_is_told(root: Root) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}
    root.sidecars["echo"]["tools"][0]["inputSchema"] = schema
    root.write()
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        callers = Callers(kernel, group)
        callers.call()
        ask = await waiting_ask(kernel)
        asked, shown = ask.request.id, ask.request.subject_digest
        bad = await approver_of(kernel).edit(asked, shown, {"n": 10})
        assert not bad.accepted
        assert "n" in bad.why_not
        assert not (await approver_of(kernel).edit(asked, "0" * 64, {"n": 5})).accepted
        assert kernel.asks()[0].request.subject_digest == shown
        assert (await approver_of(kernel).edit(asked, shown, {"n": 5})).accepted
        edited = kernel.asks()[0].request
        assert edited.edited
        assert edited.subject_digest != shown
        assert edited.letter != "" or edited.risk.value == "medium"
        stale = await approver_of(kernel).decide(asked, shown, Answer(choice=Choice.APPROVE_ONCE))
        assert not stale.accepted
        await approve(kernel, kernel.asks()[0])
        result = (await callers.ended(1))[0]
        assert result.status is Status.SUCCESS
        assert result.output["got"]["input"]["n"] == 5
        assert any("changed the input" in warning for warning in result.warnings)
        decided = events(root, "APPROVAL_DECIDED")[0]
        started = events(root, "TOOL_STARTED")[0]
        assert decided["subject"] == started["subject"] == edited.subject_digest
        assert decided["editedInput"] == {"n": 5}


async def test_policy_judges_an_edited_input_again(root: Root) -> None:
    when = {"properties": {"n": {"const": 3}}}
    root.policy({"tool": "echo.do", "when": when, "decision": "deny", "because": "three is too many"})
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        callers = Callers(kernel, group)
        callers.call()
        ask = await waiting_ask(kernel)
        outcome = await approver_of(kernel).edit(ask.request.id, ask.request.subject_digest, {"n": 3})
        assert not outcome.accepted
        assert "policy" in outcome.why_not
        assert kernel.asks()[0].request == ask.request
        callers.scopes[0].cancel()


async def test_a_refusal_that_lasts_answers_the_next_ones(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await no_wait(kernel)
        ask = await waiting_ask(kernel)
        answer = Answer(choice=Choice.DENY, reason="busy", deny_minutes=10)
        assert (await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)).accepted
        for given in ({"n": 1}, {"n": 2}):
            result = await kernel.call(request(kernel, "echo.do", given))
            assert (result.status, result.error.code) == (Status.DENIED, Code.DENIED)
            assert "10 minutes" in result.error.message
        assert (await no_wait(kernel, caller=a_caller("other", 7))).status is Status.PENDING


async def test_what_is_held_does_not_run_out(root: Root) -> None:
    config = root.base / "config" / "flytui"
    config.mkdir(parents=True)
    (config / "config.jsonc").write_text('{"approvals": {"timeoutMs": {"medium": 300}}}')
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        callers = Callers(kernel, group)
        callers.call()
        ask = await waiting_ask(kernel)
        assert await approver_of(kernel).hold(ask.request.id, True)
        assert not await approver_of(kernel).hold(ask.request.id, True)
        callers.call(input={"n": 2})
        timed_out = (await callers.ended(1))[0]
        assert timed_out.error.code == Code.APPROVAL_TIMEOUT
        assert kernel.asks()[0].held
        assert kernel.asks()[0].state is RequestState.WAITING
        assert await approver_of(kernel).hold(ask.request.id, False)
        assert (await callers.ended(2))[1].error.code == Code.APPROVAL_TIMEOUT
        assert runs(root) == 0


async def test_the_console_may_close_while_a_ticket_waits(root: Root) -> None:
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        callers = Callers(kernel, group)
        await no_wait(kernel)
        callers.call()
        await until(lambda: kernel.asks() and not kernel.asks()[0].ticket)
        await no_wait(kernel)
        close_console(kernel)
        assert (kernel.asks()[0].state, callers.results) == (RequestState.WAITING, [])
        callers.scopes[0].cancel()
        await until(lambda: kernel.asks()[0].ticket)
        open_console(kernel)
        await approve(kernel, kernel.asks()[0])
        assert (await no_wait(kernel)).status is Status.SUCCESS


@contextmanager
def other_program() -> Iterator[Caller]:
    """A caller with a process of its own, which ends with the block."""
    with subprocess.Popen(["sleep", "600"]) as program:
        process = read_process(program.pid)
        assert process is not None
        try:
            yield msgspec.structs.replace(a_caller("other"), pid=program.pid, started=process.started)
        finally:
            program.kill()


async def test_a_request_whose_caller_has_exited_is_withdrawn(root: Root) -> None:
    """Also with a ticket: it is bound to that process, so nobody could collect the result."""
    async with kernel_of(root) as kernel:
        with other_program() as caller:
            assert (await no_wait(kernel, caller=caller)).status is Status.PENDING
            ask = await waiting_ask(kernel)
        # Whether the queue or the decision notices first, the approval does not count.
        outcome = await approver_of(kernel).decide(
            ask.request.id, ask.request.subject_digest, Answer(choice=Choice.APPROVE_ONCE)
        )
        assert not outcome.accepted
        await until(lambda: kernel.asks()[0].state is RequestState.WITHDRAWN)
        decided = events(root, "APPROVAL_DECIDED")
        assert [line["decision"] for line in decided] == ["withdrawn"]
    assert load_tickets(root.places.state_dir) == ()


async def test_a_request_whose_caller_exits_is_withdrawn_without_a_decision(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await no_wait(kernel)
        with other_program() as caller:
            await no_wait(kernel, input={"n": 2}, caller=caller)
            await waiting_ask(kernel, 2)
        await until(lambda: RequestState.WITHDRAWN in {ask.state for ask in kernel.asks()})
        assert [ask.state for ask in kernel.asks()] == [RequestState.WAITING, RequestState.WITHDRAWN]


async def test_a_ticket_of_an_exited_caller_does_not_wait_on_after_a_restart(root: Root) -> None:
    with other_program() as caller:
        async with kernel_of(root) as kernel:
            await no_wait(kernel, caller=caller)
            await no_wait(kernel, caller=msgspec.structs.replace(caller, program="token", pid=0, started=0))
    async with kernel_of(root) as kernel:
        await until(lambda: [ask.state for ask in kernel.asks()].count(RequestState.WITHDRAWN) == 1)
        (waiting,) = (ask for ask in kernel.asks() if ask.state is RequestState.WAITING)
        assert waiting.request.caller.pid == 0


def claude(caller: Caller) -> Caller:
    """The caller as a process of an agent that flytui knows."""
    return msgspec.structs.replace(caller, executable="/opt/claude/claude", name="Claude Code")


async def test_a_client_that_is_started_again_takes_the_answer_of_its_exited_process(root: Root) -> None:
    async with kernel_of(root) as kernel:
        with other_program() as first:
            assert (await no_wait(kernel, caller=claude(first))).status is Status.PENDING
            ask = await waiting_ask(kernel)
            assert (ask.ticket, ask.returns) == (True, True)
            with other_program() as beside:
                # Both run: each has a request of its own.
                await no_wait(kernel, caller=claude(beside))
                await waiting_ask(kernel, 2)
        await approve(kernel, ask)
        with other_program() as second:
            stranger = msgspec.structs.replace(claude(second), executable="/tmp/claude/claude")
            assert (await no_wait(kernel, caller=stranger)).status is Status.PENDING
            other = {"input": {"n": 2}}
            assert (await no_wait(kernel, caller=claude(second), **other)).status is Status.PENDING
            assert runs(root) == 0
            assert (await no_wait(kernel, caller=claude(second))).status is Status.SUCCESS
            assert runs(root) == 1


async def test_a_request_is_taken_over_by_the_client_that_is_started_again(root: Root) -> None:
    """Also over a restart of the kernel, and the card shows whose call it is now."""
    async with kernel_of(root) as kernel:
        with other_program() as first:
            await no_wait(kernel, caller=claude(first))
    with other_program() as second:
        async with kernel_of(root) as kernel:
            before = await waiting_ask(kernel)
            assert before.returns
            assert (await no_wait(kernel, caller=claude(second))).status is Status.PENDING
            after = await waiting_ask(kernel)
            assert (before.request.id, second.pid) == (after.request.id, after.request.caller.pid)
            outcome = await approver_of(kernel).decide(
                before.request.id, before.request.subject_digest, Answer(choice=Choice.APPROVE_ONCE)
            )
            assert not outcome.accepted  # it is the card of another process than the one that was shown
            await approve(kernel, after)
            assert (await no_wait(kernel, caller=claude(second))).status is Status.SUCCESS
    assert runs(root) == 1


async def test_a_program_that_is_no_known_agent_does_not_come_back(root: Root) -> None:
    async with kernel_of(root) as kernel:
        with other_program() as first:
            unknown = msgspec.structs.replace(claude(first), name="my-agent")
            await no_wait(kernel, caller=unknown)
            assert not (await waiting_ask(kernel)).returns
        await until(lambda: kernel.asks()[0].state is RequestState.WITHDRAWN)
