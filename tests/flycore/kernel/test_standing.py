"""Standing permissions on a real kernel: groups that are kept, blocks, rules, and taking back."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from flycore.client.local import LocalClient
from flycore.model.approval import Answer, Ask, LeaseTerms, RuleTerms
from flycore.model.call import Caller, ToolResult
from flycore.model.enums import (
    Choice,
    Code,
    Decision,
    Effective,
    LeaseScope,
    Phase,
    ReasonCode,
    RequestState,
    Status,
)
from kernelkit import (
    ECHO,
    Root,
    a_caller,
    answered_call,
    approve,
    kernel_of,
    request,
    tool,
    until,
    waiting_ask,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", ECHO, tool("echo.do"), tool("echo.other"))
    made.sidecar("hands", ECHO, tool("hands.one", exclusive="desk"), tool("hands.two", exclusive="desk"))
    return made


def answering(kernel, answer: Answer, *, accepted: bool = True) -> Callable[[Ask], Awaitable[None]]:
    async def give(ask: Ask) -> None:
        outcome = await kernel.approver.decide(ask.request.id, ask.request.subject_digest, answer)
        assert outcome.accepted is accepted, outcome.why_not

    return give


def leasing(kernel, **more) -> Callable[[Ask], Awaitable[None]]:
    terms = LeaseTerms(**{"minutes": 5, "calls": 3, **more})
    return answering(kernel, Answer(choice=Choice.LEASE, lease=terms))


def events(root: Root, name: str) -> list[tuple]:
    return [(line["decision"], line.get("tool", "")) for line in root.audit() if line["event"] == name]


@asynccontextmanager
async def calling(kernel, name: str, caller: Caller, results: list[ToolResult]):
    """A call under way in a task of its own; ended when the block ends."""
    async with anyio.create_task_group() as group:

        async def run() -> None:
            results.append(await kernel.call(request(kernel, name, caller=caller)))

        group.start_soon(run)
        yield
        group.cancel_scope.cancel()


def phase_of(kernel, caller: Caller) -> tuple[Phase, str]:
    call = next(call for call in kernel.activity() if call.caller.pid == caller.pid)
    return call.phase, call.progress.message if call.progress else ""


async def test_a_lease_keeps_its_group_for_its_caller_until_it_is_revoked(root: Root) -> None:
    other, results = a_caller("other", 5151), []
    async with kernel_of(root) as kernel:
        await answered_call(kernel, leasing(kernel, calls=50), "hands.one")
        (lease,) = kernel.leases()
        assert lease.group == "desk"
        async with calling(kernel, "hands.two", other, results):
            await approve(kernel, await waiting_ask(kernel))
            await until(lambda: phase_of(kernel, other)[0] is Phase.WAITING_GROUP)
            assert "agent" in phase_of(kernel, other)[1]
            for _ in range(3):
                assert (await kernel.call(request(kernel, "hands.one"))).status is Status.SUCCESS
            assert results == []
            assert await kernel.approver.revoke(lease.id)
            await until(lambda: results)
    assert results[0].status is Status.SUCCESS
    assert results[0].waited_ms >= 0
    assert events(root, "LEASE_CHANGED") == [("made", "hands.one"), ("revoked", "hands.one")]


async def test_a_lease_used_up_frees_its_group(root: Root) -> None:
    other, results = a_caller("other", 5151), []
    async with kernel_of(root) as kernel:
        await answered_call(kernel, leasing(kernel, calls=2), "hands.one")
        async with calling(kernel, "hands.two", other, results):
            await approve(kernel, await waiting_ask(kernel))
            await until(lambda: phase_of(kernel, other)[0] is Phase.WAITING_GROUP)
            assert (await kernel.call(request(kernel, "hands.one"))).status is Status.SUCCESS
            await until(lambda: results)
    assert results[0].status is Status.SUCCESS


async def test_a_group_lease_runs_the_other_tool_of_the_group_unasked(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await answered_call(kernel, leasing(kernel, scope=LeaseScope.GROUP), "hands.one")
        assert (await kernel.call(request(kernel, "hands.two"))).status is Status.SUCCESS
        assert kernel.leases()[0].used == 2


async def test_a_revoked_lease_comes_back_once(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await answered_call(kernel, leasing(kernel), "echo.do")
        (lease,) = kernel.leases()
        assert await kernel.approver.revoke(lease.id)
        assert not await kernel.approver.revoke(lease.id)
        assert kernel.leases() == ()
        assert (await kernel.approver.undo()).accepted
        assert kernel.leases() == (lease,)
        assert not (await kernel.approver.undo()).accepted
        assert (await kernel.call(request(kernel, "echo.do"))).status is Status.SUCCESS
    assert [decision for decision, _ in events(root, "LEASE_CHANGED")] == ["made", "revoked", "restored"]


async def test_a_blocked_tool_is_refused_to_everybody_and_after_a_restart(root: Root) -> None:
    first, second, third = [], [], []
    async with kernel_of(root) as kernel:
        await answered_call(kernel, leasing(kernel), "echo.do", caller=a_caller("leased", 77))
        async with (
            calling(kernel, "echo.do", a_caller("one", 1), first),
            calling(kernel, "echo.do", a_caller("two", 2), second),
            calling(kernel, "echo.other", a_caller("three", 3), third),
        ):
            await waiting_ask(kernel, 3)
            ask = next(ask for ask in kernel.asks() if ask.request.caller.program == "one")
            await answering(kernel, Answer(choice=Choice.BLOCK, reason="too loud"))(ask)
            await until(lambda: first and second)
            left = [ask.request.tool for ask in kernel.asks() if ask.state is RequestState.WAITING]
        assert left == ["echo.other"]
        assert {item.error.code for item in (*first, *second)} == {Code.DENIED}
        assert kernel.leases() == ()
        at_once = await kernel.call(request(kernel, "echo.do", caller=a_caller("leased", 77)))
        assert (at_once.status, at_once.error.code) == (Status.DENIED, "blocked")
        view = await until(lambda: _blocked(kernel))
        assert view.stability.effective is Effective.UNAVAILABLE
        assert (await kernel.call(request(kernel, "echo.do"))).error.code == "blocked"
        assert [block.tool for block in await LocalClient(kernel, a_caller()).blocks()] == ["echo.do"]
    async with kernel_of(root) as kernel:
        assert (await kernel.call(request(kernel, "echo.do"))).error.code == "blocked"
        assert await kernel.approver.unblock("echo.do")
        assert not await kernel.approver.unblock("echo.do")
        await until(lambda: _blocked(kernel) is None)
        assert (await answered_call(kernel, lambda ask: approve(kernel, ask), "echo.do")).status == "success"
        assert (await kernel.approver.undo()).accepted
        assert (await kernel.call(request(kernel, "echo.do"))).error.code == "blocked"
    assert [decision for decision, _ in events(root, "BLOCK_CHANGED")] == ["blocked", "unblocked", "restored"]


def _blocked(kernel):
    view = kernel.catalog().capability("echo.do")
    return view if view.stability.reasons and view.stability.reasons[0].code is ReasonCode.BLOCKED else None


async def test_an_unreadable_list_of_blocks_refuses_everything_and_the_kernel_starts(root: Root) -> None:
    root.places.state_dir.mkdir(parents=True, mode=0o700)
    (root.places.state_dir / "blocks.json").write_text("not json")
    async with kernel_of(root) as kernel:
        assert (await kernel.call(request(kernel, "echo.do"))).error.code == "blocked"
        assert any(item.rule == "blocks-file" for item in kernel.catalog().diagnostics)
        assert await kernel.approver.unblock("*")
        await until(lambda: _blocked(kernel) is None)
        assert (await answered_call(kernel, lambda ask: approve(kernel, ask), "echo.do")).status == "success"


def rule(decision: str = "allow", **more) -> Answer:
    terms = {"decision": Decision(decision), "tool": "echo.do", "because": "as I like it", **more}
    return Answer(choice=Choice.RULE, rule=RuleTerms(**terms))


async def test_an_allow_rule_is_written_first_and_runs_this_call_and_the_next(root: Root) -> None:
    async with kernel_of(root) as kernel:
        result = await answered_call(kernel, answering(kernel, rule()), "echo.do", {"n": 1})
        assert result.status is Status.SUCCESS
        await until(lambda: kernel.catalog().capability("echo.do").decision is Decision.ALLOW)
        assert (await kernel.call(request(kernel, "echo.do"))).status is Status.SUCCESS
        (standing,) = kernel.rules()
        assert (standing.tool, standing.decision) == ("echo.do", "allow")
        assert standing.from_request == kernel.asks()[0].request.id
        assert standing.used >= 1
        outcome = await kernel.approver.remove_rule(standing.where, "0" * 64)
        assert not outcome.accepted
        assert (await kernel.approver.remove_rule(standing.where, standing.digest)).accepted
        await until(lambda: kernel.catalog().capability("echo.do").decision is Decision.ASK)
        assert (await kernel.approver.undo()).accepted
        assert kernel.rules()[0].digest == standing.digest
    decisions = [decision for decision, _ in events(root, "RULE_CHANGED")]
    assert decisions == ["written", "removed", "restored"]


async def test_a_deny_rule_denies_this_call_and_the_next(root: Root) -> None:
    async with kernel_of(root) as kernel:
        result = await answered_call(kernel, answering(kernel, rule("deny")), "echo.do")
        assert result.error.code == Code.DENIED
        await until(lambda: kernel.catalog().capability("echo.do").decision is Decision.DENY)
        assert (await kernel.call(request(kernel, "echo.do"))).error.code == Code.POLICY


@pytest.mark.parametrize("why", ["broken file", "read-only folder", "no match", "asks", "caller's case"])
async def test_a_rule_that_was_not_written_decides_nothing(root: Root, why: str) -> None:
    config = root.places.config_dir
    config.mkdir(parents=True)
    answers = {
        "no match": rule(tool="Echo.do"),
        "asks": rule("ask"),
        "caller's case": rule(caller="AGENT"),
    }
    if why == "broken file":
        (config / "policy.jsonc").write_text('{"schemaVersion": 1, "rules": [')
    if why == "read-only folder":
        (config / "policy.jsonc").mkdir()
    before = sorted(config.iterdir())
    async with kernel_of(root) as kernel:
        results: list[ToolResult] = []
        async with calling(kernel, "echo.do", a_caller(), results):
            ask = await waiting_ask(kernel)
            outcome = await kernel.approver.decide(
                ask.request.id, ask.request.subject_digest, answers.get(why, rule())
            )
            assert not outcome.accepted
            assert outcome.why_not
            assert results == []
            assert kernel.asks()[0].state is RequestState.WAITING
    assert sorted(config.iterdir()) == before


async def test_what_stands_is_written_down_without_inputs(root: Root) -> None:
    when = {"properties": {"n": {"const": "sesame"}}, "required": ["n"]}
    async with kernel_of(root) as kernel:
        await answered_call(kernel, answering(kernel, rule(when=when)), "echo.do", {"n": "sesame"})
    (line,) = [line for line in root.audit() if line["event"] == "RULE_CHANGED"]
    assert "match" not in line["rule"]
    assert json.loads((root.places.config_dir / "policy.jsonc").read_text())["rules"][0]["match"]
