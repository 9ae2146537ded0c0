"""What a person decides on the terminal of a command: a kernel on demand takes it, and no other does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flycore.client.attach import ConsoleApprover, TerminalApprover
from flycore.client.client import KernelClient, connect_root
from flycore.model.approval import Answer
from flycore.model.enums import Choice
from flycore.model.errors import ProtocolError
from flycore.model.question import PANIC_QUESTION
from flycore.server.console_session import UNPAIRED
from flycore.server.unix import serve_unix
from kits.kernel import ECHO, Root, kernel_of, tool

pytestmark = pytest.mark.anyio
DENY = {"tool": "echo.other", "decision": "deny", "because": "never"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    found = Root(tmp_path)
    found.sidecar("echo", ECHO, tool("echo.do"), tool("echo.other"))
    found.policy(DENY)
    return found


@asynccontextmanager
async def client_of(root: Root, role: str) -> AsyncIterator[KernelClient]:
    """A kernel in that role, and a viewer at its socket, as a command is."""
    async with (
        kernel_of(root, role=role, trusted=False) as kernel,
        serve_unix(kernel, root.places.socket),
        connect_root(root.places, viewer=True) as client,
    ):
        yield client


async def test_trust_is_given_to_exactly_what_was_shown(root: Root) -> None:
    async with client_of(root, "on-demand") as client:
        approver = TerminalApprover(client, root.places)
        (item,) = await client.pending_trust()
        await approver.trust(((item.sidecar, "0" * 64),))
        assert await client.pending_trust() == (item,)
        assert (await approver.trust(((item.sidecar, item.digest),))).accepted
        assert await client.pending_trust() == ()
    (line,) = [line for line in root.audit() if line["event"] == "TRUST_DECIDED"]
    assert "a terminal" in str(line)


async def test_a_stop_is_released_and_a_rule_is_removed(root: Root) -> None:
    async with client_of(root, "on-demand") as client:
        approver = TerminalApprover(client, root.places)
        assert await client.panic()
        (question,) = [one for one in await client.questions() if one.id == PANIC_QUESTION]
        assert (await approver.answer(question.id, question.options[0].id)).accepted
        assert not (await client.status()).panic
        (rule,) = await client.rules()
        assert (await approver.remove_rule(rule.where, rule.digest)).accepted
        assert await client.rules() == ()


@pytest.mark.parametrize("role", ["console", "serve"])
async def test_a_kernel_that_a_person_keeps_takes_no_decision_of_a_command(root: Root, role: str) -> None:
    async with client_of(root, role) as client:
        (item,) = await client.pending_trust()
        (rule,) = await client.rules()
        approver = TerminalApprover(client, root.places)
        for outcome in (
            await approver.trust(((item.sidecar, item.digest),)),
            await approver.remove_rule(rule.where, rule.digest),
            await approver.answer(PANIC_QUESTION, "release"),
        ):
            assert (outcome.accepted, outcome.why_not) == (False, UNPAIRED)
        assert len(await client.pending_trust()) == 1


async def test_calls_and_other_questions_are_decided_by_a_console_alone(root: Root) -> None:
    async with client_of(root, "on-demand") as client:
        approver = TerminalApprover(client, root.places)
        approve = Answer(choice=Choice.APPROVE_ONCE)
        for outcome in (
            await approver.decide("r-1", "d1", approve),
            await approver.edit("r-1", "d1", {}),
            await approver.answer("server:1", "yes"),
            await approver.answer("package:project:x:staged:1", "apply"),
            await approver.enable("echo", True, ""),
        ):
            assert (outcome.accepted, outcome.why_not) == (False, UNPAIRED)


async def test_an_agent_decides_nothing(root: Root) -> None:
    async with client_of(root, "on-demand") as client, connect_root(root.places) as agent:
        (item,) = await client.pending_trust()
        with pytest.raises(ProtocolError, match="unauthorized"):
            await agent.ask_for("trust.accept", {"accepted": [[item.sidecar, item.digest]]})
        assert await client.pending_trust() == (item,)


async def test_who_may_not_write_the_state_folder_decides_nothing(root: Root) -> None:
    async with client_of(root, "on-demand") as client, connect_root(root.places, viewer=True) as other:
        (item,) = await client.pending_trust()
        pairs = ((item.sidecar, item.digest),)
        assert (await ConsoleApprover(client).trust(pairs)).why_not == UNPAIRED
        await client.ask_for("terminal.prove")
        assert (await ConsoleApprover(client).trust(pairs)).why_not == UNPAIRED
        named = str((await other.ask_for("terminal.prove"))["file"])
        (root.places.state_dir / named).touch()
        assert (await ConsoleApprover(client).trust(pairs)).why_not == UNPAIRED
        assert (await ConsoleApprover(other).trust(pairs)).accepted
        assert not (root.places.state_dir / named).exists()
        assert (await ConsoleApprover(other).trust(pairs)).why_not == UNPAIRED
