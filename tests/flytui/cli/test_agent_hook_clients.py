"""`flytui hook` of Codex, Gemini CLI, Qwen Code and Copilot CLI: their tools are shown like those of Claude
Code. Copilot CLI also runs the hook of Claude Code's settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from flycore.catalog.builtin import agent_actions
from flycore.catalog.schemas import check_input
from flytui.cli.agent_tools import CLIENTS_FILE, read_agent_request
from flytui.cli.hook_event import HOOKED
from kits.command_line import Desk
from kits.tables import each_row

TABLE = json.loads(CLIENTS_FILE.read_text())


def event(client: str, tool: str, tool_input: Any, **more: Any) -> dict[str, Any]:
    if client == "copilot":
        native = {"sessionId": "abc", "timestamp": 1795881465981, "toolName": tool, "toolArgs": tool_input}
        return {**native, "cwd": "/src/shop", **more}
    return {
        "session_id": "abc",
        "cwd": "/src/shop",
        "hook_event_name": TABLE[client]["event"],
        "tool_name": tool,
        "tool_input": tool_input,
        **more,
    }


def claude_event_of_copilot(tool: str, tool_input: Any, **more: Any) -> dict[str, Any]:
    """What Copilot CLI hands to the hook of Claude Code's settings."""
    return {
        "hook_event_name": "PreToolUse",
        "session_id": "abc",
        "timestamp": "2026-11-28T15:57:45.981Z",
        "cwd": "/src/shop",
        "tool_name": tool,
        "tool_input": tool_input,
        **more,
    }


COPILOT_CALLS: list[tuple[str, str, Any, str, dict[str, Any]]] = [
    ("bash", "Bash", {"command": "make", "description": "build"}, "agent.shell", {"command": "make"}),
    ("view", "Read", {"path": "a"}, "agent.read", {"tool": "Read", "path": "a"}),
    ("grep", "Grep", {"pattern": "x", "paths": "a"}, "agent.read", {"tool": "Grep", "path": "a"}),
    ("rg", "Grep", {"pattern": "x", "paths": ["a"]}, "agent.read", {"tool": "Grep", "path": "a"}),
    ("glob", "Glob", {"pattern": "*"}, "agent.read", {"tool": "Glob", "pattern": "*"}),
    ("create", "Write", {"path": "a", "file_text": "b"}, "agent.edit", {"path": "a", "content": "b"}),
    (
        "edit",
        "Edit",
        {"path": "a", "old_str": "b", "new_str": "c"},
        "agent.edit",
        {"path": "a", "edits": [{"old": "b", "new": "c"}]},
    ),
    ("web_fetch", "WebFetch", {"url": "https://a.example"}, "agent.fetch", {"url": "https://a.example"}),
    ("web_fetch", "WebFetch", {"url": "File:/etc/passwd"}, "agent.read", {"path": "File:/etc/passwd"}),
    ("apply_patch", "Edit", "*** Begin", "agent.tool", {"input": {"patch": "*** Begin"}}),
    ("edit", "Edit", {"path": "a"}, "agent.tool", {"input": {"path": "a"}}),
    ("glob", "Glob", {"pattern": "*", "paths": ["a", "b"]}, "agent.tool", {}),
    ("view", "Read", {"path": "a", "file_path": "b"}, "agent.tool", {}),
    ("github-mcp-server-get_file", "github-mcp-server-get_file", {}, "agent.tool", {}),
    ("flytui-x-do", "flytui-x-do", {}, "agent.tool", {}),
    ("flytui--do", "flytui--do", {}, "agent.tool", {}),
    ("mcp__flytui__x-do", "mcp__flytui__x-do", {}, "agent.tool", {}),
    ("something_new", "something_new", {"x": 1}, "agent.tool", {"tool": "something_new"}),
]


@each_row(("tool", "claude_s", "tool_input", "action", "asked"), COPILOT_CALLS)
def test_the_tools_of_copilot_cli_are_known_by_both_of_their_names(
    tool: str, claude_s: str, tool_input: Any, action: str, asked: dict[str, Any]
) -> None:
    own = read_agent_request(event("copilot", tool, tool_input), "copilot")
    by_claude_s_file = read_agent_request(claude_event_of_copilot(claude_s, tool_input))
    by_vs_code = read_agent_request(claude_event_of_copilot(claude_s, tool_input), "copilot")
    for request, form in ((own, "copilot"), (by_claude_s_file, "claude-code"), (by_vs_code, "claude-code")):
        assert request is not None
        assert (request.action, request.client) == (action, form)
        assert asked.items() <= request.input.items()
        assert request.input["cwd"] == "/src/shop"
        assert check_input(agent_actions()[action].input_schema, request.input)[1] == ()


@each_row("tool", ["flytui-file_hash", *TABLE["copilot"]["bookkeeping"]])
def test_claude_code_s_hook_leaves_copilot_cli_its_lists_and_what_is_ours(tool: str) -> None:
    assert read_agent_request(event("copilot", tool, {"path": "x"}), "copilot") is None
    assert read_agent_request(claude_event_of_copilot(tool, {"path": "x"})) is None


