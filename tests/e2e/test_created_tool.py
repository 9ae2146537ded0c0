"""A tool that an agent makes over MCP: a person reviews it in a terminal and approves its call; a change of
it, by the agent or on the disk, waits for the next review."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kits.agent import READING_SECONDS, Agent, approve_card
from kits.executables import put
from kits.programs import needs_bubblewrap
from kits.scenes import assert_whole
from kits.terminals import Root, Tmux, console, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

GREET: dict[str, Any] = {
    "description": "Greets somebody.",
    "kind": "command",
    "inputs": {"schema": {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}},
    "exec": {"command": {"entrypoint": "./scripts/greet", "args": ["${who}"]}},
    "approval": {"required": False},
}


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    needs_bubblewrap()
    root = Root(tmp_path / "project", tmp_path / "home")
    root.folder.mkdir()
    root.home.mkdir()
    put(root.folder / "scripts", "greet", "#!/bin/sh\necho hello $1\n")
    yield root
    root.end()


def created(agent: Agent, **definition: Any) -> None:
    """Make the tool `greet`, or change it."""
    agent.call("tool_create", name="greet", definition={"name": "greet", **GREET, **definition})
    answer = agent.answer()
    assert not answer["error"], answer["text"]


def review(tmux: Tmux, *shows: str) -> None:
    """Read what waits for trust to its end, and trust it. The screen has to show that."""
    seen = ""

    def trusted() -> bool:
        nonlocal seen
        screen = tmux.screen()
        seen += screen
        if re.search(r"more pages? before", screen):
            tmux.keys("PageDown")
        elif "keys ready" in screen:
            tmux.keys("a")
        elif "Esc back" in screen and "approved once" in screen:
            tmux.keys("Escape")  # the card of the call before
        elif "keys not ready" not in screen:
            tmux.keys("T")
        time.sleep(READING_SECONDS)
        return waits_for_nothing(tmux)

    try:
        until("the tool is reviewed", trusted)
    except BaseException:
        print(tmux.screen())
        raise
    assert [text for text in shows if text not in seen] == [], seen


def waits_for_nothing(tmux: Tmux) -> bool:
    shown = tmux.root.flytui("trust", "--print-digest", "--json").stdout
    return json.loads(shown)["waiting"] == []


def unavailable(agent: Agent) -> str:
    """Call the tool while it waits; the reason for which it is refused."""
    agent.call("greet", who="Ada")
    answer = agent.answer()
    assert answer["error"]
    return str(answer["text"])


def test_it_is_reviewed_called_and_reviewed_again_after_each_change(root: Root) -> None:
    with console(root, 130, 50) as tmux:
        agent = Agent(root)
        try:
            agent.call(
                "tool_create", name="greet", definition={"name": "greet", **GREET, "permissions": GREEDY}
            )
            refused = agent.answer()
            assert refused["error"]
            for excess in ("files write out", "secret A_KEY"):
                assert excess in refused["text"]
            created(agent)
            assert "trusted" in unavailable(agent)
            review(tmux, "an agent", "./scripts/greet")
            agent.call("greet", who="Ada; touch x")
            approve_card(tmux, "greet")
            assert "hello Ada; touch x" in agent.answer()["text"]
            assert not (root.folder / "x").exists()
            created(agent, permissions={"network": True})
            # What was reviewed before runs on meanwhile; the change does not before it is reviewed as well.
            until("the change by the agent waits", lambda: not waits_for_nothing(tmux))
            review(tmux, "network")
            (file,) = root.home.glob("state/flytui/roots/*/created/greet/tool.yml")
            file.write_text(file.read_text().replace("Greets somebody.", "Greets everybody."))
            until("the change on the disk waits", lambda: not waits_for_nothing(tmux))
            review(tmux, "everybody")
            agent.call("glee_tool", name="greet", params={"who": "Bob"})
            approve_card(tmux, "greet")
            assert "hello Bob" in agent.answer()["text"]
        finally:
            agent.end()
    assert_whole(root)
    events = [line["event"] for line in root.audit() if line["event"].startswith("TOOL_")]
    assert events.count("TOOL_CREATED") == 2
    assert events.count("TOOL_REVIEWED") == 3


GREEDY = {"fs": {"read": ["."], "write": ["out"]}, "secrets": {"A_KEY": {"type": "string"}}}
