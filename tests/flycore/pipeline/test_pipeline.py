"""One call through the whole pipeline, with real programs and a person's real answers."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from flycore.model.approval import Answer, Ask, LeaseTerms
from flycore.model.enums import Choice, Code, Level, ReasonCode, Status
from kits.kernel import (
    ECHO,
    Root,
    a_caller,
    answered_call,
    approve,
    approved_call,
    approver_of,
    kernel_of,
    processes_of,
    request,
    tool,
    until,
    waiting_ask,
)
from kits.sandbox_levels import hold_level

pytestmark = pytest.mark.anyio

MARK = """#!/bin/sh
read -r request
printf '%s\\n' "$request" >> marks
printf '{"ok": true}\\n'
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


async def test_an_approved_call_runs_once_and_every_line_carries_its_digest(root: Root) -> None:
    root.sidecar("echo", MARK)
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, "echo.do", {"n": 1})
    assert result.status is Status.SUCCESS
    assert (root.folder / "marks").read_text().count("\n") == 1
    lines = [line for line in root.audit() if line.get("callId") == result.call_id]
    assert [line["event"] for line in lines] == [
        "TOOL_CALLED",
        "APPROVAL_ASKED",
        "APPROVAL_DECIDED",
        "TOOL_STARTED",
        "TOOL_EXECUTED",
    ]
    assert len({line["subject"] for line in lines[1:]}) == 1


async def test_a_denial_reaches_the_caller_with_its_reason_and_nothing_runs(root: Root) -> None:
    root.sidecar("echo", MARK)

    async with kernel_of(root) as kernel:

        async def deny(ask: Ask) -> None:
            answer = Answer(choice=Choice.DENY, reason="not today")
            await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)

        result = await answered_call(kernel, deny, "echo.do")
    assert (result.status, result.error and result.error.code) == (Status.DENIED, Code.DENIED)
    assert result.error is not None
    assert "not today" in result.error.message
    assert not (root.folder / "marks").exists()


async def test_without_a_console_nobody_is_asked(root: Root) -> None:
    root.sidecar("echo", MARK)
    async with kernel_of(root, role="on-demand") as kernel:
        result = await kernel.call(request(kernel, "echo.do"))
    assert result.error is not None
    assert (result.status, result.error.code, result.exit_status) == (Status.DENIED, Code.NO_APPROVER, 4)


async def test_a_policy_allow_asks_nobody_and_a_deny_ends_before_everything(root: Root) -> None:
    root.sidecar("echo", MARK, tool("echo.a"), tool("echo.b"))
    root.policy(
        {"tool": "echo.a", "decision": "allow", "because": "harmless"},
        {"tool": "echo.b", "decision": "deny", "because": "never"},
    )
    async with kernel_of(root) as kernel:
        allowed = await kernel.call(request(kernel, "echo.a"))
        denied = await kernel.call(request(kernel, "echo.b"))
    assert allowed.status is Status.SUCCESS
    assert denied.status is Status.DENIED
    assert denied.error is not None
    assert denied.error.code == Code.POLICY


async def test_a_project_policy_cannot_allow(root: Root) -> None:
    root.sidecar("echo", MARK)
    root.policy({"tool": "*", "decision": "allow", "because": "trust me"}, project=True)
    async with kernel_of(root, role="on-demand") as kernel:
        result = await kernel.call(request(kernel, "echo.do"))
    assert result.error is not None
    assert result.error.code == Code.NO_APPROVER


SWAPS = ["program", "entry", "interpreter-line", "policy"]


@pytest.mark.parametrize("swap", SWAPS)
async def test_what_changed_after_the_card_is_asked_again_with_the_difference(root: Root, swap: str) -> None:
    program = root.sidecar("echo", MARK)
    async with kernel_of(root) as kernel:

        async def change_then_approve(ask: Ask) -> None:
            if swap == "program":
                program.write_text(MARK.replace("true}", 'true, "evil": 1}'))
            elif swap == "interpreter-line":
                program.write_text(MARK.replace("/bin/sh", "/bin/bash"))
            elif swap == "entry":
                root.sidecars["echo"]["timeoutMs"] = 12345
                root.write()
                waiting = await until(kernel.pending_trust)
                await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in waiting))
            else:
                root.policy({"tool": "other", "decision": "ask", "because": "new"})
                await until(lambda: any(e["event"] == "POLICY_CHANGED" for e in root.audit()))
            await approve(kernel, ask)
            again = await waiting_ask(kernel)
            assert again.request.id != ask.request.id
            assert again.request.difference
            await approve(kernel, again)

        result = await answered_call(kernel, change_then_approve, "echo.do")
    assert result.status is Status.SUCCESS
    assert "APPROVAL_STALE" in [line["event"] for line in root.audit()]


