"""Consoles beside a kernel that runs: they come in by a code, and decide as the one in its process does."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

import flycore
from flycore.client.attach import open_attached_console
from flycore.client.connect import connect, open_served_kernel
from flycore.client.remote import connect_unix
from flycore.kernel.console_pairing import MOST_OF_ONE
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, LeaseTerms
from flycore.model.call import ToolResult
from flycore.model.enums import Choice, Code, ReasonCode, RequestState, Status
from flycore.model.errors import ConnectionLost, NotPaired, ProtocolError, RootBusy
from flycore.server.unix import serve_unix
from kits.attach import attached, codes_of, shown_code
from kits.kernel import (
    ECHO,
    Root,
    approver_of,
    close_console,
    kernel_of,
    open_console,
    request,
    tool,
    until,
    waiting_ask,
)

pytestmark = pytest.mark.anyio
ONCE = Answer(choice=Choice.APPROVE_ONCE)


@pytest.fixture
async def root(tmp_path: Path) -> Root:
    found = Root(tmp_path)
    found.sidecar("echo", ECHO, tool("echo.free"), tool("echo.ask"), tool("echo.high", risk="high"))
    found.policy({"tool": "echo.free", "decision": "allow", "because": "test"})
    async with kernel_of(found):
        pass
    return found


@asynccontextmanager
async def serving(root: Root) -> AsyncIterator[Kernel]:
    """The kernel of `flytui serve`, on a terminal where codes are shown."""
    async with open_served_kernel(root.places, on_wait=lambda pid, since, role: None) as kernel:
        with kernel.pairing.on_terminal():
            yield kernel


async def nobody() -> str:
    raise AssertionError("no code may be asked for")


async def test_a_served_kernel_is_decided_by_the_console_that_comes(root: Root) -> None:
    results: list[ToolResult] = []

    async def call() -> None:
        async with connect(root.places, provisional=False) as agent:
            results.append(await agent.call("echo.high", {}))

    async with serving(root) as kernel:
        status = kernel.status()
        assert (status.role, status.approver, status.consoles) == ("serve", False, 0)
        async with attached(root, kernel) as (client, approver), anyio.create_task_group() as group:
            assert (await client.status()).consoles == 1
            group.start_soon(call)
            shown = await waiting_ask(kernel)
            (ask,) = await client.asks()
            assert ask == shown
            assert ask.request.letter
            outcome = await approver.decide(ask.request.id, ask.request.subject_digest, ONCE)
            assert outcome.accepted, outcome.why_not
        assert results[0].status is Status.SUCCESS
        await until(lambda: kernel.status().consoles == 0)
    decided = [line for line in root.audit() if line["event"] == "APPROVAL_DECIDED"]
    assert [line["decidedBy"] for line in decided] == [f"the console on pid {os.getpid()}"]
    events = [line["event"] for line in root.audit() if line["event"].startswith("CONSOLE_")]
    assert events == ["CONSOLE_OPENED", "CONSOLE_ATTACHED", "CONSOLE_LEFT"]


async def test_the_first_decision_counts_and_the_other_console_is_told_who_made_it(root: Root) -> None:
    async with (
        kernel_of(root) as kernel,
        serve_unix(kernel, root.places.socket),
        attached(root, kernel) as (client, approver),
        anyio.create_task_group() as group,
    ):
        assert kernel.status().consoles == 2
        group.start_soon(kernel.call, request(kernel, "echo.ask"))
        ask = (await waiting_ask(kernel)).request
        no = Answer(choice=Choice.DENY, reason="not now")
        assert (await approver.decide(ask.id, ask.subject_digest, no)).accepted
        late = await approver_of(kernel).decide(ask.id, ask.subject_digest, ONCE)
        assert not late.accepted
        assert late.why_not == f"already denied by the console on pid {os.getpid()}"
        assert [item.decided_by for item in await client.asks()] == [f"the console on pid {os.getpid()}"]


async def test_a_console_that_is_lost_leaves_its_seat_and_what_waits_waits_on(root: Root) -> None:
    results: list[ToolResult] = []

    async def call(wait_ms: int) -> None:
        async with connect_unix(root.places.socket) as agent:
            results.append(await agent.call("echo.ask", {"n": wait_ms}, inline_wait_ms=wait_ms))

    async with serving(root) as kernel, anyio.create_task_group() as group:
        async with attached(root, kernel, windows_and_pids=((77,), (88,))) as (client, _):
            assert kernel.pairing.protected_windows.window_ids == (77,)
            assert kernel.pairing.protected_windows.pids == (88,)
            group.start_soon(call, 0)
            await until(lambda: results)
            group.start_soon(call, 600_000)
            await waiting_ask(kernel, 2)
        await until(lambda: kernel.status().consoles == 0)
        assert kernel.pairing.protected_windows.window_ids == ()
        assert kernel.status().waiting == 2
        assert kernel.status().running == 1
        async with attached(root, kernel) as (client, approver):
            for ask in await client.asks():
                assert ask.state is RequestState.WAITING
                assert (await approver.decide(ask.request.id, ask.request.subject_digest, ONCE)).accepted
            await until(lambda: len(results) == 2)
            await call(0)
    assert [result.status for result in results] == [Status.PENDING, Status.SUCCESS, Status.SUCCESS]


async def test_whoever_is_there_is_enough_for_calls_to_wait(root: Root) -> None:
    """The console beside the kernel goes, the one paired by a code stays, and the call waits on."""
    async with serving(root) as kernel:
        alone = await kernel.call(request(kernel, "echo.ask"))
        assert alone.error is not None
        assert alone.error.code == Code.NO_APPROVER
        open_console(kernel)
        async with attached(root, kernel) as (_, approver), anyio.create_task_group() as group:
            group.start_soon(kernel.call, request(kernel, "echo.ask"))
            ask = (await waiting_ask(kernel)).request
            close_console(kernel)
            assert kernel.status().waiting == 1
            assert (await approver.decide(ask.id, ask.subject_digest, ONCE)).accepted


async def test_a_caller_of_a_served_kernel_waits_for_a_console_as_long_as_it_says(root: Root) -> None:
    results: list[ToolResult] = []

    async def call(seconds: float) -> None:
        async with connect(root.places, wait_approver=seconds) as agent:
            results.append(await agent.call("echo.ask", {}))

    async with serving(root) as kernel:
        await call(0.05)
        async with anyio.create_task_group() as group:
            group.start_soon(call, 300.0)
            await until(lambda: kernel.status().running == 1)
            async with attached(root, kernel) as (_, approver):
                ask = (await waiting_ask(kernel)).request
                assert (await approver.decide(ask.id, ask.subject_digest, ONCE)).accepted
                await until(lambda: len(results) == 2)
    assert [result.status for result in results] == [Status.DENIED, Status.SUCCESS]


async def test_everything_a_person_does_goes_over_the_connection(root: Root) -> None:
    async with serving(root) as kernel, attached(root, kernel) as (client, approver):
        async with anyio.create_task_group() as group:
            group.start_soon(kernel.call, request(kernel, "echo.ask", {"n": 1}))
            ask = (await waiting_ask(kernel)).request
            assert await approver.hold(ask.id, True)
            assert not await approver.hold(ask.id, True)
            assert (await approver.edit(ask.id, ask.subject_digest, {"n": 2})).accepted
            (seen,) = await client.asks()
            assert (seen.request.subject.input, seen.request.edited) == ({"n": 2}, True)
            lease = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=3))
            assert (await approver.decide(seen.request.id, seen.request.subject_digest, lease)).accepted
        (held,) = await client.leases()
        assert await approver.revoke(held.id)
        assert not await approver.revoke(held.id)
        assert (await approver.undo()).accepted
        assert [item.id for item in await client.leases()] == [held.id]
        assert (await approver.enable("echo", False, "not today")).accepted
        assert (await approver.enable("echo", True, "")).accepted
        shown = await client.plan_starter(("mock.echo",))
        assert shown.difference[0].startswith("--- ")
        assert not (await approver.write_starter(("mock.echo",), "0" * 64)).accepted
        assert not await approver.unblock("echo.ask")
        assert not (await approver.remove_rule("nowhere:1", "0" * 64)).accepted
        assert not (await approver.answer("none", "yes")).accepted
        assert not (await approver.trust((("echo", "0" * 64),))).accepted
        assert await client.panic()
        (question,) = await client.questions()
        assert (await approver.answer(question.id, question.options[0].id)).accepted
        assert not kernel.status().panic


async def test_one_console_does_not_take_back_what_another_has_done(root: Root) -> None:
    async with (
        serving(root) as kernel,
        attached(root, kernel) as (_, mine),
        attached(root, kernel) as (_, other),
    ):
        async with anyio.create_task_group() as group:
            group.start_soon(kernel.call, request(kernel, "echo.ask"))
            ask = (await waiting_ask(kernel)).request
            block = Answer(choice=Choice.BLOCK, reason="never")
            assert (await mine.decide(ask.id, ask.subject_digest, block)).accepted
        assert await mine.unblock("echo.ask")
        assert not (await other.undo()).accepted
        assert (await mine.undo()).accepted
        assert [block.tool for block in kernel.blocks()] == ["echo.ask"]


def deciders(root: Root, *events: str) -> list[tuple[str, str]]:
    """(event, who) of those lines that name a console."""
    lines = (line for line in root.audit() if line["event"] in events)
    return [(line["event"], line["decidedBy"]) for line in lines if "decidedBy" in line]


def is_blocked(kernel: Kernel) -> bool:
    """What the catalog says of it, which calls are judged by."""
    views = [view for view in kernel.catalog().capabilities if view.capability.name == "echo.ask"]
    return any(reason.code is ReasonCode.BLOCKED for view in views for reason in view.stability.reasons)


async def test_the_log_says_at_which_of_two_consoles_something_was_decided(root: Root) -> None:
    answers = (Answer(choice=Choice.BLOCK), Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=3)))
    other = f"the console on pid {os.getpid()}"
    async with (
        kernel_of(root) as kernel,
        serve_unix(kernel, root.places.socket),
        attached(root, kernel) as (client, approver),
    ):
        for hand in (approver_of(kernel), approver):
            for answer in answers:
                async with anyio.create_task_group() as group:
                    group.start_soon(kernel.call, request(kernel, "echo.ask"))
                    ask = (await waiting_ask(kernel)).request
                    assert (await hand.decide(ask.id, ask.subject_digest, answer)).accepted
                if answer.choice == Choice.BLOCK:
                    await until(lambda: is_blocked(kernel))
                    assert await hand.unblock("echo.ask")
                    await until(lambda: not is_blocked(kernel))
            assert await hand.revoke(kernel.leases()[0].id)
            assert (await hand.enable("echo", False, "")).accepted
            assert (await hand.enable("echo", True, "")).accepted
            assert await client.panic()
            assert (await hand.answer("panic", "release")).accepted
    lines = {
        "BLOCK_CHANGED": 2,
        "LEASE_CHANGED": 1,
        "REGISTRY_EDITED": 2,
        "TRUST_DECIDED": 2,
        "PANIC_RELEASED": 1,
    }
    for event, count in lines.items():
        assert deciders(root, event)[-2 * count :] == [(event, "console")] * count + [(event, other)] * count


async def test_the_console_s_own_calls_go_over_a_connection_of_their_own(root: Root) -> None:
    async with serving(root) as kernel, attached(root, kernel) as (client, _):
        assert (await client.call("echo.free", {})).status is Status.SUCCESS
        (call,) = await client.activity()
        assert call.caller.door == "socket"


async def test_three_wrong_codes_end_it_and_the_person_is_told_each_time(root: Root) -> None:
    told: list[str] = []

    async def wrong() -> str:
        return "22222222"

    async with serving(root) as kernel:
        with pytest.raises(NotPaired, match="attach again"):
            async with open_attached_console(root.places, code=wrong, on_refused_code=told.append):
                pass
        assert len(told) == 2
        assert kernel.status().consoles == 0


async def test_no_code_is_made_where_nobody_could_see_it(root: Root) -> None:
    async with open_served_kernel(root.places, on_wait=lambda pid, since, role: None) as kernel:
        with codes_of(kernel) as events, pytest.raises(NotPaired, match="nobody could see"):
            async with open_attached_console(root.places, code=nobody):
                pass
        open_console(kernel)
        async with attached(root, kernel):
            assert kernel.status().consoles == 2
        events.close()


async def test_a_provisional_kernel_takes_no_console(root: Root) -> None:
    async with connect(root.places) as client:
        assert (await client.status()).role == "provisional"
        with pytest.raises(NotPaired, match="yield"):
            async with open_attached_console(root.places, code=nobody):
                pass


async def test_a_program_that_asks_without_end_is_not_shown_without_end(root: Root) -> None:
    async with serving(root) as kernel, connect_unix(root.places.socket, viewer=True) as viewer:
        shown = 0
        with codes_of(kernel) as events:
            for number in range(1000):
                if number < MOST_OF_ONE:
                    await viewer.ask_for("console.attach")
                    continue
                with pytest.raises(ProtocolError, match="two minutes"):
                    await viewer.ask_for("console.attach")
            open_console(kernel)
            async for event in events:
                if event.type == "status.changed":
                    break
                shown += 1
        assert shown == MOST_OF_ONE


async def test_a_console_of_another_version_is_refused_on_both_sides(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(root) as kernel:
        async with connect_unix(root.places.socket, viewer=True) as viewer:
            assert viewer.hello.version == flycore.__version__
        monkeypatch.setattr(flycore, "__version__", "99.0.0")
        async with connect_unix(root.places.socket, viewer=True) as later:
            monkeypatch.undo()
            with pytest.raises(Exception, match="restart the older"):
                await later.ask_for("console.attach", {})
        assert kernel.status().consoles == 0


async def test_a_kernel_that_goes_while_the_code_is_typed(root: Root) -> None:
    async def typed() -> str:
        stopped.set()
        await gone.wait()
        return "22222222"

    stopped, gone = anyio.Event(), anyio.Event()

    async def sit() -> None:
        with pytest.raises((ConnectionLost, NotPaired)):
            async with open_attached_console(root.places, code=typed):
                pass

    async with anyio.create_task_group() as group:
        async with serving(root):
            group.start_soon(sit)
            await stopped.wait()
        gone.set()


async def test_a_second_kernel_for_good_is_told_who_holds_the_root(root: Root) -> None:
    async with serving(root):
        with pytest.raises(RootBusy) as busy:
            async with open_served_kernel(root.places, on_wait=lambda pid, since, role: None):
                pass
        assert (busy.value.pid, busy.value.role) == (os.getpid(), "serve")


async def test_the_code_is_nowhere_but_where_a_person_reads_it(root: Root) -> None:
    async with (
        serving(root) as kernel,
        connect_unix(root.places.socket) as agent,
        connect_unix(root.places.socket, viewer=True) as viewer,
        agent.events() as to_agent,
        viewer.events() as to_viewer,
    ):
        with codes_of(kernel) as events:
            async with open_attached_console(root.places, code=lambda: shown_code(events)):
                pass
        for heard in (to_agent, to_viewer):
            async for event in heard:
                assert event.type != "console.pairing"
                assert "code" not in event.payload
                if event.type == "console.left":
                    break
    assert not any("code" in line for line in root.audit())
    assert json.dumps(root.audit())
