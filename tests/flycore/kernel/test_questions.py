"""Questions of a real kernel: a loop pauses its caller, trust and drift are asked, only a person answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.approval.callers import identify_peer
from flycore.client.client import connect_unix
from flycore.kernel.kernel import Kernel
from flycore.kernel.questions import LEAVE, MOST_TEXT, TRUST
from flycore.model.call import ToolResult
from flycore.model.enums import Code, QuestionKind, Status
from flycore.model.question import Question
from kits.kernel import ECHO, Root, a_caller, approver_of, kernel_of, request, tool, until
from kits.unix_socket import plain, say, served

pytestmark = pytest.mark.anyio

FAIL = """#!/bin/sh
read -r request
case "$request" in
  *well*) printf '{"ok": true}\\n' ;;
  *) echo "no such thing" >&2; exit 3 ;;
esac
"""
TYPED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("fail", FAIL, tool("fail.do"), tool("fail.typed", inputSchema=TYPED))
    root.sidecar("echo", ECHO, tool("echo.free"))
    allow = {"decision": "allow", "because": "test"}
    root.policy({"tool": "fail.*", **allow}, {"tool": "echo.*", **allow})
    return root


async def calls(kernel: Kernel, name: str, input: dict[str, Any] | None = None, times: int = 3) -> ToolResult:
    """Call so often, one after the other; how the last one ended."""
    for _ in range(times):
        result = await kernel.call(request(kernel, name, input))
    return result


def loops(kernel: Kernel) -> list[Question]:
    return [question for question in kernel.questions() if question.kind is QuestionKind.LOOP]


def code(result: ToolResult) -> tuple[Status, str]:
    assert result.error is not None
    return result.status, result.error.code


@pytest.mark.parametrize(
    ("name", "input"), [("fail.do", {}), ("fail.typed", {"n": "one"}), ("no.such", {"any": 1})]
)
async def test_a_loop_pauses_its_caller_and_no_other(root: Root, name: str, input: dict[str, Any]) -> None:
    async with kernel_of(root) as kernel:
        assert (await calls(kernel, name, input)).status is Status.FAILED
        [question] = loops(kernel)
        for other in (name, "echo.free", "no.such"):
            assert code(await calls(kernel, other, {}, 1)) == (Status.DENIED, Code.PAUSED)
        second = request(kernel, "echo.free", caller=a_caller(pid=4243))
        assert (await kernel.call(second)).status is Status.SUCCESS
        assert (await approver_of(kernel).answer(question.id, "continue")).accepted
        assert (await calls(kernel, "echo.free", {}, 1)).status is Status.SUCCESS
        assert not (await approver_of(kernel).answer(question.id, "continue")).accepted
    events = [line["event"] for line in root.audit() if line["event"].startswith("QUESTION_")]
    assert events == ["QUESTION_ASKED", "QUESTION_ANSWERED"]


async def test_changed_calls_and_successes_are_no_loop(root: Root) -> None:
    async with kernel_of(root) as kernel:
        for number in range(4):
            await calls(kernel, "fail.do", {"n": number}, 2)
        await calls(kernel, "fail.do", {"n": "well"}, 9)
        assert loops(kernel) == []


async def test_the_persons_words_reach_the_caller_and_what_is_not_offered_decides_nothing(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await calls(kernel, "fail.do")
        [question] = loops(kernel)
        for option, text in (("", ""), ("release", ""), ("STOP", ""), ("stop", "x" * (MOST_TEXT + 1))):
            assert not (await approver_of(kernel).answer(question.id, option, text)).accepted
        assert loops(kernel) == [question]
        assert (await approver_of(kernel).answer(question.id, "stop", "read the manual")).accepted
        result = await calls(kernel, "fail.do", {}, 1)
        assert code(result) == (Status.DENIED, Code.PAUSED)
        assert result.error is not None
        assert "read the manual" in result.error.message


async def test_a_secret_in_a_looping_call_is_not_in_its_question(root: Root) -> None:
    root.environ["API_TOKEN"] = "sesame-open-0123"
    root.sidecar("fail", FAIL, tool("fail.do"), permissions={"secrets": ["API_TOKEN"]})
    async with kernel_of(root) as kernel:
        await calls(kernel, "fail.do", {"key": "sesame-open-0123"})
        [question] = loops(kernel)
        assert "sesame-open" not in str(question)
        assert "sesame-open" not in str(root.audit())


async def test_an_agent_sees_its_own_question_and_answers_none(root: Root) -> None:
    async with served(root) as kernel, connect_unix(root.places.socket) as agent:
        await calls(kernel, "fail.do")
        assert await agent.questions() == ()
        for _ in range(3):
            await agent.call("fail.do", {})
        [mine] = await agent.questions()
        async with connect_unix(root.places.socket, viewer=True) as viewer:
            assert len(await viewer.questions()) == 2
        async with plain(root) as connection:
            for kind, payload in (
                ("question.answer", {"id": mine.id, "option": "continue"}),
                ("ask.decide", {"id": mine.id, "choice": "continue"}),
            ):
                assert (await say(connection, kind, payload))["type"] == "error"
            # A message that only reads may have keys that are not known; they do nothing.
            read = await say(connection, "question.list", {"answer": "continue"})
            assert read["type"] == "question.snapshot"
        assert len(loops(kernel)) == 2
        assert code(await agent.call("echo.free", {})) == (Status.DENIED, Code.PAUSED)


async def test_new_and_changed_entries_are_questions_over_what_was_shown(root: Root) -> None:
    async with kernel_of(root, trusted=False) as kernel:
        first = {question.about: question for question in kernel.questions()}
        assert set(first) == {"fail", "echo"}
        assert {question.kind for question in first.values()} == {QuestionKind.TRUST}
        for question in first.values():
            assert [option.id for option in question.options if option.recommended] == [LEAVE]
            assert (await approver_of(kernel).answer(question.id, TRUST)).accepted
        await until(lambda: all(view.trusted for view in kernel.catalog().sidecars))
        assert kernel.questions() == ()
        root.sidecar("echo", ECHO, tool("echo.free"), permissions={"network": True})
        await until(kernel.questions)
        [drift] = kernel.questions()
        assert (drift.kind, drift.about) == (QuestionKind.DRIFT, "echo")
        root.sidecar("echo", ECHO, tool("echo.free"), permissions={"network": True, "desktop": True})
        await until(lambda: kernel.questions() and kernel.questions()[0].id != drift.id)
        assert not (await approver_of(kernel).answer(drift.id, TRUST)).accepted
        [again] = kernel.questions()
        assert (await approver_of(kernel).answer(again.id, LEAVE)).accepted
        assert kernel.questions() == ()
        assert [item.sidecar for item in kernel.pending_trust()] == ["echo"]


async def test_the_process_that_loops_is_forgotten_when_it_has_gone(root: Root) -> None:
    async with await anyio.open_process(["sleep", "600"]) as process, kernel_of(root) as kernel:
        who = identify_peer(process.pid, "socket")
        for _ in range(3):
            await kernel.call(request(kernel, "fail.do", caller=who))
        assert len(loops(kernel)) == 1
        process.kill()
        await process.wait()
        assert loops(kernel) == []
