"""What an agent does with tools of its own, decided in the kernel: the same policy, card, queue and log."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flycore.catalog.builtin import AGENT_ACTIONS, agent_actions
from flycore.catalog.schemas import check_input
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask, LeaseTerms
from flycore.model.enums import Choice, Code, Effective, Level, RequestState, Risk, Status
from flycore.model.json import digest
from flycore.server.queries import redacted_ask
from flytui.text.card import CardStyle, render_card
from kits.kernel import (
    ECHO,
    Root,
    a_caller,
    answered_call,
    approve,
    approved_call,
    approver_of,
    kernel_of,
    request,
    tool,
    until,
)

pytestmark = pytest.mark.anyio

SHELL = {"command": "rm -rf build", "cwd": "/src/shop"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def allowed(input: dict[str, Any]) -> dict[str, str]:
    """The one answer there is."""
    return {"decision": "allow", "input": digest(input)}


@pytest.mark.parametrize("name", sorted(AGENT_ACTIONS))
async def test_each_is_whole_and_asks(root: Root, name: str) -> None:
    capability = agent_actions()[name]
    example: dict[str, Any] = dict(capability.examples[0])
    assert check_input(capability.input_schema, example)[1] == ()
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, name, example)
        assert (result.status, result.output, result.sidecar) == (Status.SUCCESS, allowed(example), None)
        assert result.sandbox is Level.NONE
        assert kernel.catalog().capability(name) is None


async def test_the_card_says_what_and_that_nothing_holds_it(root: Root) -> None:
    shown: list[Ask] = []

    async def look(ask: Ask) -> None:
        shown.append(ask)
        await approve(kernel, ask)

    async with kernel_of(root) as kernel:
        await answered_call(kernel, look, "agent.shell", SHELL, said="tidy up")
    asked = shown[0].request
    text = "\n".join(line.text for line in render_card(asked, 200))
    assert asked.risk is Risk.HIGH
    assert 'let the agent run the command "rm -rf build" in its own shell, in the folder "/src/shop"' in text
    assert "runs in the agent itself, not sandboxed and not sealed by flytui" in text
    assert "not enforced" in text
    assert "tidy up" in text


async def test_a_denial_brings_the_reason(root: Root) -> None:
    async def deny(ask: Ask) -> None:
        answer = Answer(choice=Choice.DENY, reason="use make clean")
        await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)

    async with kernel_of(root) as kernel:
        result = await answered_call(kernel, deny, "agent.shell", SHELL)
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.DENIED, Code.DENIED)
    assert "use make clean" in result.error.message


RULES = [
    {
        "tool": "agent.shell",
        "when": {"properties": {"command": {"pattern": "^git status$"}}},
        "decision": "allow",
        "because": "it only looks",
    },
    {
        "tool": "agent.*",
        "when": {"properties": {"command": {"pattern": "sudo"}}, "required": ["command"]},
        "decision": "deny",
        "because": "nobody is root here",
    },
]


async def test_the_person_s_rules_count_by_name_and_input(root: Root) -> None:
    root.policy(*RULES)
    async with kernel_of(root) as kernel:
        free = await kernel.call(request(kernel, "agent.shell", {"command": "git status"}))
        assert free.output == allowed({"command": "git status"})
        never = await kernel.call(request(kernel, "agent.shell", {"command": "sudo true"}))
        assert never.error is not None
        assert never.error.code == Code.POLICY
        events = [line["event"] for line in root.audit() if line.get("tool") == "agent.shell"]
        assert events.count("TOOL_STARTED") == 1


async def test_nobody_there_is_no_yes(root: Root) -> None:
    async with kernel_of(root, role="on-demand", trusted=False) as kernel:
        result = await kernel.call(request(kernel, "agent.shell", SHELL))
    assert result.error is not None
    assert result.error.code == Code.NO_APPROVER


async def test_a_lease_holds_as_for_any_tool(root: Root) -> None:
    lease = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=2))
    async with kernel_of(root) as kernel:
        first = await answered_call(kernel, partial(decide, kernel, lease), "agent.shell", SHELL)
        second = await kernel.call(request(kernel, "agent.shell", SHELL))
        assert (first.output, second.output) == (allowed(SHELL), allowed(SHELL))
        assert kernel.leases() == ()


async def test_a_remembered_refusal_holds_as_for_any_tool(root: Root) -> None:
    deny = Answer(choice=Choice.DENY, deny_minutes=10, reason="not today")
    async with kernel_of(root) as kernel:
        await answered_call(kernel, partial(decide, kernel, deny), "agent.shell", SHELL)
        again = await kernel.call(request(kernel, "agent.shell", {"command": "ls"}))
    assert again.error is not None
    assert (again.status, again.error.code) == (Status.DENIED, Code.DENIED)
    assert "not today" in again.error.message


async def test_a_block_holds_for_every_caller(root: Root) -> None:
    given = {"tool": "mcp__notes__add", "input": {}}
    async with kernel_of(root) as kernel:
        await answered_call(kernel, partial(decide, kernel, Answer(choice=Choice.BLOCK)), "agent.tool", given)
        other = request(kernel, "agent.tool", given, caller=a_caller("other", 7))
        blocked = await kernel.call(other)
    assert blocked.error is not None
    assert blocked.error.code == Code.BLOCKED


async def decide(kernel: Kernel, answer: Answer, ask: Ask) -> None:
    """A person's answer to exactly this card."""
    told = await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)
    assert told.accepted, told.why_not


