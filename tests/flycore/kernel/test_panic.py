"""Panic: everything ends, nothing begins, and only a person's release changes that."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from flycore.client.client import connect_unix
from flycore.kernel.kernel import Kernel
from flycore.kernel.panic import RELEASE
from flycore.kernel.panic_file import PanicRecord, write_panic
from flycore.model.approval import Answer, LeaseTerms
from flycore.model.call import Caller, ToolResult
from flycore.model.enums import Choice, Code, RequestState, Status
from flycore.model.question import PANIC_QUESTION
from flycore.registry.paths import PANIC_FILE
from kits.kernel import (
    ECHO,
    Root,
    a_caller,
    approver_of,
    kernel_of,
    processes_of,
    request,
    tool,
    until,
    waiting_ask,
)
from kits.unix_socket import plain, say, served

pytestmark = pytest.mark.anyio

SLEEPERS = 20
SLEEP = """#!/bin/sh
read -r request
(sleep 600 & echo $! >> pids; wait) &
sleep 600 &
echo $$ $! >> pids
wait
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("sleep", SLEEP)
    root.sidecar("echo", ECHO, tool("echo.ask", risk="high"), tool("echo.free"))
    root.policy(
        {"tool": "sleep.do", "decision": "allow", "because": "test"},
        {"tool": "echo.free", "decision": "allow", "because": "test"},
    )
    return root


def pids(root: Root) -> list[int]:
    """The processes that said they started, by their ids in their own namespaces."""
    file = root.folder / "pids"
    return [int(word) for word in file.read_text().split()] if file.exists() else []


async def release(kernel: Kernel) -> None:
    outcome = await approver_of(kernel).answer(PANIC_QUESTION, RELEASE)
    assert outcome.accepted, outcome.why_not


def code(result: ToolResult) -> tuple[Status, str]:
    assert result.error is not None
    return result.status, result.error.code


async def test_no_process_of_twenty_calls_survives(root: Root) -> None:
    results: list[ToolResult] = []
    async with kernel_of(root) as kernel:

        async def run(number: int) -> None:
            caller = a_caller(f"agent{number % 4}")
            results.append(await kernel.call(request(kernel, "sleep.do", caller=caller)))

        async with anyio.create_task_group() as group:
            for number in range(SLEEPERS):
                group.start_soon(run, number)
            await until(lambda: len(pids(root)) == 3 * SLEEPERS)
            assert len(processes_of(root)) >= 3 * SLEEPERS
            assert await kernel.panic("a test") is True
            assert processes_of(root) == []
        assert await kernel.panic("another") is False
    assert {code(result) for result in results} == {(Status.FAILED, Code.PANIC)}
    assert len(results) == SLEEPERS
    lines = root.audit()
    [panic] = [line for line in lines if line["event"] == "PANIC"]
    assert (panic["by"], panic["calls"]) == ("a test", SLEEPERS)
    ended = [line for line in lines if line["event"] == "TOOL_EXECUTED"]
    assert [line["code"] for line in ended] == ["panic"] * SLEEPERS


async def test_what_waits_is_refused_leases_and_grants_end_and_nothing_begins(root: Root) -> None:
    results: list[ToolResult] = []
    async with kernel_of(root) as kernel:

        async def ask(caller: Caller) -> None:
            results.append(await kernel.call(request(kernel, "echo.ask", caller=caller)))

        async with anyio.create_task_group() as group:
            group.start_soon(ask, a_caller())
            card = (await waiting_ask(kernel)).request
            lease = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=9))
            assert (await approver_of(kernel).decide(card.id, card.subject_digest, lease)).accepted
        assert len(kernel.leases()) == 1
        async with anyio.create_task_group() as group:
            group.start_soon(ask, a_caller("other"))
            waiting = (await waiting_ask(kernel)).request
            assert await kernel.panic("a test")
        assert kernel.leases() == ()
        late = Answer(choice=Choice.APPROVE_ONCE)
        assert not (await approver_of(kernel).decide(waiting.id, waiting.subject_digest, late)).accepted
        for name in ("echo.free", "echo.ask", "no.such", "sleep.do"):
            refused = await kernel.call(request(kernel, name))
            assert code(refused) == (Status.DENIED, Code.PANIC)
            assert refused.error is not None
            assert "ctrl+o" in refused.error.hint
        assert kernel.status().panic
        assert kernel.asks()[0].state is RequestState.DENIED
    assert code(results[-1]) == (Status.DENIED, Code.PANIC)
    assert pids(root) == []