async def test_a_second_change_ends_it_as_stale(root: Root) -> None:
    program = root.sidecar("echo", MARK)
    async with kernel_of(root) as kernel:

        async def keep_changing(ask: Ask) -> None:
            program.write_text(MARK + "# 1\n")
            await approve(kernel, ask)
            again = await waiting_ask(kernel)
            program.write_text(MARK + "# 2\n")
            await approve(kernel, again)

        result = await answered_call(kernel, keep_changing, "echo.do")
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.DENIED, Code.APPROVAL_STALE)
    assert not (root.folder / "marks").exists()


async def test_a_lease_runs_the_next_calls_and_ends_when_the_program_changes(root: Root) -> None:
    program = root.sidecar("echo", MARK)
    async with kernel_of(root) as kernel:

        async def lease(ask: Ask) -> None:
            answer = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=3))
            outcome = await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)
            assert outcome.accepted, outcome.why_not

        first = await answered_call(kernel, lease, "echo.do", {"n": 1})
        second = await kernel.call(request(kernel, "echo.do", {"n": 2}))
        program.write_text(MARK + "# changed\n")
        third = await approved_call(kernel, "echo.do", {"n": 3})
        other = await approved_call(kernel, "echo.do", {"n": 4}, caller=a_caller("other", 77))
    assert {first.status, second.status, third.status, other.status} == {Status.SUCCESS}
    asked = [line for line in root.audit() if line["event"] == "APPROVAL_ASKED"]
    assert len(asked) == 3


async def test_a_lone_program_runs_from_a_private_copy(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    # bubblewrap shows the copy in the program's own place.
    hold_level(Level.DEGRADED, monkeypatch)
    root.sidecar("where", '#!/bin/sh\nread -r request\nprintf \'{"ok": true, "at": "%s"}\\n\' "$0"\n')
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, "where.do")
    assert isinstance(result.output, dict)
    ran_at = str(result.output["at"])
    assert ran_at.startswith(str(root.places.data_dir / "store"))


async def test_every_violation_of_the_input_is_named_and_nothing_starts(root: Root) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
        "required": ["n", "s"],
        "additionalProperties": False,
    }
    root.sidecar("echo", MARK, tool("echo.do", inputSchema=schema))
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "echo.do", {"n": "x", "extra": 1}))
    assert result.error is not None
    assert (result.error.code, result.exit_status) == (Code.INVALID_INPUT, 2)
    assert len(result.error.details["violations"]) == 3
    assert not (root.folder / "marks").exists()


async def test_defaults_are_part_of_what_is_approved_and_of_what_runs(root: Root) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}
    root.sidecar("echo", MARK, tool("echo.do", inputSchema=schema))
    async with kernel_of(root) as kernel:
        shown: list[str] = []

        async def look(ask: Ask) -> None:
            shown.append(ask.request.input_json)
            await approve(kernel, ask)

        await answered_call(kernel, look, "echo.do")
    assert shown == ['{"n":7}']
    assert json.loads((root.folder / "marks").read_text())["input"] == {"n": 7}


async def test_an_unknown_tool_names_the_nearest(root: Root) -> None:
    root.sidecar("echo", ECHO)
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "echo.d"))
    assert result.error is not None
    assert (result.error.code, result.exit_status) == (Code.NOT_FOUND, 3)
    assert result.error.details["nearest"] == ["echo.do"]


async def test_an_untrusted_entry_is_never_started(root: Root) -> None:
    root.sidecar("echo", MARK, probe={"mode": "request"})
    async with kernel_of(root, trusted=False) as kernel:
        result = await kernel.call(request(kernel, "echo.do"))
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.UNAVAILABLE, ReasonCode.FOLDER_UNTRUSTED)
    assert not (root.folder / "marks").exists()


