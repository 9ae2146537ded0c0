"""Plans through a real kernel, over a browser that is a small program which writes down what it is told."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.catalog.builtin import KNOWN
from flycore.catalog.document import visible_catalog
from flycore.catalog.schemas import check_output
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask, LeaseTerms
from flycore.model.call import CallRequest, Progress, ToolResult
from flycore.model.enums import Choice, Code, Effective, LeaseScope, Phase, ReasonCode, Status
from kits.kernel import Root, a_caller, approve, approver_of, kernel_of, request, until, waiting_ask

pytestmark = pytest.mark.anyio
BROWSER = f"""#!{sys.executable}
import json, os, sys, time
request = json.loads(sys.stdin.readline())
log = os.path.join(request["projectDir"], "did.jsonl")
with open(log, "a") as file:
    file.write(json.dumps([request["tool"], request["input"]]) + "\\n")
script = request["input"].get("script", "")
if script == "hang":
    time.sleep(600)
if script == "break":
    print(json.dumps({{"ok": False, "code": "failed", "error": "the page said no"}}))
elif script == "gone":
    print(json.dumps({{"ok": False, "code": "unavailable", "error": "no browser answers"}}))
elif request["tool"] == "browser.screenshot":
    path = os.path.join(request["artifactDir"], "page.png")
    open(path, "wb").write(b"png")
    file = {{"path": path, "mimeType": "image/png", "bytes": 3}}
    print(json.dumps({{"ok": True, "path": path, "width": 1, "height": 1, "artifacts": [file]}}))
else:
    print(json.dumps({{"ok": True, "url": request["input"].get("url", "x"), "title": "t", "result": 1,
                      "tree": "e1", "targets": []}}))
