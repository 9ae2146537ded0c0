"""What well-known products got wrong about approval, one test each, at a real kernel and its real door.

The order is that of suite S6; `test_rivals_console.py` has those of the list that show on a card. Left for
the doors that are not there yet, under the same names: the prompt that reappears after a second console has
attached, the viewer who attaches later with a pairing code, and the MCP client that gives up after 60 s
although progress is sent. What is tested of them here is what the Unix socket and the kernel do.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.client.client import connect_unix
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask, LeaseTerms, RuleTerms
from flycore.model.call import Progress, ToolResult
from flycore.model.enums import Choice, Code, Decision, Phase, RequestState, Status
from flycore.policy.evaluate import load_policy
from kits.kernel import (
    Root,
    a_caller,
    answered_call,
    approve,
    approver_of,
    close_console,
    kernel_of,
    open_console,
    request,
    tool,
    until,
    waiting_ask,
)
from kits.unix_socket import plain, served

pytestmark = pytest.mark.anyio

MARK = """#!/bin/sh
read -r request
printf '%s\\n' "$request" >> "{marks}"
printf '{{"ok": true}}\\n'
"""
LEASE = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=5))
DENY = Answer(choice=Choice.DENY)
ALLOW = {"tool": "echo.do", "decision": "allow", "because": "harmless"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", MARK.format(marks=tmp_path / "marks"))
    made.places.config_dir.mkdir(parents=True, exist_ok=True)
    return made


def ran(root: Root) -> list[Any]:
    """The inputs that the program was run with, in order."""
    marks = root.base / "marks"
    lines = marks.read_text().splitlines() if marks.exists() else []
    return [json.loads(line)["input"] for line in lines]


def code_of(result: ToolResult) -> str:
    assert result.error is not None, result
    return result.error.code


def waiting(kernel: Kernel) -> list[Ask]:
    return [ask for ask in kernel.asks() if ask.state is RequestState.WAITING]


async def decide(kernel: Kernel, ask: Ask, answer: Answer) -> str:
    """Why the answer did not count; empty where it did."""
    outcome = await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)
    assert outcome.accepted is (outcome.why_not == "")
    return outcome.why_not


def answering(kernel: Kernel, answer: Answer) -> Callable[[Ask], Awaitable[None]]:
    async def give(ask: Ask) -> None:
        assert await decide(kernel, ask, answer) == ""

    return give


def rule(decision: Decision = Decision.ALLOW, **more: Any) -> Answer:
    terms = {"tool": "echo.do", "because": "harmless", "caller": "/usr/bin/agent", **more}
    return Answer(choice=Choice.RULE, rule=RuleTerms(decision=decision, **terms))


async def no_wait(kernel: Kernel, given: dict[str, Any]) -> ToolResult:
    return await kernel.call(request(kernel, "echo.do", given, inline_wait_ms=0))


async def test_redaction_hides_path_or_host(root: Root) -> None:
    """A mask over more than the secret's exact value leaves the person blind to where the call goes."""
    root.environ["API_TOKEN_X"] = "s3cr3t-value-long-enough"
    root.sidecars["echo"]["permissions"] = {"secrets": ["API_TOKEN_X"]}
    root.write()
    given = {
        "path": "/home/me/.ssh/id_rsa",
        "token": "not-ours-but-named-so",
        "url": "https://evil.example/api_token_x?key=s3cr3t-value-long-enough#password",
    }
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        group.start_soon(kernel.call, request(kernel, "echo.do", given))
        shown = json.loads((await waiting_ask(kernel)).request.input_json)
        group.cancel_scope.cancel()
    assert (shown["path"], shown["token"]) == (given["path"], given["token"])
    before, after = str(given["url"]).split("s3cr3t-value-long-enough")
    assert shown["url"].startswith(before)
    assert shown["url"].endswith(after)
    assert "s3cr3t" not in shown["url"]


async def test_remember_saves_a_rule_that_never_matches(root: Root) -> None:
    """The rule that a card writes is of another spelling than the call, and the next call is asked again."""
    given = {"path": "docs/a b.md", "n": 1}
    when = {"properties": {"path": {"const": "docs/a b.md"}}, "required": ["path"]}
    async with kernel_of(root) as kernel:
        await answered_call(kernel, answering(kernel, rule(when=when)), "echo.do", given)
        assert (await kernel.call(request(kernel, "echo.do", given))).status is Status.SUCCESS
        useless = ({"tool": "other.*"}, {"caller": "/usr/bin/Agent"}, {"when": {"required": ["z"]}})
        for number, terms in enumerate(useless):

            async def refused_then_approved(ask: Ask, terms: dict[str, Any] = terms) -> None:
                assert await decide(kernel, ask, rule(**terms))
                await approve(kernel, await waiting_ask(kernel))

            await answered_call(kernel, refused_then_approved, "echo.do", {"n": number})
    assert len(load_policy(root.places, None).rules) == 1


