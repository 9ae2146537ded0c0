"""The second half of what products got wrong about approval: defaults, queues, rules, trust, sandbox."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask, LeaseTerms, RuleTerms
from flycore.model.call import ToolResult
from flycore.model.enums import Choice, Code, Decision, Level, ReasonCode, RequestState, Status
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import SandboxReport
from flycore.sandbox.detection import SandboxSupport
from flycore.sandbox.levels import report
from kits.kernel import (
    Root,
    answered_call,
    approve,
    approved_call,
    approver_of,
    kernel_of,
    request,
    tool,
    until,
    waiting_ask,
)

pytestmark = pytest.mark.anyio

MARK = """#!/bin/sh
read -r request
echo ran >> "{marks}"
printf '{{"ok": true}}\\n'
"""
ALLOW = {"tool": "echo.do", "decision": "allow", "because": "harmless"}
ONCE = Answer(choice=Choice.APPROVE_ONCE)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", MARK.format(marks=tmp_path / "marks"), tool("echo.do"), tool("echo.other"))
    made.places.config_dir.mkdir(parents=True, exist_ok=True)
    return made


def runs(root: Root) -> int:
    marks = root.base / "marks"
    return len(marks.read_text().splitlines()) if marks.exists() else 0


def code_of(result: ToolResult) -> str:
    assert result.error is not None, result
    return result.error.code


def waiting(kernel: Kernel) -> list[Ask]:
    return [ask for ask in kernel.asks() if ask.state is RequestState.WAITING]


async def counts(kernel: Kernel, ask: Ask, answer: Answer) -> bool:
    return (await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)).accepted


async def no_wait(kernel: Kernel, name: str) -> ToolResult:
    return await kernel.call(request(kernel, name, inline_wait_ms=0))


def configure(root: Root, text: str) -> None:
    (root.places.config_dir / "config.jsonc").write_text(text)


async def test_the_default_differs_between_ui_and_kernel(root: Root) -> None:
    """The list says that a tool is asked for, and the kernel runs it; or the other way round."""
    root.sidecars["utility.local"] = {
        "command": "flytui-sidecar",
        "args": ["utility.local"],
        "permissions": {"fs": {"read": ["."]}},
        "tools": ["file.hash"],
    }
    root.sidecar("low", MARK.format(marks=root.base / "marks"), tool("low.do", risk="low", readOnly=True))
    root.policy({**ALLOW, "tool": "echo.other", "decision": "deny"})
    (root.folder / "a.txt").write_text("a")
    told = {Decision.ALLOW: "ran", Decision.ASK: Code.NO_APPROVER, Decision.DENY: Code.POLICY}
    seen: set[Decision] = set()
    async with kernel_of(root, role="on-demand") as kernel:
        for name in ("file.hash", "echo.do", "echo.other", "low.do"):
            view = kernel.catalog().capability(name)
            assert view is not None
            given = {"path": "a.txt"} if name == "file.hash" else {}
            result = await kernel.call(request(kernel, name, given))
            ended = "ran" if result.status is Status.SUCCESS else code_of(result)
            assert ended == told[Decision(view.decision)], name
            seen.add(Decision(view.decision))
    assert seen == set(told)


async def test_the_call_proceeds_while_its_prompt_is_open(root: Root) -> None:
    """The prompt is drawn, and the program has been started already."""
    root.policy({**ALLOW, "tool": "echo.other"})
    async with kernel_of(root) as kernel:

        async def look(ask: Ask) -> None:
            for number in range(1, 4):
                await kernel.call(request(kernel, "echo.other"))
                assert runs(root) == number
            started = [line for line in root.audit() if line["event"] == "TOOL_STARTED"]
            assert {line["tool"] for line in started} == {"echo.other"}
            await approve(kernel, ask)

        await answered_call(kernel, look, "echo.do")
    assert runs(root) == 4


async def test_an_overflow_fails_open(root: Root) -> None:
    """More requests than the queue holds are waved through, or push out the ones that wait."""
    configure(root, '{"approvals": {"queuePerCaller": 2}}')
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        for number in range(2):
            group.start_soon(kernel.call, request(kernel, "echo.do", {"n": number}))
        await waiting_ask(kernel, 2)
        before = waiting(kernel)
        for number in range(2, 6):
            result = await kernel.call(request(kernel, "echo.do", {"n": number}))
            assert (result.status, code_of(result)) == (Status.DENIED, Code.QUEUE_FULL)
        assert waiting(kernel) == before
        group.cancel_scope.cancel()
    assert runs(root) == 0


async def test_an_allow_listed_call_is_stuck_behind_a_prompt(root: Root) -> None:
    """What policy allows waits until somebody has answered another call's card."""
    root.policy({**ALLOW, "tool": "echo.other"})
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        group.start_soon(kernel.call, request(kernel, "echo.do"))
        await waiting_ask(kernel)
        with anyio.fail_after(30):
            assert (await kernel.call(request(kernel, "echo.other"))).status is Status.SUCCESS
        assert len(waiting(kernel)) == 1
        group.cancel_scope.cancel()


