"""Standing permissions on a real kernel: groups that are kept, blocks, rules, and taking back."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

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
from flycore.server.local import LocalClient
from flysafe.procfs import read_process
from kits.kernel import (
    ECHO,
    Root,
    a_caller,
    answered_call,
    approve,
    approver_of,
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


def living(name: str) -> Caller:
    """A caller whose process is there for as long as the test is: for another one no group is kept."""
    process = read_process(os.getpid())
    assert process is not None
    return msgspec.structs.replace(a_caller(name, process.pid), started=process.started)


def answering(kernel, answer: Answer, *, accepted: bool = True) -> Callable[[Ask], Awaitable[None]]:
    async def give(ask: Ask) -> None:
        outcome = await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)
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
    call = next(call for call in kernel.activity() if call.caller.key == caller.key)
    return call.phase, call.progress.message if call.progress else ""


async def test_a_lease_keeps_its_group_for_its_caller_until_it_is_revoked(root: Root) -> None:
    me, other, results = living("agent"), living("other"), []
    async with kernel_of(root) as kernel:
        await answered_call(kernel, leasing(kernel, calls=50), "hands.one", caller=me)
        (lease,) = kernel.leases()
        assert lease.group == "desk"
        async with calling(kernel, "hands.two", other, results):
            await approve(kernel, await waiting_ask(kernel))
            await until(lambda: phase_of(kernel, other)[0] is Phase.WAITING_GROUP)
            assert "agent" in phase_of(kernel, other)[1]
            for _ in range(3):
                assert (await kernel.call(request(kernel, "hands.one", caller=me))).status is Status.SUCCESS
            assert results == []
            assert await approver_of(kernel).revoke(lease.id)
            await until(lambda: results)
    assert results[0].status is Status.SUCCESS
    assert results[0].waited_ms >= 0
    assert events(root, "LEASE_CHANGED") == [("made", "hands.one"), ("revoked", "hands.one")]


async def test_a_lease_used_up_frees_its_group(root: Root) -> None:
    me, other, results = living("agent"), living("other"), []
    async with kernel_of(root) as kernel:
        await answered_call(kernel, leasing(kernel, calls=2), "hands.one", caller=me)
        async with calling(kernel, "hands.two", other, results):
            await approve(kernel, await waiting_ask(kernel))
            await until(lambda: phase_of(kernel, other)[0] is Phase.WAITING_GROUP)
            assert (await kernel.call(request(kernel, "hands.one", caller=me))).status is Status.SUCCESS
            await until(lambda: results)
    assert results[0].status is Status.SUCCESS


async def test_for_a_caller_that_has_gone_no_group_is_kept(root: Root) -> None:
    results: list[ToolResult] = []
    async with kernel_of(root) as kernel:
        await answered_call(kernel, leasing(kernel, calls=50), "hands.one", caller=a_caller("gone", 2**22))
        async with calling(kernel, "hands.two", living("other"), results):
            await approve(kernel, await waiting_ask(kernel))
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
        assert await approver_of(kernel).revoke(lease.id)
        assert not await approver_of(kernel).revoke(lease.id)
        assert kernel.leases() == ()
        assert (await approver_of(kernel).undo()).accepted
        assert kernel.leases() == (lease,)
        assert not (await approver_of(kernel).undo()).accepted
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
        assert await approver_of(kernel).unblock("echo.do")
        assert not await approver_of(kernel).unblock("echo.do")
        await until(lambda: _blocked(kernel) is None)
        assert (await answered_call(kernel, lambda ask: approve(kernel, ask), "echo.do")).status == "success"
        assert (await approver_of(kernel).undo()).accepted
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
        assert await approver_of(kernel).unblock("*")
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
        outcome = await approver_of(kernel).remove_rule(standing.where, "0" * 64)
        assert not outcome.accepted
        assert (await approver_of(kernel).remove_rule(standing.where, standing.digest)).accepted
        await until(lambda: kernel.catalog().capability("echo.do").decision is Decision.ASK)
        assert (await approver_of(kernel).undo()).accepted
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
            outcome = await approver_of(kernel).decide(
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


async def test_leases_of_one_group_block_nobody_for_good(root: Root) -> None:
    """Three callers, each with leases and calls of its own in one group, and one that gives up."""
    results: list[ToolResult] = []
    async with kernel_of(root) as kernel:

        async def call(caller: Caller) -> None:
            for number in range(4):
                name = ("hands.one", "hands.two")[number % 2]
                results.append(await kernel.call(request(kernel, name, caller=caller)))
            for lease in kernel.leases():
                if lease.caller.key == caller.key:
                    await approver_of(kernel).revoke(lease.id)

        async def decide() -> None:
            while True:
                for ask in kernel.asks():
                    if ask.state is RequestState.WAITING:
                        await leasing(kernel, calls=3, scope=LeaseScope.GROUP)(ask)
                await anyio.sleep(0.01)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as deciding:
                deciding.start_soon(decide)
                async with anyio.create_task_group() as calls:
                    for name in ("one", "two", "three"):
                        calls.start_soon(call, living(name))
                    async with calling(kernel, "hands.one", a_caller("gone", 2**22), []):
                        await until(lambda: any(call.caller.program == "gone" for call in kernel.activity()))
                deciding.cancel_scope.cancel()
    assert [result.status for result in results] == [Status.SUCCESS] * 12


async def test_identical_calls_that_share_a_card_are_counted_by_its_lease(root: Root) -> None:
    results: list[ToolResult] = []
    async with kernel_of(root) as kernel:
        async with (
            calling(kernel, "echo.do", a_caller(), results),
            calling(kernel, "echo.do", a_caller(), results),
        ):
            await until(lambda: any(ask.count == 2 for ask in kernel.asks()))
            await leasing(kernel, calls=5)(await waiting_ask(kernel))
            await until(lambda: len(results) == 2)
        (lease,) = kernel.leases()
        assert (lease.used, lease.calls_left) == (2, 3)


async def test_nothing_that_lets_more_through_is_done_while_a_tool_has_the_keys(root: Root) -> None:
    root.policy({"tool": "x.y", "decision": "deny", "because": "no"})
    async with kernel_of(root) as kernel:
        await answered_call(kernel, leasing(kernel), "echo.other")
        (lease,), (denial,) = kernel.leases(), kernel.rules()
        assert kernel._permissions.blocks.block("echo.do", 1.0) == ""
        with kernel._context.run.desktop_control.call_running():
            assert await approver_of(kernel).revoke(lease.id)
            assert not (await approver_of(kernel).undo()).accepted
            assert not await approver_of(kernel).unblock("echo.do")
            assert not (await approver_of(kernel).remove_rule(denial.where, denial.digest)).accepted
        assert kernel.leases() == ()
        assert kernel.rules() == (denial,)