async def test_secrets_are_injected_when_declared_and_masked_everywhere(root: Root) -> None:
    secret = "s3cr3t-value-long-enough"
    root.environ["API_TOKEN_X"] = secret
    root.environ["OTHER_SECRET"] = "not-declared-anywhere"
    script = (
        '#!/bin/sh\nread -r request\necho "err $API_TOKEN_X" >&2\n'
        'printf \'{"ok": true, "out": "%s", "other": "%s"}\\n\' "$API_TOKEN_X" "$OTHER_SECRET"\n'
    )
    root.sidecar("leak", script, permissions={"secrets": ["API_TOKEN_X"]})
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, "leak.do", {"note": f"my {secret}"})
        activity = kernel.activity()
        asks = kernel.asks()
    assert isinstance(result.output, dict)
    assert result.output["other"] == ""
    everything = repr((result, activity, [ask.request.input_json for ask in asks])) + json.dumps(root.audit())
    assert secret not in everything


async def test_a_missing_secret_makes_the_tool_unavailable_and_names_it(root: Root) -> None:
    root.sidecar("leak", ECHO, permissions={"secrets": ["API_TOKEN_X"]})
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "leak.do"))
    assert result.error is not None
    assert result.error.code == ReasonCode.SECRET_MISSING
    assert "API_TOKEN_X" in result.error.message + result.error.hint


SLEEPER = """#!/bin/sh
read -r request
sleep 1000 &
echo $! > child
echo $$ > parent
sleep 1000
"""


async def test_cancelling_ends_the_whole_tree(root: Root) -> None:
    root.sidecar("slow", SLEEPER)
    root.policy({"tool": "slow.*", "decision": "allow", "because": "test"})
    async with kernel_of(root) as kernel:
        wanted = request(kernel, "slow.do")
        results = []

        async def run() -> None:
            results.append(await kernel.call(wanted))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await until((root.folder / "parent").exists)
            await until(lambda: (root.folder / "parent").read_text().strip())
            assert kernel.cancel(wanted.call_id)
    assert results[0].error.code == Code.CANCELLED
    assert results[0].exit_status == 130
    assert results[0].duration_ms > 0
    assert processes_of(root) == []


async def test_a_stopping_kernel_leaves_no_child(root: Root) -> None:
    root.sidecar("slow", SLEEPER)
    root.policy({"tool": "slow.*", "decision": "allow", "because": "test"})
    results = []
    async with anyio.create_task_group() as group, kernel_of(root) as kernel:

        async def run() -> None:
            results.append(await kernel.call(request(kernel, "slow.do")))

        group.start_soon(run)
        await until((root.folder / "parent").exists)
        await until(lambda: (root.folder / "parent").read_text().strip())
    assert results[0].error.code == Code.CANCELLED
    assert processes_of(root) == []
    assert root.audit()[-1]["event"] == "TOOL_EXECUTED"


OVERLAP = """#!/bin/sh
read -r request
mkdir busy || { printf '{"ok": false, "code": "failed", "error": "overlap"}\\n'; exit 0; }
sleep 0.05
rmdir busy
printf '{"ok": true}\\n'
"""


async def test_calls_of_one_exclusive_group_never_overlap(root: Root) -> None:
    root.sidecar("one", OVERLAP, tool("one.do", exclusive="gate"), tool("one.other", exclusive="gate"))
    root.policy({"tool": "one.*", "decision": "allow", "because": "test"})
    results = []
    async with kernel_of(root) as kernel:

        async def run(name: str, number: int) -> None:
            caller = a_caller(f"agent{number}", 1000 + number)
            results.append(await kernel.call(request(kernel, name, caller=caller)))

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(run, "one.do" if number % 2 else "one.other", number)
    assert [result.status for result in results] == [Status.SUCCESS] * 8


