"""The rules and the second hook of Copilot CLI, which count beside an answer of flytui's hook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flytui.cli.copilot import has_denying_rules
from kits.command_line import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path / "shop", tmp_path / "home")
    desk.root.mkdir()
    (desk.home / "run").mkdir(parents=True, mode=0o700)
    desk.write({"schemaVersion": 2, "sidecars": {}})
    return desk


def started(desk: Desk, **more: str) -> dict[str, str]:
    """The variables that a hook gets from Copilot CLI."""
    return {**desk.environ, "COPILOT_CLI": "1", "COPILOT_PROJECT_DIR": str(desk.root), **more}


def denies(desk: Desk, **more: str) -> bool:
    return has_denying_rules(started(desk, **more), managed=str(desk.home / "managed"))


def test_without_rules_of_its_own_nothing_is_denied(desk: Desk) -> None:
    assert not denies(desk)
    settings = desk.home / ".copilot" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"deniedUrls": ["example.org"]}')
    assert denies(desk)
    assert not has_denying_rules(desk.environ), "the agent is another one"


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_settings_of_the_project_and_of_the_machine_count(desk: Desk, name: str) -> None:
    settings = desk.root / ".github" / "copilot" / name
    settings.parent.mkdir(parents=True)
    settings.write_text("{}")
    assert not denies(desk)
    settings.write_text('{"deniedUrls": ["example.org"]}')
    assert denies(desk)
    settings.unlink()
    assert not denies(desk)
    (desk.home / "managed").mkdir()
    assert denies(desk)


def test_settings_elsewhere_and_those_that_cannot_be_read_count(desk: Desk) -> None:
    elsewhere = desk.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.json").write_text('{"deniedUrls": []}')
    assert denies(desk, COPILOT_HOME=str(elsewhere))
    (desk.home / ".copilot" / "settings.json").mkdir(parents=True)
    assert denies(desk)


@pytest.mark.parametrize(
    ("word", "denied"), [("--deny-tool=shell(rm)", True), ("--deny-url", True), ("--allow-all-tools", False)]
)
def test_the_words_that_it_was_started_with_count(desk: Desk, word: str, denied: bool) -> None:
    asks = "import os; from flytui.cli.copilot import has_denying_rules as d; print(d(os.environ, '/none'))"
    line = f"{sys.executable} -c {json.dumps(asks)} || exit 2"
    done = subprocess.run(
        ["sh", "-c", line, "copilot", word], env=started(desk), capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{denied}\n"


def claude_event(desk: Desk, **more: Any) -> bytes:
    """What Copilot CLI hands to the hook of Claude Code's settings."""
    event = {"hook_event_name": "PreToolUse", "timestamp": "2026-11-28T15:57:45.981Z", "cwd": str(desk.root)}
    return json.dumps({**event, "tool_name": "Read", "tool_input": {"path": "a.txt"}, **more}).encode()


def test_it_is_not_allowed_over_its_own_rules(desk: Desk) -> None:
    (desk.root / "a.txt").write_text("x\n")
    native = json.dumps({"toolName": "view", "toolArgs": {"path": "a.txt"}, "cwd": str(desk.root)}).encode()
    managed = os.path.lexists("/etc/github-copilot")
    for client, given, key in (
        ("claude-code", claude_event(desk), "hookSpecificOutput"),
        ("copilot", native, "permissionDecision"),
    ):
        for settings, answers in (("{}", not managed), ('{"deniedUrls": ["x"]}', False)):
            (desk.home / ".copilot").mkdir(exist_ok=True)
            (desk.home / ".copilot" / "settings.json").write_text(settings)
            done = desk.run("hook", client, given=given, COPILOT_CLI="1")
            assert done.returncode == 0, done.stderr
            assert (key in json.loads(done.stdout)) is answers
    denied = claude_event(desk, tool_name="Bash", tool_input={"command": "rm a.txt"})
    done = desk.run("hook", "claude-code", given=denied, COPILOT_CLI="1")
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_where_its_own_hook_is_there_claude_code_s_does_not_ask_as_well(desk: Desk) -> None:
    given = claude_event(desk, tool_name="Bash", tool_input={"command": "rm a.txt"})
    asked = desk.run("hook", "claude-code", given=given, COPILOT_PROJECT_DIR=str(desk.root))
    assert "deny" in asked.stdout
    assert desk.run("connect", "copilot", "--hook", "--apply").returncode == 0
    left = desk.run("hook", "claude-code", given=given, COPILOT_PROJECT_DIR=str(desk.root))
    assert (left.returncode, left.stdout) == (0, "")
    elsewhere = desk.run("hook", "claude-code", given=given, COPILOT_PROJECT_DIR=str(desk.home))
    assert "deny" in elsewhere.stdout
    claude_s_own = claude_event(
        desk, tool_name="Bash", tool_input={"command": "rm a.txt"}, transcript_path="/t.jsonl"
    )
    asked = desk.run("hook", "claude-code", given=claude_s_own, COPILOT_PROJECT_DIR=str(desk.root))
    assert "deny" in asked.stdout


@pytest.mark.parametrize("change", [("flytui", "flytui-no"), ("|| exit 2", "; exit 0"), ("hook", "help")])
def test_only_the_hook_as_it_is_written_counts(desk: Desk, change: tuple[str, str]) -> None:
    assert desk.run("connect", "copilot", "--hook", "--apply").returncode == 0
    file = desk.root / ".github" / "hooks" / "flytui.json"
    text = file.read_text()
    given = claude_event(desk, tool_name="Bash", tool_input={"command": "rm a.txt"})
    for written, is_left in ((text, True), (text.replace(*change), False), ("[", False)):
        file.write_text(written)
        done = desk.run("hook", "claude-code", given=given, COPILOT_PROJECT_DIR=str(desk.root))
        assert (done.stdout == "") is is_left