"""
TOOLS = KNOWN["browser.use"].over
ALLOW = {"tool": "browser.*", "decision": "allow", "because": "a test"}
NAVIGATE = {"action": "navigate", "url": "http://127.0.0.1/a"}
SNAPSHOT = {"action": "snapshot"}


def evaluate(script: str) -> dict[str, Any]:
    return {"action": "evaluate", "script": script}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("own.browser", BROWSER, *TOOLS)
    return root


@asynccontextmanager
async def running(root: Root, *rules: dict[str, Any]) -> AsyncIterator[Kernel]:
    if rules:
        root.policy(*rules)
    async with kernel_of(root) as kernel:
        await until(lambda: view_of(kernel).stability.effective.usable)
        yield kernel


def view_of(kernel: Kernel, tool: str = "browser.use") -> Any:
    return kernel.catalog().capability(tool)


def did(root: Root) -> list[str]:
    log = root.folder / "did.jsonl"
    return [json.loads(line)[0] for line in log.read_text().splitlines()] if log.exists() else []


def plan(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"plan": list(steps), **more}


async def use(kernel: Kernel, input: dict[str, Any], **more: Any) -> ToolResult:
    return await kernel.call(request(kernel, "browser.use", input, **more))


def steps_of(result: ToolResult) -> list[dict[str, Any]]:
    held: Any = result.output if result.error is None else result.error.details
    steps: list[dict[str, Any]] = held["steps"]
    return steps


def executed(root: Root) -> list[dict[str, Any]]:
    return [line for line in root.audit() if line["event"] == "TOOL_EXECUTED"]


async def decide(kernel: Kernel, ask: Ask, answer: Answer) -> None:
    outcome = await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)
    assert outcome.accepted, outcome.why_not


async def asked_anew(kernel: Kernel, seen: set[str]) -> Ask:
    """The next request; each is given once."""
    ask: Ask = await until(lambda: next((ask for ask in kernel.asks() if ask.request.id not in seen), None))
    seen.add(ask.request.id)
    return ask


async def test_each_step_is_a_call_of_its_own_with_one_parent(root: Root) -> None:
    async with running(root, ALLOW) as kernel:
        told: list[Progress] = []
        made = request(
            kernel, "browser.use", plan(NAVIGATE, {"action": "wait", "ms": 1}, SNAPSHOT, captureAfter=True)
        )
        result = await kernel.call(made, told.append)
        assert (result.status, result.sidecar, result.sandbox) == (Status.SUCCESS, None, None)
        assert check_output(KNOWN["browser.use"].output_schema, result.output) == ()
        steps = steps_of(result)
        assert [(step["action"], step["status"]) for step in steps] == [
            ("navigate", "success"), ("wait", "success"), ("snapshot", "success"), ("screenshot", "success"),
        ]  # fmt: skip
        assert did(root) == ["browser.navigate", "browser.snapshot", "browser.screenshot"]
        assert [artifact.mime_type for artifact in result.artifacts] == ["image/png"]
        ids = [step["callId"] for step in steps if "callId" in step]
        assert len(set(ids)) == 3
        ends = {line["callId"]: line for line in executed(root)}
        assert {ends[one]["parentCallId"] for one in ids} == {made.call_id}
        assert [ends[one]["step"] for one in ids] == [
            f"step {number} of 4 of browser.use" for number in (1, 3, 4)
        ]
        assert "parentCallId" not in ends[made.call_id]
        starts = [line for line in root.audit() if line["event"] == "TOOL_STARTED"]
        assert [line["parentCallId"] for line in starts] == [made.call_id] * 3
        calls = {call.call_id: call for call in kernel.activity()}
        assert {calls[one].parent_call_id for one in ids} == {made.call_id}
        assert calls[ids[0]].caller == calls[made.call_id].caller == made.caller
        assert {item.call_id for item in told} == {made.call_id}
        assert told[-1].total == 4


async def test_three_steps_are_three_cards_that_say_which(root: Root) -> None:
    async with running(root) as kernel, anyio.create_task_group() as group:
        results: list[ToolResult] = []

        async def run() -> None:
            results.append(await use(kernel, plan(NAVIGATE, SNAPSHOT, evaluate("1"))))

        group.start_soon(run)
        seen: set[str] = set()
        for number, tool in enumerate(("browser.navigate", "browser.snapshot", "browser.evaluate"), 1):
            ask = await asked_anew(kernel, seen)
            assert (ask.request.tool, str(ask.request.step)) == (tool, f"step {number} of 3 of browser.use")
            assert len(did(root)) == number - 1
            assert kernel.status().hands_on is False
            parent = next(call for call in kernel.activity() if call.tool == "browser.use")
            assert parent.phase is Phase.WAITING_APPROVAL
            await approve(kernel, ask)
        await until(lambda: results)
        assert results[0].status is Status.SUCCESS
        assert len(seen) == len(kernel.asks()) == 3


async def test_one_lease_of_the_group_and_nothing_more_is_asked(root: Root) -> None:
    async with running(root) as kernel, anyio.create_task_group() as group:
        results: list[ToolResult] = []

        async def run() -> None:
            results.append(await use(kernel, plan(NAVIGATE, SNAPSHOT, evaluate("1"))))

        group.start_soon(run)
        terms = LeaseTerms(minutes=5, calls=10, scope=LeaseScope.GROUP)
        await decide(kernel, await waiting_ask(kernel), Answer(choice=Choice.LEASE, lease=terms))
        await until(lambda: results)
        assert results[0].status is Status.SUCCESS
        assert len(kernel.asks()) == 1
        starts = [line["authority"] for line in root.audit() if line["event"] == "TOOL_STARTED"]
        assert [words.split()[0] for words in starts] == ["request", "lease", "lease"]


async def test_a_denial_ends_the_plan_with_what_was_done(root: Root) -> None:
    async with running(root) as kernel, anyio.create_task_group() as group:
        results: list[ToolResult] = []

        async def run() -> None:
            results.append(await use(kernel, plan(NAVIGATE, evaluate("1"), SNAPSHOT, captureAfter=True)))

        group.start_soon(run)
        seen: set[str] = set()
        await approve(kernel, await asked_anew(kernel, seen))
        await decide(kernel, await asked_anew(kernel, seen), Answer(choice=Choice.DENY, reason="not that"))
        await until(lambda: results)
        (result,) = results
        assert (result.status, result.error and result.error.code) == (Status.DENIED, Code.DENIED)
        assert result.error is not None
        assert "step 2 of 4" in result.error.message
        assert "not that" in result.error.message
        assert [step["status"] for step in steps_of(result)] == ["success", "denied", "not-run", "not-run"]
        assert steps_of(result)[0]["output"]["url"] == NAVIGATE["url"]
        assert did(root) == ["browser.navigate"]


@pytest.mark.parametrize(
    ("script", "status", "code"),
    [("break", Status.FAILED, "failed"), ("gone", Status.UNAVAILABLE, "tool-unavailable")],
)
async def test_a_step_that_fails_is_the_last(root: Root, script: str, status: Status, code: str) -> None:
    async with running(root, ALLOW) as kernel:
        result = await use(kernel, plan(NAVIGATE, evaluate(script), SNAPSHOT))
        assert (result.status, result.error and result.error.code) == (status, code)
        assert [step["status"] for step in steps_of(result)] == ["success", status.value, "not-run"]
        assert did(root) == ["browser.navigate", "browser.evaluate"]


async def test_cancelling_the_plan_ends_the_tree_of_the_step_that_runs(root: Root) -> None:
    async with running(root, ALLOW) as kernel, anyio.create_task_group() as group:
        results: list[ToolResult] = []
        made = request(kernel, "browser.use", plan(NAVIGATE, evaluate("hang"), SNAPSHOT))

        async def run() -> None:
            results.append(await kernel.call(made))

        group.start_soon(run)
        await until(lambda: did(root)[-1:] == ["browser.evaluate"])
        assert kernel.cancel(made.call_id)
        await until(lambda: results)
        assert results[0].error is not None
        assert results[0].error.code == Code.CANCELLED
        assert [step["status"] for step in steps_of(results[0])] == ["success", "failed", "not-run"]
        assert steps_of(results[0])[1]["code"] == Code.CANCELLED
        assert len(did(root)) == 2
        assert [line.get("code", "") for line in executed(root)] == ["", "cancelled", "cancelled"]
        assert kernel.status().running == 0


async def test_cancelling_the_step_alone_ends_the_plan(root: Root) -> None:
    async with running(root, ALLOW) as kernel, anyio.create_task_group() as group:
        results: list[ToolResult] = []

        async def run() -> None:
            results.append(await use(kernel, plan(evaluate("hang"), SNAPSHOT)))

        group.start_soon(run)
        await until(lambda: did(root))
        step = next(call for call in kernel.activity() if call.tool == "browser.evaluate")
        assert kernel.cancel(step.call_id)
        await until(lambda: results)
        assert results[0].error is not None
        assert results[0].error.code == Code.CANCELLED
        assert did(root) == ["browser.evaluate"]


async def test_a_wait_is_cancelled_at_once(root: Root) -> None:
    async with running(root, ALLOW) as kernel, anyio.create_task_group() as group:
        results: list[ToolResult] = []
        made = request(kernel, "browser.use", plan({"action": "wait", "ms": 60_000}, SNAPSHOT))

        async def run() -> None:
            results.append(await kernel.call(made))

        group.start_soon(run)
        await until(lambda: any(call.phase is Phase.RUNNING for call in kernel.activity()))
        assert kernel.cancel(made.call_id)
        with anyio.fail_after(20):
            await until(lambda: results)
        assert results[0].error is not None
        assert results[0].error.code == Code.CANCELLED
        assert did(root) == []


async def test_the_time_limit_is_that_of_each_step(root: Root) -> None:
    async with running(root, ALLOW) as kernel:
        result = await use(kernel, plan({"action": "wait", "ms": 1500}, SNAPSHOT), timeout_ms=20_000)
        assert result.status is Status.SUCCESS
        result = await use(kernel, plan({"action": "wait", "ms": 300}, evaluate("hang")), timeout_ms=200)
        assert result.error is not None
        assert result.error.code == Code.TIMEOUT
        assert [step["status"] for step in steps_of(result)] == ["success", "failed"]


async def test_the_whole_input_is_checked_before_anything_runs(root: Root) -> None:
    async with running(root, ALLOW) as kernel:
        for bad in (
            plan(NAVIGATE, {"action": "click"}),
            plan(NAVIGATE, {**SNAPSHOT, "url": "http://127.0.0.1/"}),
            plan(NAVIGATE, {"action": "browser.use"}),
            {**NAVIGATE, "plan": [SNAPSHOT]},
        ):
            result = await use(kernel, bad, caller=a_caller(pid=len(json.dumps(bad))))
            assert result.error is not None
            assert result.error.code == Code.INVALID_INPUT
            assert result.error.details["violations"]
        assert did(root) == []
        assert {line["tool"] for line in executed(root)} == {"browser.use"}


async def test_the_group_is_held_from_the_first_step_to_the_last(root: Root) -> None:
    async with running(root, ALLOW) as kernel, anyio.create_task_group() as group:
        ended: list[str] = []

        async def run(name: str, made: CallRequest) -> None:
            result = await kernel.call(made)
            assert result.status is Status.SUCCESS, result
            ended.append(name)

        first = plan(SNAPSHOT, {"action": "wait", "ms": 400}, SNAPSHOT)
        group.start_soon(run, "plan", request(kernel, "browser.use", first))
        await until(lambda: did(root) == ["browser.snapshot"])
        other = request(kernel, "browser.navigate", {"url": "http://127.0.0.1/"}, caller=a_caller("other"))
        group.start_soon(run, "other", other)
        await until(lambda: len(ended) == 2)
        assert did(root) == ["browser.snapshot", "browser.snapshot", "browser.navigate"]
        assert ended == ["plan", "other"]


@pytest.mark.parametrize("when", [None, {"required": ["plan"]}])
async def test_a_deny_of_the_plan_itself_denies_it(root: Root, when: dict[str, Any] | None) -> None:
    deny = {"tool": "browser.use", "decision": "deny", "because": "not here"}
    root.policy(ALLOW, {**deny, **({"when": when} if when else {})})
    async with kernel_of(root) as kernel:
        await until(lambda: view_of(kernel, "browser.open").stability.effective.usable)
        result = await use(kernel, plan(NAVIGATE))
        assert (result.status, result.error and result.error.code) == (Status.DENIED, Code.POLICY)
        assert did(root) == []
        if when is None:
            assert view_of(kernel).stability.reasons[0].code is ReasonCode.POLICY_DENIED


async def test_a_deny_of_one_tool_takes_the_plan_away_and_names_it(root: Root) -> None:
    root.policy(ALLOW, {"tool": "browser.evaluate", "decision": "deny", "because": "no scripts"})
    async with kernel_of(root) as kernel:
        await until(lambda: view_of(kernel, "browser.open").stability.effective.usable)
        (reason,) = view_of(kernel).stability.reasons
        assert "browser.evaluate" in reason.message
        assert "no scripts" in reason.message
        assert "browser.evaluate" in reason.remedy
        assert "browser.use" not in [view.capability.name for view in visible_catalog(kernel.catalog())]
        result = await use(kernel, plan(NAVIGATE))
        assert result.status is Status.DENIED
        assert did(root) == []


async def test_shown_as_high_level_with_the_approval_profile_of_its_tools(root: Root) -> None:
    async with running(root) as kernel:
        view = view_of(kernel)
        assert (view.source, view.sidecar, view.decision) == ("plan", None, "ask")
        assert "browser.evaluate ask" in view.because
        desktop = view_of(kernel, "computer.use")
        assert desktop.stability.effective is Effective.UNAVAILABLE
        named = " ".join(reason.message + reason.remedy for reason in desktop.stability.reasons)
        assert all(tool in named for tool in KNOWN["computer.use"].over)
        result = await kernel.call(request(kernel, "computer.use", {"action": "list_apps"}))
        assert (result.status, result.error and result.error.code) == (Status.UNAVAILABLE, "not-configured")


async def test_no_registry_can_offer_a_plan(root: Root) -> None:
    root.sidecar(
        "cuckoo", BROWSER, {"name": "browser.use", "description": "d", "inputSchema": {}}, "file.hash"
    )
    async with running(root, ALLOW) as kernel:
        assert view_of(kernel).source == "plan"
        assert (await use(kernel, plan(SNAPSHOT))).status is Status.SUCCESS
        assert did(root) == ["browser.snapshot"]
        assert view_of(kernel, "file.hash").sidecar == "cuckoo"


async def test_a_plan_that_waits_for_a_person_hands_out_the_ticket_of_its_step(root: Root) -> None:
    rule = {"tool": "browser.navigate", "decision": "allow", "because": "a test"}
    async with running(root, rule) as kernel:
        result = await use(kernel, plan(NAVIGATE, SNAPSHOT), inline_wait_ms=0)
        assert (result.status, result.error and result.error.code) == (Status.PENDING, Code.APPROVAL_PENDING)
        assert result.error is not None
        assert result.error.details["ticket"]
        assert [step["status"] for step in steps_of(result)] == ["success", "pending"]
        assert "do not repeat" in result.error.hint
        await approve(kernel, await waiting_ask(kernel))
        rest = await use(kernel, plan(SNAPSHOT), inline_wait_ms=0)
        assert rest.status is Status.SUCCESS
        assert did(root) == ["browser.navigate", "browser.snapshot"]


async def test_steps_count_for_the_quota_and_the_plan_once(root: Root) -> None:
    config = root.base / "config" / "flytui"
    config.mkdir(parents=True)
    (config / "config.jsonc").write_text('{"quota": {"callsPerMinute": 4, "running": 1}}')
    async with running(root, ALLOW) as kernel:
        result = await use(kernel, plan(SNAPSHOT, SNAPSHOT, SNAPSHOT))
        assert result.status is Status.SUCCESS, result
        result = await use(kernel, plan(SNAPSHOT))
        assert (result.status, result.error and result.error.code) == (Status.DENIED, Code.QUOTA)
        assert len(did(root)) == 3


async def test_the_same_failing_plan_three_times_pauses_its_caller_once(root: Root) -> None:
    async with running(root, ALLOW) as kernel:
        for _ in range(3):
            assert (await use(kernel, plan(NAVIGATE, evaluate("break")))).status is Status.FAILED
        assert len(kernel.questions()) == 1
        result = await use(kernel, plan(SNAPSHOT))
        assert (result.status, result.error and result.error.code) == (Status.DENIED, Code.PAUSED)


async def test_panic_ends_a_plan_and_no_further_step_runs(root: Root) -> None:
    async with running(root, ALLOW) as kernel, anyio.create_task_group() as group:
        results: list[ToolResult] = []

        async def run() -> None:
            results.append(await use(kernel, plan(evaluate("hang"), SNAPSHOT)))

        group.start_soon(run)
        await until(lambda: did(root))
        assert await kernel.panic("a test")
        await until(lambda: results)
        assert results[0].error is not None
        assert results[0].error.code == Code.PANIC
        assert did(root) == ["browser.evaluate"]
