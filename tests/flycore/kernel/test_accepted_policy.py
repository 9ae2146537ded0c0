"""Looser rules in the user's policy file wait for a person where no console of the kernel wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flycore.client.attach import TerminalApprover
from flycore.client.client import connect_root
from flycore.kernel.kernel import Kernel
from flycore.kernel.questions import ACCEPT
from flycore.model.diagnostics import CheckState
from flycore.model.enums import Decision, QuestionKind, Status
from flycore.model.question import Question
from flycore.policy.looser_rules import written_rule_key
from flycore.server.unix import serve_unix
from kits.kernel import ECHO, Root, approver_of, kernel_of, request, tool, until

pytestmark = pytest.mark.anyio

ALLOW = {"tool": "echo.do", "decision": "allow", "because": "planted"}
DENY = {"tool": "echo.other", "decision": "deny", "because": "never"}
MARK = {"tool": "mark.*", "decision": "deny", "because": "stricter"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.do"), tool("echo.other"), tool("mark.do"))
    return root


def questions(kernel: Kernel) -> list[Question]:
    return [question for question in kernel.questions() if question.kind is QuestionKind.POLICY]


def decision(kernel: Kernel, name: str) -> Decision:
    view = kernel.catalog().capability(name)
    assert view is not None
    return view.decision


def rule_lines(root: Root) -> list[tuple[str, str]]:
    lines = (line for line in root.audit() if line["event"] == "RULE_CHANGED")
    return [(line["decision"], line["rule"]["because"]) for line in lines]


async def waiting(kernel: Kernel, *texts: str) -> Question:
    """Wait for the question with these texts."""

    def found() -> Question | None:
        return next((it for it in questions(kernel) if all(text in str(it.lines) for text in texts)), None)

    question: Question = await until(found)
    return question


async def test_an_allow_that_another_program_writes_counts_only_once_a_person_accepts(root: Root) -> None:
    async with kernel_of(root) as kernel:
        # The deny of the same file counts at once, which shows that the file was read.
        root.policy(ALLOW, MARK)
        question = await waiting(kernel, "allow echo.do · “planted”", "policy.jsonc:1")
        await until(lambda: decision(kernel, "mark.do") is Decision.DENY)
        assert decision(kernel, "echo.do") is Decision.ASK
        assert kernel.status().waiting_rules == 1
        found = [check for check in await kernel.checks() if check.name == "policy"]
        assert [check.state for check in found if "wait" in check.message] == [CheckState.WARN]
        assert (await approver_of(kernel).answer(question.id, ACCEPT)).accepted
        assert decision(kernel, "echo.do") is Decision.ALLOW
        assert (await kernel.call(request(kernel, "echo.do"))).status is Status.SUCCESS
        assert questions(kernel) == []
        assert kernel.status().waiting_rules == 0
    assert rule_lines(root) == [("waits", "planted"), ("accepted", "planted")]


async def test_a_deny_that_a_person_removed_at_a_terminal_is_in_the_log_once(root: Root) -> None:
    root.policy(DENY, MARK)
    async with (
        kernel_of(root, role="on-demand") as kernel,
        serve_unix(kernel, root.places.socket),
        connect_root(root.places, viewer=True) as client,
    ):
        [rule] = [rule for rule in await client.rules() if rule.because == "never"]
        assert (await TerminalApprover(client, root.places).remove_rule(rule.where, rule.digest)).accepted
    async with kernel_of(root) as kernel:
        assert decision(kernel, "echo.other") is Decision.ASK
        assert decision(kernel, "mark.do") is Decision.DENY
    assert rule_lines(root) == [("removed", "never")]


@pytest.mark.parametrize("gone", ["rule", "file", "narrower"])
async def test_a_removed_or_narrower_deny_stays_in_force_until_a_person_accepts(
    root: Root, gone: str
) -> None:
    root.policy(DENY)
    async with kernel_of(root) as kernel:
        assert decision(kernel, "echo.other") is Decision.DENY
        if gone == "rule":
            root.policy()
        elif gone == "file":
            root.places.policy_file.unlink()
        else:
            root.policy({**DENY, "caller": "somebody"})
        question = await waiting(kernel, "gone", "deny echo.other · “never”")
        assert decision(kernel, "echo.other") is Decision.DENY
        assert (await approver_of(kernel).answer(question.id, ACCEPT)).accepted
        assert decision(kernel, "echo.other") is Decision.ASK
    assert rule_lines(root) == [("removal waits", "never"), ("removal accepted", "never")]


def project_policy(root: Root) -> Path:
    return root.folder / "tools" / "policy.jsonc"


@pytest.mark.parametrize("gone", ["rule", "file", "narrower", "ask", "folder"])
async def test_a_loosened_policy_of_the_project_waits_like_the_user_s_own(root: Root, gone: str) -> None:
    root.policy(DENY, MARK, project=True)
    async with kernel_of(root) as kernel:
        assert decision(kernel, "echo.other") is Decision.DENY
        if gone == "rule":
            root.policy(MARK, project=True)
        elif gone == "file":
            project_policy(root).unlink()
        elif gone == "folder":
            (root.folder / "tools").rename(root.folder / "moved")
            (root.folder / "moved" / "policy.jsonc").unlink()
            (root.folder / "moved").rename(root.folder / "tools")
        elif gone == "ask":
            root.policy({**DENY, "decision": "ask"}, MARK, project=True)
        else:
            root.policy({**DENY, "caller": "somebody"}, MARK, project=True)
        question = await waiting(kernel, "gone", "deny echo.other · “never”", "tools/policy.jsonc:1")
        assert decision(kernel, "echo.other") is Decision.DENY
        result = await kernel.call(request(kernel, "echo.other"))
        assert result.status is Status.DENIED
        assert (await approver_of(kernel).answer(question.id, ACCEPT)).accepted
        assert decision(kernel, "echo.other") is Decision.ASK
        assert decision(kernel, "mark.do") is (Decision.ASK if gone in ("file", "folder") else Decision.DENY)
    assert ("removal accepted", "never") in rule_lines(root)


async def test_a_stricter_policy_of_the_project_counts_at_once(root: Root) -> None:
    root.policy({**DENY, "decision": "ask"}, project=True)
    async with kernel_of(root) as kernel:
        root.policy(DENY, MARK, project=True)
        await until(lambda: decision(kernel, "mark.do") is Decision.DENY)
        assert (decision(kernel, "echo.other"), questions(kernel)) == (Decision.DENY, [])
    assert rule_lines(root) == []


async def test_a_rule_that_moves_between_the_files_is_no_loss(root: Root) -> None:
    root.policy(DENY, project=True)
    root.policy()
    async with kernel_of(root) as kernel:
        root.policy(DENY, MARK)
        await until(lambda: decision(kernel, "mark.do") is Decision.DENY)
        root.policy({**MARK, "tool": "echo.do"}, project=True)
        await until(lambda: decision(kernel, "echo.do") is Decision.DENY)
        assert (decision(kernel, "echo.other"), questions(kernel)) == (Decision.DENY, [])


async def test_a_policy_of_the_project_that_cannot_be_read_loosens_nothing_and_asks_no_question(
    root: Root,
) -> None:
    root.policy(DENY, project=True)
    async with kernel_of(root) as kernel:
        project_policy(root).write_text("{")
        await until(lambda: not kernel.status().policy_ok)
        assert (decision(kernel, "echo.other"), questions(kernel)) == (Decision.DENY, [])
        root.policy(DENY, MARK, project=True)
        await until(lambda: decision(kernel, "mark.do") is Decision.DENY)
        assert questions(kernel) == []
    project_policy(root).write_text("{")
    async with kernel_of(root) as kernel:
        # It asks for everything until it is mended; that is no rule that could be lost.
        root.policy(DENY, MARK, project=True)
        await until(lambda: decision(kernel, "mark.do") is Decision.DENY)
        assert questions(kernel) == []


async def test_an_allow_rule_that_was_removed_asks_again_when_it_returns(root: Root) -> None:
    async with kernel_of(root) as kernel:
        for gone in ("file", "rule"):
            root.policy(ALLOW)
            question = await waiting(kernel, "allow echo.do · “planted”")
            assert (await approver_of(kernel).answer(question.id, ACCEPT)).accepted
            assert decision(kernel, "echo.do") is Decision.ALLOW
            if gone == "file":
                root.places.policy_file.unlink()
            else:
                root.policy()
            await until(lambda: decision(kernel, "echo.do") is Decision.ASK)
            root.policy(ALLOW, MARK)
            await waiting(kernel, "allow echo.do · “planted”")
            await until(lambda: decision(kernel, "mark.do") is Decision.DENY)
            assert decision(kernel, "echo.do") is Decision.ASK
            root.policy(MARK)
            await until(lambda: not questions(kernel))
    assert [line for line in rule_lines(root) if line[0] == "accepted"] == [("accepted", "planted")] * 2


async def test_a_rule_of_the_console_asks_when_its_file_was_deleted_and_returns(root: Root) -> None:
    async with kernel_of(root) as kernel:
        # As the console does it: the file first, then the note.
        root.policy(ALLOW)
        kernel._refresher.accepted_policy.note_written(written_rule_key(ALLOW))
        await until(lambda: decision(kernel, "echo.do") is Decision.ALLOW)
        root.places.policy_file.unlink()
        await until(lambda: decision(kernel, "echo.do") is Decision.ASK)
        root.policy(ALLOW)
        await waiting(kernel, "allow echo.do · “planted”")
        assert decision(kernel, "echo.do") is Decision.ASK


async def test_a_change_that_is_undone_asks_nothing_and_an_old_question_accepts_nothing(root: Root) -> None:
    async with kernel_of(root) as kernel:
        root.policy(ALLOW)
        first = await waiting(kernel, "planted")
        root.policy(ALLOW, {**ALLOW, "tool": "echo.other", "because": "more"})
        await waiting(kernel, "planted", "more")
        assert not (await approver_of(kernel).answer(first.id, ACCEPT)).accepted
        root.policy()
        await until(lambda: not questions(kernel))
        assert {decision(kernel, name) for name in ("echo.do", "echo.other")} == {Decision.ASK}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([ALLOW], [MARK]),
        ([ALLOW], [{**ALLOW, "because": "other words"}, MARK]),
        ([ALLOW], [{**ALLOW, "caller": "claude"}, MARK]),
        ([{**DENY, "decision": "ask"}], [DENY, MARK]),
        ([DENY], [{**DENY, "tool": "*"}, MARK]),
    ],
)
async def test_what_is_stricter_counts_at_once(
    root: Root, before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> None:
    root.policy(*before)
    async with kernel_of(root) as kernel:
        root.policy(*after)
        await until(lambda: decision(kernel, "mark.do") is Decision.DENY)
        assert questions(kernel) == []
    assert rule_lines(root) == []


async def test_a_later_kernel_takes_the_file_and_logs_what_is_looser(root: Root) -> None:
    root.policy(DENY)
    async with kernel_of(root):
        pass
    assert rule_lines(root) == []
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        assert decision(kernel, "echo.do") is Decision.ALLOW
        assert decision(kernel, "echo.other") is Decision.ASK
    expected = [("counts since this start", "planted"), ("removed, counts since this start", "never")]
    assert rule_lines(root) == expected
    async with kernel_of(root):
        pass
    assert rule_lines(root) == expected


async def test_nobody_accepts_without_a_console(root: Root) -> None:
    async with kernel_of(root, role="serve", trusted=False) as kernel:
        root.policy(ALLOW, MARK)
        question = await waiting(kernel, "planted")
        assert (question.kind, kernel.status().approver) == (QuestionKind.POLICY, False)
        rules = {rule.because for rule in kernel.rules()}
        assert rules == {"planted", "stricter"}
    assert rule_lines(root) == [("waits", "planted")]