CALLS: list[tuple[str, str, dict[str, Any], str, dict[str, Any]]] = [
    ("codex", "Bash", {"command": "make"}, "agent.shell", {"command": "make"}),
    ("codex", "exec_command", {"cmd": "make"}, "agent.shell", {"command": "make"}),
    ("codex", "apply_patch", {"command": "*** Begin"}, "agent.tool", {"input": {"command": "*** Begin"}}),
    ("gemini", "run_shell_command", {"command": "make"}, "agent.shell", {"command": "make"}),
    (
        "gemini",
        "run_shell_command",
        {"command": "make", "dir_path": "/etc"},
        "agent.shell",
        {"command": "make", "options": {"dir_path": "/etc"}},
    ),
    ("gemini", "read_file", {"absolute_path": "a"}, "agent.read", {"tool": "Read", "path": "a"}),
    ("gemini", "list_directory", {"dir_path": "a"}, "agent.read", {"tool": "LS", "path": "a"}),
    (
        "gemini",
        "replace",
        {"file_path": "a", "old_string": "b", "new_string": "c", "instruction": "why"},
        "agent.edit",
        {"path": "a", "edits": [{"old": "b", "new": "c"}], "options": {"instruction": "why"}},
    ),
    ("gemini", "web_fetch", {"prompt": "read it"}, "agent.tool", {"input": {"prompt": "read it"}}),
    ("qwen", "run_shell_command", {"command": "make"}, "agent.shell", {"command": "make"}),
    ("qwen", "write_file", {"file_path": "a", "content": "b"}, "agent.edit", {"path": "a", "content": "b"}),
    (
        "qwen",
        "web_fetch",
        {"url": "https://a.example", "prompt": "x"},
        "agent.fetch",
        {"url": "https://a.example"},
    ),
    ("qwen", "Edit", {"x": 1}, "agent.tool", {"tool": "Edit", "input": {"x": 1}}),
]


@each_row(("client", "tool", "tool_input", "action", "asked"), CALLS)
def test_its_tools_become_the_actions_of_an_agent(
    client: str, tool: str, tool_input: dict[str, Any], action: str, asked: dict[str, Any]
) -> None:
    request = read_agent_request(event(client, tool, tool_input), client)
    assert request is not None
    assert request.action == action
    assert asked.items() <= request.input.items()
    assert request.input["cwd"] == "/src/shop"
    assert check_input(agent_actions()[action].input_schema, request.input)[1] == ()


def test_two_members_that_mean_the_same_are_shown_as_they_are() -> None:
    request = read_agent_request(
        event("gemini", "read_file", {"absolute_path": "secret", "file_path": "harmless"}), "gemini"
    )
    assert request is not None
    assert request.action == "agent.tool"


@each_row("client", HOOKED)
def test_its_own_bookkeeping_is_not_asked_about(client: str) -> None:
    assert set(TABLE) == set(HOOKED)
    for tool in TABLE[client]["bookkeeping"]:
        assert read_agent_request(event(client, tool, {}), client) is None


@each_row(
    ("client", "more", "is_ours"),
    [
        ("codex", {"tool_name": "mcp__flytui__file_hash"}, True),
        ("codex", {"tool_name": "mcp__flytui__x__file_hash"}, False),
        ("copilot", {"toolName": "flytui-file_hash"}, True),
        ("copilot", {"toolName": "flytui-x-file_hash"}, False),
        ("copilot", {"toolName": "mcp__flytui__file_hash"}, False),
        ("qwen", {"tool_name": "mcp__flytui__file_hash"}, True),
        ("gemini", {"tool_name": "mcp_flytui_file_hash", "mcp_context": {"server_name": "flytui"}}, True),
        ("gemini", {"tool_name": "mcp_flytui_x_file", "mcp_context": {"server_name": "flytui_x"}}, False),
        ("gemini", {"tool_name": "mcp_flytui_x_file"}, False),
        ("gemini", {"tool_name": "run_shell_command", "mcp_context": {"server_name": "other"}}, False),
    ],
)
def test_only_flytui_s_own_server_is_left_to_its_own_door(
    client: str, more: dict[str, Any], is_ours: bool
) -> None:
    request = read_agent_request(event(client, "", {"command": "x"}) | more, client)
    assert (request is None) is is_ours
    if request is not None:
        assert request.action == "agent.tool"


@pytest.mark.parametrize("client", HOOKED)
def test_it_answers_in_the_form_that_the_agent_reads(tmp_path: Path, client: str) -> None:
    desk = Desk(tmp_path / "shop", tmp_path / "home")
    desk.root.mkdir()
    desk.home.mkdir()
    (desk.home / "run").mkdir(mode=0o700)
    desk.write({"schemaVersion": 2, "sidecars": {}})
    (desk.root / "notes.txt").write_text("x\n")
    tools = {"gemini": "run_shell_command", "qwen": "run_shell_command", "copilot": "bash"}
    tool = tools.get(client, "Bash")
    here = os.path.realpath(desk.root)
    answers = {}
    for name, command in (("allow", "cat notes.txt"), ("deny", "rm -rf .")):
        given = json.dumps(event(client, tool, {"command": command}, cwd=here)).encode()
        done = desk.run("hook", client, given=given)
        assert done.returncode == 0, done.stderr
        answers[name] = json.loads(done.stdout)
    if client == "gemini":
        assert answers["allow"] == {}
        assert answers["deny"]["decision"] == "deny"
        assert "no console is open" in answers["deny"]["reason"]
        return
    if client == "copilot":
        assert answers["allow"]["permissionDecision"] == "allow"
        assert answers["deny"]["permissionDecision"] == "deny"
        assert "no console is open" in answers["deny"]["permissionDecisionReason"]
        return
    assert answers["deny"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    if client == "codex":
        assert answers["allow"] == {}
    else:
        assert answers["allow"]["hookSpecificOutput"]["permissionDecision"] == "allow"
    wrong = desk.run("hook", client, given=b"{}")
    assert (wrong.returncode, wrong.stdout) == (2, "")
