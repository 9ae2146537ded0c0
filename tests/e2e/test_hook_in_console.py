"""A coding agent's own commands and edits, decided by a person at a console in tmux."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kits.terminals import BIN, Root, Tmux, console, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
READY = "keys ready ●"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    root = make_root(tmp_path, '{"schemaVersion": 2, "sidecars": {}}')
    yield root
    root.end()


def asked(root: Root, tool: str, given: dict[str, Any]) -> subprocess.Popen[str]:
    """The hook, as the agent starts it before that tool."""
    process = subprocess.Popen(
        [str(BIN / "flytui"), "--root", str(root.folder), "hook", "claude-code"],
        env=root.environ,
        cwd=root.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    root.started.append(process)
    event = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": given, "cwd": str(root.folder)}
    assert process.stdin is not None
    process.stdin.write(json.dumps(event))
    process.stdin.close()
    process.stdin = None
    return process


def told(process: subprocess.Popen[str]) -> dict[str, str]:
    """What the agent reads."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    said: dict[str, str] = json.loads(out)["hookSpecificOutput"]
    return said


def approved(tmux: Tmux, process: subprocess.Popen[str]) -> bool:
    """Press `a` where the keys are armed; whether the hook has been answered."""
    if READY in tmux.screen():
        tmux.keys("a")
    return process.poll() is not None


def test_an_edit_is_approved_by_its_difference(root: Root) -> None:
    (root.folder / "notes.txt").write_text("one\ntwo\n")
    with console(root) as tmux:
        agent = asked(root, "Edit", {"file_path": "notes.txt", "old_string": "two", "new_string": "second"})
        for shown in ("let the agent change the file", r"-two", r"\+second", "not sandboxed and not sealed"):
            tmux.sees(shown)
        until("the answer is taken", lambda: approved(tmux, agent))
        assert told(agent)["permissionDecision"] == "allow"
    assert (root.folder / "notes.txt").read_text() == "one\ntwo\n"
    events = [line["event"] for line in root.audit() if line.get("tool") == "agent.edit"]
    assert "APPROVAL_DECIDED" in events
    assert events[-2:] == ["TOOL_STARTED", "TOOL_EXECUTED"]


def test_a_command_is_denied_and_the_agent_told_why(root: Root) -> None:
    with console(root) as tmux:
        agent = asked(root, "Bash", {"command": "rm -rf build\x1b[2J", "description": "harmless"})
        tmux.sees("run the command")
        tmux.sees("harmless")
        tmux.sees(READY)
        tmux.keys("r")
        tmux.sees("(?i)reason")
        tmux.text("use make clean")
        tmux.sees("use make clean")
        tmux.keys("Enter")
        said = told(agent)
    assert said["permissionDecision"] == "deny"
    assert "use make clean" in said["permissionDecisionReason"]