async def test_a_session_is_not_over_after_fifty_commands(root: Root) -> None:
    root.policy({"tool": "agent.shell", "decision": "allow", "because": "test"})
    settings = root.base / "config" / "flytui" / "config.jsonc"
    settings.write_text('{"quota": {"highRiskPerSession": 0}}')
    async with kernel_of(root) as kernel:
        assert (await kernel.call(request(kernel, "agent.shell", SHELL))).status is Status.SUCCESS


async def test_no_registry_offers_such_a_name(root: Root) -> None:
    root.sidecar("bad", ECHO, tool("agent.shell"))
    async with kernel_of(root, trusted=False) as kernel:
        view = kernel.catalog().sidecar("bad")
        assert view is not None
        assert view.stability.effective is Effective.UNAVAILABLE


# --- a file that the agent changes


async def asked_for(kernel: Kernel, change: dict[str, Any]) -> Ask:
    """The card of an edit, approved once it has been seen."""
    shown: list[Ask] = []

    async def look(ask: Ask) -> None:
        shown.append(ask)
        await approve(kernel, ask)

    await answered_call(kernel, look, "agent.edit", change)
    return shown[0]


async def test_an_edit_shows_what_it_makes_of_the_file_to_the_person_alone(root: Root) -> None:
    file = root.folder / "notes.txt"
    file.write_text("one\ntwo\nthree\n")
    change = {"path": "notes.txt", "cwd": str(root.folder), "edits": [{"old": "two", "new": "2\x1b[31m"}]}
    async with kernel_of(root) as kernel:
        ask = await asked_for(kernel, change)
    assert ask.request.diff == ("@@ line 1", " one", "-two", "+2\x1b[31m", " three")
    lines = [(line.style, line.text) for line in render_card(ask.request, 100)]
    assert (CardStyle.REMOVED, "-two") in lines
    assert any(style is CardStyle.ADDED and "\x1b" not in text and "⟦" in text for style, text in lines)
    for viewer in (True, False):
        assert redacted_ask(ask, viewer=viewer).request.diff == ()
    assert redacted_ask(ask, viewer=False).request.subject.preview is None


async def test_an_edit_of_a_file_that_changed_meanwhile_is_asked_again(root: Root) -> None:
    file = root.folder / "notes.txt"
    file.write_text("one\n")
    change = {"path": str(file), "edits": [{"old": "one", "new": "1"}]}
    seen: list[Ask] = []

    async with kernel_of(root) as kernel:

        async def twice(first: Ask) -> None:
            file.write_text("one\nmore\n")
            await approve(kernel, first)
            seen.append(await _after(kernel, first))
            await approve(kernel, seen[0])

        result = await answered_call(kernel, twice, "agent.edit", change)
    assert result.status is Status.SUCCESS
    assert any("sha256" in line for line in seen[0].request.difference)


async def _after(kernel: Kernel, first: Ask) -> Ask:
    def found() -> Ask | None:
        waiting = (ask for ask in kernel.asks() if ask.state is RequestState.WAITING)
        return next((ask for ask in waiting if ask.request.id != first.request.id), None)

    ask: Ask = await until(found)
    return ask


async def test_what_cannot_be_read_is_said_and_never_waited_for(root: Root) -> None:
    os.mkfifo(root.folder / "pipe")
    (root.folder / "bytes").write_bytes(b"\xff\xfe")
    (root.folder / "real").write_text("x")
    (root.folder / "link").symlink_to("real")
    edit = {"edits": [{"old": "a", "new": "b"}]}
    async with kernel_of(root) as kernel:
        for name, why in (("pipe", "not a regular file"), ("bytes", "UTF-8"), (".", "not a regular file")):
            ask = await asked_for(kernel, {"path": str(root.folder / name), **edit})
            assert ask.request.subject.preview is not None
            assert why in ask.request.subject.preview.unread
        ask = await asked_for(kernel, {"path": str(root.folder / "link"), "content": "x"})
        assert ask.request.subject.preview is not None
        assert ask.request.subject.preview.file == str(root.folder / "real")