UNKNOWN: list[Any] = ["", "yes", "Approve-once", "APPROVE_ONCE", "approve", "always", "allow", None, True, 0]


async def test_an_unknown_decision_is_read_as_allow(root: Root) -> None:
    """Whatever is not a refusal counts as a yes, on the card and in the policy file."""
    root.policy({**ALLOW, "decision": "alow"}, {**ALLOW, "decision": True}, {**ALLOW, "decision": "ALLOW"})
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        group.start_soon(kernel.call, request(kernel, "echo.do"))
        ask = await waiting_ask(kernel)
        for odd in UNKNOWN:
            assert not await counts(kernel, ask, Answer(choice=odd)), odd
        rule: Any = RuleTerms(decision=Decision.ASK, tool="echo.do", because="?")
        terms = (rule, None, msgspec.structs.replace(rule, decision="yes"))
        for odd in terms:
            assert not await counts(kernel, ask, Answer(choice=Choice.RULE, rule=odd)), odd
        assert waiting(kernel) == [ask]
        group.cancel_scope.cancel()
    assert runs(root) == 0


async def test_the_rule_write_failed_but_the_ui_says_saved(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer counts although the rule that it stands on could not be written."""

    def full(path: Path, data: bytes, mode: int = 0o600) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("flycore.policy.rule_file.write_atomic", full)
    terms = RuleTerms(decision=Decision.ALLOW, tool="echo.do", because="harmless")
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        group.start_soon(kernel.call, request(kernel, "echo.do"))
        ask = await waiting_ask(kernel)
        answer = Answer(choice=Choice.RULE, rule=terms)
        outcome = await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)
        assert not outcome.accepted
        assert "no rule was written" in outcome.why_not
        assert waiting(kernel) == [ask]
        assert kernel.rules() == ()
        group.cancel_scope.cancel()
    assert runs(root) == 0
    assert not [line for line in root.audit() if line["event"] == "RULE_CHANGED"]


async def test_case_or_underscore_in_a_name_breaks_a_rule_silently(root: Root) -> None:
    """A rule whose name is spelt a little otherwise is taken, matches nothing, and nobody says so."""
    root.sidecar("my", MARK.format(marks=root.base / "marks"), tool("my_tool.do_it"), tool("my-tool.do-it"))
    root.policy({**ALLOW, "tool": "my_tool.*", "decision": "deny"}, {**ALLOW, "tool": "Echo.do"})
    async with kernel_of(root, role="on-demand") as kernel:
        told = [item for item in kernel.catalog().diagnostics if item.rule == "policy-rule"]
        assert [item.remedy for item in told] == ["did you mean 'echo.do'?"]
        codes = {
            name: code_of(await kernel.call(request(kernel, name)))
            for name in ("my_tool.do_it", "my-tool.do-it", "echo.do")
        }
    assert codes == {
        "my_tool.do_it": Code.POLICY,
        "my-tool.do-it": Code.NO_APPROVER,
        "echo.do": Code.NO_APPROVER,
    }


async def test_a_revoke_from_a_stale_list_erases_newer_grants(root: Root) -> None:
    """What a list showed is gone, and the key takes away what stands in its place by now."""
    lease = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=2))
    root.policy({**ALLOW, "tool": "echo.other", "because": "old"})

    async def leased(ask: Ask) -> None:
        assert await counts(kernel, ask, lease)

    async with kernel_of(root) as kernel:
        await answered_call(kernel, leased, "echo.do")
        (stale,) = kernel.leases()
        await kernel.call(request(kernel, "echo.do"))
        await answered_call(kernel, leased, "echo.do")
        newer = kernel.leases()
        await approver_of(kernel).revoke(stale.id)
        assert not await approver_of(kernel).revoke(stale.id)
        assert kernel.leases() == newer
        (shown,) = kernel.rules()
        root.policy({**ALLOW, "tool": "echo.other", "because": "new"})
        assert not (await approver_of(kernel).remove_rule(shown.where, shown.digest)).accepted
        (shown,) = kernel.rules()
        assert shown.because == "new"
        await until(lambda: kernel.catalog().capability("echo.other").decision is Decision.ALLOW)
        assert (await approver_of(kernel).remove_rule(shown.where, shown.digest)).accepted
        assert (await no_wait(kernel, "echo.other")).status is Status.PENDING


class Sandbox:
    """The sandbox as it is found on this machine, which may change under a call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, level: Level) -> None:
        self.level = level
        monkeypatch.setattr("flycore.pipeline.prepare.report", self.report)

    def report(self, entry: SidecarEntry, support: SandboxSupport, *, bundled: bool) -> SandboxReport:
        return msgspec.structs.replace(report(entry, support, bundled=bundled), level=self.level)