async def test_a_remembered_answer_is_lost_for_a_background_caller(root: Root) -> None:
    """A lease given while the caller is away holds for it when it comes back, and so does a refusal."""
    async with kernel_of(root) as kernel:
        assert (await no_wait(kernel, {"n": 1})).status is Status.PENDING
        assert await decide(kernel, await waiting_ask(kernel), LEASE) == ""
        for number in (1, 2, 3):
            assert (await no_wait(kernel, {"n": number})).status is Status.SUCCESS
        other = a_caller("other")
        wanted = request(kernel, "echo.do", {"n": 4}, caller=other, inline_wait_ms=0)
        assert (await kernel.call(wanted)).status is Status.PENDING
        lasting = Answer(choice=Choice.DENY, deny_minutes=10)
        assert await decide(kernel, await waiting_ask(kernel), lasting) == ""
        for number in (4, 5):
            wanted = request(kernel, "echo.do", {"n": number}, caller=other, inline_wait_ms=0)
            assert code_of(await kernel.call(wanted)) == Code.DENIED
    assert ran(root) == [{"n": 1}, {"n": 2}, {"n": 3}]


async def test_an_edited_input_is_not_checked_again(root: Root) -> None:
    """What a person typed into the card goes past the schema and past policy."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}
    root.sidecars["echo"]["tools"] = [tool("echo.do", inputSchema=schema)]
    root.write()
    root.policy({**ALLOW, "decision": "deny", "when": {"properties": {"n": {"const": 3}}}})
    async with kernel_of(root) as kernel:

        async def edit(ask: Ask) -> None:
            for bad in ({"n": 10}, {"n": "5"}, {}, {"n": 3}):
                outcome = await approver_of(kernel).edit(ask.request.id, ask.request.subject_digest, bad)
                assert not outcome.accepted, bad
            assert waiting(kernel) == [ask]
            assert (
                await approver_of(kernel).edit(ask.request.id, ask.request.subject_digest, {"n": 5})
            ).accepted
            assert await decide(kernel, ask, Answer(choice=Choice.APPROVE_ONCE))
            await approve(kernel, waiting(kernel)[0])

        await answered_call(kernel, edit, "echo.do", {"n": 1})
    assert ran(root) == [{"n": 5}]


async def test_a_policy_changed_while_the_card_is_open_uses_the_old_verdict(root: Root) -> None:
    """The verdict is the one of the moment at which the card appeared."""
    async with kernel_of(root) as kernel:

        async def deny_then_approve(ask: Ask) -> None:
            root.policy({**ALLOW, "decision": "deny"})
            await until(lambda: any(line["event"] == "POLICY_CHANGED" for line in root.audit()))
            await approve(kernel, ask)

        assert code_of(await answered_call(kernel, deny_then_approve, "echo.do")) == Code.POLICY
    assert ran(root) == []


async def test_the_queue_is_cleared_or_newest_first(root: Root) -> None:
    """One answer, or a change of policy, empties the queue; or the last one to come is asked first."""
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(kernel.call, request(kernel, "echo.do", {"n": number}))
            await waiting_ask(kernel, number + 1)
        assert [ask.request.subject.input["n"] for ask in waiting(kernel)] == [0, 1, 2, 3]
        assert await decide(kernel, waiting(kernel)[1], DENY) == ""
        root.policy({"tool": "other", "decision": "deny", "because": "new"})
        await until(lambda: any(line["event"] == "POLICY_CHANGED" for line in root.audit()))
        group.start_soon(kernel.call, request(kernel, "echo.do", {"n": 4}))
        await waiting_ask(kernel, 4)
        assert [ask.request.subject.input["n"] for ask in waiting(kernel)] == [0, 2, 3, 4]
        group.cancel_scope.cancel()


async def test_the_same_id_answers_another_call(root: Root) -> None:
    """Two connections name their calls alike, and the answer to one is taken for the other's."""
    call = {"protocol": "flyflor.ws.v1", "id": "m1", "type": "tool.call", "at": 0}
    async with served(root) as kernel, plain(root) as one, plain(root) as two:
        for number, connection in enumerate((one, two)):
            payload = {"tool": "echo.do", "input": {"n": number}}
            await connection.send(json.dumps({**call, "payload": payload}))
            await waiting_ask(kernel, number + 1)
        first, second = waiting(kernel)
        crossed = Answer(choice=Choice.APPROVE_ONCE)
        outcome = await approver_of(kernel).decide(first.request.id, second.request.subject_digest, crossed)
        assert not outcome.accepted
        await approve(kernel, second)
        message: dict[str, Any] = {"type": ""}
        while message["type"] != "tool.result":
            message = json.loads(await two.recv())
        assert message["payload"]["status"] == Status.SUCCESS
        assert [ask.request.id for ask in waiting(kernel)] == [first.request.id]
    assert ran(root) == [{"n": 1}]