async def test_a_caller_over_quota_is_told_when_it_is_free_again(root: Root) -> None:
    root.sidecar("echo", ECHO)
    root.policy({"tool": "echo.*", "decision": "allow", "because": "test"})
    settings = root.base / "config" / "flytui" / "config.jsonc"
    settings.write_text('{"quota": {"callsPerMinute": 2}}')
    async with kernel_of(root) as kernel:
        results = [await kernel.call(request(kernel, "echo.do")) for _ in range(3)]
        other = await kernel.call(request(kernel, "echo.do", caller=a_caller("other", 9)))
        limited = kernel.catalog(request(kernel, "echo.do").caller.key).capability("echo.do")
        free, whole = kernel.catalog(a_caller("other", 9).key), kernel.catalog()
    assert limited is not None
    assert (limited.stability.sandbox, limited.stability.effective) == ("quota-limited", "degraded")
    assert limited.stability.reasons[-1].code == "quota-limited"
    assert "2 calls in the last minute" in limited.stability.reasons[-1].message
    assert free == whole
    assert [result.status for result in results] == [Status.SUCCESS, Status.SUCCESS, Status.DENIED]
    assert results[2].error.code == Code.QUOTA
    assert 0 < results[2].error.details["freeInSeconds"] <= 30
    assert 0 < results[2].error.details["retryAfterMs"] <= 30_000
    assert other.status is Status.SUCCESS


async def test_a_caller_that_leaves_withdraws_its_request(root: Root) -> None:
    root.sidecar("echo", MARK)
    async with kernel_of(root) as kernel:
        async with anyio.create_task_group() as group:
            group.start_soon(kernel.call, request(kernel, "echo.do"))
            ask = await waiting_ask(kernel)
            group.cancel_scope.cancel()
        outcome = await approver_of(kernel).decide(
            ask.request.id, ask.request.subject_digest, Answer(choice=Choice.APPROVE_ONCE)
        )
        states = [item.state.value for item in kernel.asks()]
    assert not outcome.accepted
    assert states == ["withdrawn"]
    assert not (root.folder / "marks").exists()


async def test_nothing_runs_while_the_audit_log_cannot_be_written(root: Root) -> None:
    root.sidecar("echo", MARK)
    root.policy({"tool": "echo.*", "decision": "allow", "because": "test"})
    async with kernel_of(root) as kernel:
        log = next((root.places.audit_dir).glob("*.jsonl"))
        with log.open("ab") as file:
            file.write(b"somebody else writes here\n")
        result = await kernel.call(request(kernel, "echo.do"))
        again = await kernel.call(request(kernel, "echo.do"))
        catalog = kernel.catalog()
    assert result.status is Status.FAILED
    assert result.error is not None
    assert result.error.details["fault"] == "audit-unwritable"
    assert again.status is Status.FAILED
    assert catalog.capability("echo.do") is not None
    assert not (root.folder / "marks").exists()


UNAVAILABLE = """#!/bin/sh
read -r request
printf '{"ok": false, "code": "unavailable", "error": "no printer", "remedy": "plug one in"}\\n'
exit 1
"""


async def test_a_sidecar_that_says_unavailable_is_unavailable_with_its_reason(root: Root) -> None:
    root.sidecar("print", UNAVAILABLE)
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, "print.do")
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.UNAVAILABLE, ReasonCode.TOOL_UNAVAILABLE)
    assert "no printer" in result.error.message
    assert result.exit_status == 3


GARBAGE = """#!/bin/sh
read -r request
[ -e good ] && printf '{"ok": true}\\n' || echo garbage
"""


async def test_a_sidecar_that_talks_nonsense_is_degraded_until_its_next_good_call(root: Root) -> None:
    root.sidecar("odd", GARBAGE)
    root.policy({"tool": "odd.*", "decision": "allow", "because": "test"})

    def effective() -> str:
        view = kernel.catalog().capability("odd.do")
        return view.stability.effective.value if view else ""

    async with kernel_of(root) as kernel:
        first = await kernel.call(request(kernel, "odd.do"))
        await until(lambda: effective() == "degraded")
        view = kernel.catalog().capability("odd.do")
        (root.folder / "good").touch()
        second = await kernel.call(request(kernel, "odd.do"))
        await until(lambda: effective() == "available")
    assert first.error is not None
    assert first.error.code == Code.INVALID_OUTPUT
    assert view is not None
    assert [reason.code for reason in view.stability.reasons] == [ReasonCode.RUNTIME_SCHEMA_ERROR]
    assert second.status is Status.SUCCESS
