"""An agent's call over MCP and a person in a terminal: approved, denied with a reason, fetched later with its
ticket, withdrawn because the agent was killed. The agent is the official client, in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from kits.command import PYTHON, forked_bin
from kits.scenes import assert_whole, described, program, write_registry
from kits.terminals import PATIENCE, Root, Tmux, console, make_root, needs

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
READY = "keys ready ●"
ERAS = ("legacy", "2026-07-28")

AGENT = """
import json, os, sys
import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

FLYTUI, ROOT, ERA, SECONDS = sys.argv[1:]

WAIT = ["--wait", "3"] if float(SECONDS) else []

def say(**words):
    print(json.dumps(words), flush=True)

async def told(progress, total, message):
    say(progress=message)

async def main():
    server = StdioServerParameters(command=FLYTUI, args=["--root", ROOT, "mcp", *WAIT], env=dict(os.environ))
    async with Client(server, mode=ERA) as client:
        while True:
            await anyio.to_thread.run_sync(sys.stdin.readline)
            try:
                result = await client.call_tool(
                    "ask_do", {"note": "over MCP"}, progress_callback=told,
                    read_timeout_seconds=float(SECONDS) or None,
                )
            except Exception as error:
                say(raised=type(error).__name__)
                continue
            say(text=result.content[0].text, error=result.is_error, output=result.structured_content)

anyio.run(main)
"""
SIDECAR = """#!/bin/sh
read -r request
printf '{"ok": true, "said": "done as approved"}\\n'
"""


class Agent:
    """The official client; each `call` makes the same call."""

    def __init__(self, root: Root, era: str, seconds: float) -> None:
        words = [f"{forked_bin()}/flytui", str(root.folder), era, str(seconds)]
        self.process = Popen(
            PYTHON.launcher("agent", AGENT, *words), env=root.environ, stdin=PIPE, stdout=PIPE, text=True
        )

    def call(self) -> None:
        """Begin a call."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def heard(self, key: str) -> dict[str, Any]:
        """The next thing it says that has this key; what has no such key is passed over."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said: dict[str, Any] = json.loads(line)
            if key in said:
                return said
            assert "progress" in said, said
        pytest.fail(f"the agent left without {key}")

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    root = make_root(tmp_path, '{"schemaVersion": 2, "sidecars": {}}')
    command = program(root, "ask", SIDECAR)
    write_registry(root, {"ask": {"command": command, "tools": [described("ask.do")]}})
    wait_inline(root, 250_000)
    root.trust()
    yield root
    root.end()


@pytest.fixture
def agents() -> Iterator[list[Agent]]:
    started: list[Agent] = []
    yield started
    for agent in started:
        agent.end()


def wait_inline(root: Root, milliseconds: int) -> None:
    folder = root.home / "config" / "flytui"
    folder.mkdir(parents=True, exist_ok=True)
    approvals = {"inlineWaitMs": milliseconds}
    (folder / "config.jsonc").write_text(json.dumps({"approvals": approvals}))


def on_the_card(tmux: Tmux) -> None:
    """Open the card of what waits; its keys have armed."""
    tmux.sees("1 waiting")
    if READY not in tmux.screen():
        tmux.keys("C-o")
    tmux.sees("ask.do")
    tmux.sees(READY)


@pytest.mark.parametrize("era", ERAS)
def test_a_call_waits_with_progress_and_runs_once_approved(root: Root, agents: list[Agent], era: str) -> None:
    with console(root) as tmux:
        tmux.sees("ask.do")
        agents.append(agent := Agent(root, era, 0))
        agent.call()
        while "waiting for approval" not in agent.heard("progress")["progress"]:
            pass
        on_the_card(tmux)
        tmux.decide()
        result = agent.heard("text")
    assert (result["error"], result["output"]) == (False, {"said": "done as approved"})
    events = [line["event"] for line in root.audit() if line.get("callId")]
    assert events == ["TOOL_CALLED", "APPROVAL_ASKED", "APPROVAL_DECIDED", "TOOL_STARTED", "TOOL_EXECUTED"]
    assert_whole(root)


def test_a_denial_comes_back_as_an_error_with_its_reason(root: Root, agents: list[Agent]) -> None:
    with console(root) as tmux:
        tmux.sees("ask.do")
        agents.append(agent := Agent(root, ERAS[0], 0))
        agent.call()
        on_the_card(tmux)
        tmux.keys("r")
        tmux.sees("(?i)reason")
        tmux.text("not on a Friday")
        tmux.sees("not on a Friday")
        tmux.keys("Enter")
        result = agent.heard("text")
    assert result["error"] is True
    assert result["text"].startswith("denied: ")
    assert "not on a Friday" in result["text"]
    assert not [line for line in root.audit() if line["event"] == "TOOL_STARTED"]


def test_an_agent_that_times_out_after_5_s_comes_back_for_its_ticket(root: Root, agents: list[Agent]) -> None:
    """It waits 5 s whatever progress it hears of, and its server was started with `--wait 3`: a ticket comes
    in time. Where this machine was too slow for that the agent has withdrawn its request by timing out, and
    asks again."""
    with console(root) as tmux:
        tmux.sees("ask.do")
        agents.append(agent := Agent(root, ERAS[0], 5))

        def called() -> dict[str, Any]:
            while True:
                agent.call()
                assert agent.process.stdout is not None
                said = next(one for one in map(json.loads, agent.process.stdout) if "progress" not in one)
                if "raised" not in said:
                    return said  # type: ignore[no-any-return]  # JSON from the agent

        pending = called()
        assert pending["error"] is True
        assert pending["text"].startswith("approval-pending: ")
        assert "ticket: " in pending["text"]
        on_the_card(tmux)
        tmux.decide()
        tmux.lacks(READY)
        result = called()
    assert (result["error"], result["output"]) == (False, {"said": "done as approved"}), result
    assert len([line for line in root.audit() if line["event"] == "TOOL_STARTED"]) == 1


def test_an_agent_that_is_killed_while_it_waits_has_withdrawn(root: Root, agents: list[Agent]) -> None:
    with console(root) as tmux:
        tmux.sees("ask.do")
        agents.append(agent := Agent(root, ERAS[0], 0))
        agent.call()
        on_the_card(tmux)
        agent.process.kill()
        tmux.sees("withdrawn by the caller|◌ withdrawn")
    decided = [line for line in root.audit() if line["event"] == "APPROVAL_DECIDED"]
    assert [line["decision"] for line in decided] == ["withdrawn"]
    assert not [line for line in root.audit() if line["event"] == "TOOL_STARTED"]