async def test_it_survives_a_restart_and_only_the_persons_answer_releases_it(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await kernel.panic("a test")
        facts = os.stat(root.places.state_dir / PANIC_FILE)
        assert stat.S_IMODE(facts.st_mode) == 0o600
    async with kernel_of(root) as kernel:
        assert code(await kernel.call(request(kernel, "echo.free"))) == (Status.DENIED, Code.PANIC)
        [question] = kernel.questions()
        assert (question.id, [option.recommended for option in question.options]) == (PANIC_QUESTION, [True])
        for option, text in (("resume", ""), ("", ""), ("RELEASE", ""), (RELEASE, "words")):
            assert not (await approver_of(kernel).answer(PANIC_QUESTION, option, text)).accepted
        assert not (await approver_of(kernel).answer("panic2", RELEASE)).accepted
        assert kernel.status().panic
        await release(kernel)
        assert not (await approver_of(kernel).answer(PANIC_QUESTION, RELEASE)).accepted
        assert (await kernel.call(request(kernel, "echo.free"))).status is Status.SUCCESS
    assert not (root.places.state_dir / PANIC_FILE).exists()
    assert [line["decidedBy"] for line in root.audit() if line["event"] == "PANIC_RELEASED"] == ["console"]


@pytest.mark.parametrize("kind", ["garbage", "empty", "folder", "fifo", "dangling", "huge", "other shape"])
async def test_a_file_that_cannot_be_relied_on_counts_as_stopped(root: Root, kind: str) -> None:
    path = root.places.state_dir / PANIC_FILE
    path.parent.mkdir(parents=True, mode=0o700)
    match kind:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "dangling":
            path.symlink_to("nowhere")
        case _:
            texts = {"garbage": b"\xff{", "huge": b'{"at": 1, "by": "' + b"x" * 100_000 + b'"}'}
            path.write_bytes({**texts, "empty": b"", "other shape": b"[1]"}[kind])
    async with kernel_of(root) as kernel:
        assert code(await kernel.call(request(kernel, "echo.free"))) == (Status.DENIED, Code.PANIC)
        outcome = await approver_of(kernel).answer(PANIC_QUESTION, RELEASE)
        assert outcome.accepted == (kind != "folder")
        assert kernel.status().panic != outcome.accepted


async def test_a_state_folder_that_takes_no_file_still_stops(root: Root, monkeypatch: Any) -> None:
    def full(state_dir: Path, stopped: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flycore.kernel.panic.write_panic", full)
    async with kernel_of(root) as kernel:
        assert await kernel.panic("a test")
        assert code(await kernel.call(request(kernel, "echo.free"))) == (Status.DENIED, Code.PANIC)
        assert any("No space left" in text for text in kernel.questions()[0].lines)
        await release(kernel)


async def test_anybody_may_stop_and_no_message_releases(root: Root) -> None:
    async with served(root) as kernel, connect_unix(root.places.socket) as agent:
        assert await agent.panic() is True
        assert await agent.panic() is False
        assert (await agent.status()).panic
        assert await agent.questions() == ()
        async with plain(root) as connection:
            for kind, payload in (
                ("question.answer", {"id": PANIC_QUESTION, "option": RELEASE}),
                ("ask.decide", {"id": PANIC_QUESTION, "choice": RELEASE}),
                ("panic", {"release": True}),
                ("panic.release", {}),
                ("tool.call", {"tool": "echo.free", "released": True}),
            ):
                assert (await say(connection, kind, payload))["type"] == "error"
        assert kernel.status().panic
        async with connect_unix(root.places.socket, viewer=True) as viewer:
            assert [question.id for question in await viewer.questions()] == [PANIC_QUESTION]
        result = await agent.call("echo.free", {})
        assert code(result) == (Status.DENIED, Code.PANIC)


async def test_nothing_is_probed_while_everything_is_stopped(root: Root) -> None:
    counted = root.folder / "probed"
    root.sidecar(
        "probed",
        f"#!/bin/sh\nread -r r\necho x >> {counted}\necho '{{\"ok\": true}}'\n",
        probe={"mode": "request"},
    )
    async with kernel_of(root, trusted=False) as kernel:
        await kernel.panic("a test")
        items = tuple((item.sidecar, item.digest) for item in kernel.pending_trust())
        assert (await approver_of(kernel).trust(items)).accepted
        await until(lambda: all(view.trusted for view in kernel.catalog().sidecars))
        kernel.probe("probed")
        assert not kernel._refresher._probing
        await release(kernel)
        await until(counted.exists)


async def test_a_call_hammering_on_does_not_hold_panic_up(root: Root) -> None:
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:

        async def hammer() -> None:
            while True:
                await kernel.call(request(kernel, "echo.free"))
                await anyio.lowlevel.checkpoint()

        group.start_soon(hammer)
        await until(lambda: any(call.result for call in kernel.activity()))
        with anyio.fail_after(30):
            assert await kernel.panic("a test")
        assert code(await kernel.call(request(kernel, "echo.free"))) == (Status.DENIED, Code.PANIC)
        group.cancel_scope.cancel()


async def test_kept_answers_and_tickets_end_too_also_those_of_an_earlier_kernel(root: Root) -> None:
    async def come_back(kernel: Kernel, number: int) -> tuple[Status, str]:
        asked = request(kernel, "echo.ask", {"n": number}, inline_wait_ms=0)
        return code(await kernel.call(asked))

    async with kernel_of(root) as kernel:
        assert await come_back(kernel, 1) == (Status.PENDING, Code.APPROVAL_PENDING)
        card = (await waiting_ask(kernel)).request
        yes = Answer(choice=Choice.APPROVE_ONCE)
        assert (await approver_of(kernel).decide(card.id, card.subject_digest, yes)).accepted
        assert await come_back(kernel, 2) == (Status.PENDING, Code.APPROVAL_PENDING)
    write_panic(root.places.state_dir, PanicRecord(at=1.0, by="a test"))
    async with kernel_of(root) as kernel:
        assert kernel.status().waiting == 0
        assert await come_back(kernel, 1) == (Status.DENIED, Code.PANIC)
        await release(kernel)
        assert await come_back(kernel, 1) == (Status.PENDING, Code.APPROVAL_PENDING)
        assert await come_back(kernel, 2) == (Status.DENIED, Code.PANIC)
        assert kernel.status().waiting == 1
        await kernel.panic("a test")
        assert kernel.status().waiting == 0
    assert [line for line in root.audit() if line["event"] == "TOOL_STARTED"] == []