async def test_a_sibling_request_is_marked_answered(root: Root) -> None:
    """Of two calls made together one is answered, and both are taken as approved."""
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        results: list[ToolResult] = []

        async def call(number: int) -> None:
            results.append(await kernel.call(request(kernel, "echo.do", {"n": number})))

        for number in range(3):
            group.start_soon(call, number)
            await waiting_ask(kernel, number + 1)
        _, second, third = waiting(kernel)
        await approve(kernel, second)
        assert await decide(kernel, third, DENY) == ""
        await until(lambda: len(results) == 2)
        assert [ask.request.subject.input for ask in waiting(kernel)] == [{"n": 0}]
        group.cancel_scope.cancel()
    assert ran(root) == [{"n": 1}]


async def test_the_prompt_reappears_after_a_reattach(root: Root) -> None:
    """A person who comes back is asked again what is answered, and a second yes lets it run again."""
    async with kernel_of(root) as kernel:
        await no_wait(kernel, {"n": 1})
        ask = await waiting_ask(kernel)
        await approve(kernel, ask)
        close_console(kernel)
        open_console(kernel)
        assert waiting(kernel) == []
        assert "already approved" in await decide(kernel, ask, Answer(choice=Choice.APPROVE_ONCE))
        assert (await no_wait(kernel, {"n": 1})).status is Status.SUCCESS
    async with kernel_of(root) as kernel:
        assert waiting(kernel) == []
        assert (await no_wait(kernel, {"n": 1})).status is Status.PENDING
    assert ran(root) == [{"n": 1}]


async def test_a_viewer_who_attaches_later_sees_nothing(root: Root) -> None:
    """Only who was attached when the request came is told of it."""
    async with served(root) as kernel, anyio.create_task_group() as group:
        group.start_soon(kernel.call, request(kernel, "echo.do", {"n": 1}))
        ask = await waiting_ask(kernel)
        async with connect_unix(root.places.socket, viewer=True) as viewer, viewer.events() as heard:
            assert [(seen.request.id, seen.state) for seen in await viewer.asks()] == [
                (ask.request.id, RequestState.WAITING)
            ]
            assert [call.phase for call in await viewer.activity()] == [Phase.WAITING_APPROVAL]
            assert (await viewer.status()).waiting == 1
            assert await decide(kernel, ask, DENY) == ""
            with anyio.fail_after(20):
                async for event in heard:
                    if event.type == "approval.decided":
                        break
            assert [seen.state for seen in await viewer.asks()] == [RequestState.DENIED]


async def test_the_client_times_out_though_progress_is_sent(root: Root) -> None:
    """A caller is left hanging until its own limit of 60 s, and the answer is lost with it."""
    steps: list[Progress] = []
    async with served(root) as kernel, connect_unix(root.places.socket) as client:
        assert kernel.inline_wait_ms <= 30_000
        pending = await client.call("echo.do", {"n": 1}, inline_wait_ms=50, on_progress=steps.append)
        assert (pending.status, code_of(pending)) == (Status.PENDING, Code.APPROVAL_PENDING)
        assert steps[-1].phase is Phase.WAITING_APPROVAL
        steps.clear()
        async with anyio.create_task_group() as group:
            told = lambda step: steps.append(step)  # noqa: E731 - a name for what is handed in
            group.start_soon(lambda: client.call("echo.do", {"n": 1}, on_progress=told))
            await until(lambda: any(step.phase is Phase.WAITING_APPROVAL for step in steps))
            assert ran(root) == []
            await approve(kernel, await waiting_ask(kernel))
    assert ran(root) == [{"n": 1}]