async def test_a_missing_sandbox_runs_it_unconfined(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Approved for a sandbox that is not there at the start: it runs without one, and nobody is told.

    The levels here confine nothing, so that the program runs at either; tests/flycore/pipeline/
    test_confined_calls.py has those that do."""
    sandbox = Sandbox(monkeypatch, Level.HOST_CONTROL)
    configure(root, '{"sandbox": {"minimum": {"echo.do": "none"}}}')
    async with kernel_of(root) as kernel:

        async def fall_then_approve(ask: Ask) -> None:
            assert ask.request.level is Level.HOST_CONTROL
            sandbox.level = Level.NONE
            await approve(kernel, ask)
            again = await waiting_ask(kernel)
            assert again.request.level is Level.NONE
            assert again.request.difference[:2] == ('- /level: "host-control"', '+ /level: "none"')
            assert runs(root) == 0
            assert await counts(kernel, again, Answer(choice=Choice.DENY))

        result = await answered_call(kernel, fall_then_approve, "echo.do")
        assert code_of(result) == Code.DENIED
        sandbox.level = Level.HOST_CONTROL
        lease = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=5))

        async def leased(ask: Ask) -> None:
            assert await counts(kernel, ask, lease)

        await answered_call(kernel, leased, "echo.do")
        assert (await kernel.call(request(kernel, "echo.do"))).status is Status.SUCCESS
        sandbox.level = Level.NONE
        assert (await approved_call(kernel, "echo.do")).status is Status.SUCCESS
    assert runs(root) == 3
    started = [line["level"] for line in root.audit() if line["event"] == "TOOL_STARTED"]
    assert started == [Level.HOST_CONTROL, Level.HOST_CONTROL, Level.NONE]


async def test_the_first_run_trusts_whatever_is_there(root: Root) -> None:
    """A fresh clone brings its programs, and they run before anybody has seen them."""
    root.policy({**ALLOW, "tool": "*"})
    root.sidecar("asks", MARK.format(marks=root.base / "marks"), probe={"args": ["--probe"]})
    async with kernel_of(root, trusted=False) as kernel:
        assert {item.sidecar for item in kernel.pending_trust()} == {"echo", "asks"}
        for name in ("echo.do", "asks.do"):
            kernel.probe(name.partition(".")[0])
            result = await kernel.call(request(kernel, name))
            assert (result.status, code_of(result)) == (Status.UNAVAILABLE, ReasonCode.FOLDER_UNTRUSTED)
        (shown,) = (item for item in kernel.pending_trust() if item.sidecar == "echo")
        assert (await approver_of(kernel).trust(((shown.sidecar, shown.digest),))).accepted
        assert (await kernel.call(request(kernel, "echo.do"))).status is Status.SUCCESS
        assert code_of(await kernel.call(request(kernel, "asks.do"))) == ReasonCode.FOLDER_UNTRUSTED
    assert runs(root) == 1


async def test_one_bad_rule_discards_the_policy(root: Root) -> None:
    """A single mistake in the file, and none of its rules is in force."""
    root.policy(
        {**ALLOW, "decision": "deny"},
        {"tool": "echo.other", "decision": "deny", "becuase": "typo"},
        {"tool": "*", "decision": "alow", "because": "typo"},
    )
    async with kernel_of(root, role="on-demand") as kernel:
        assert code_of(await kernel.call(request(kernel, "echo.do"))) == Code.POLICY
        assert code_of(await kernel.call(request(kernel, "echo.other"))) == Code.NO_APPROVER
        told = [item for item in kernel.catalog().diagnostics if item.rule.startswith("policy")]
        await until(lambda: len(told) >= 2)
    assert all(item.position is not None for item in told)
