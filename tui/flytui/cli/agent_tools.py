"""What a coding agent's own tool call means to the kernel: a table, and pure functions of one hook event.

The event is that of a pre-tool hook as Claude Code hands it over: `hook_event_name`, `tool_name`,
`tool_input`, `cwd`. All of it is the agent's word; what is asked is exactly the tool's input and its folder,
nothing else of the event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flycore.catalog.builtin import EDIT, FETCH, SHELL, TOOL

if TYPE_CHECKING:
    from flycore.model.json import Json, JsonObject

EVENT = "PreToolUse"
OWN_TOOL_PREFIX = "mcp__flytui__"
"""Tools of flytui's own MCP server: their calls are approved where they arrive."""
UNCHECKED_TOOLS = frozenset(
    {
        "Read", "Glob", "Grep", "LS", "NotebookRead", "LSP", "ToolSearch",
        "TodoRead", "TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate",
        "BashOutput", "TaskOutput", "KillBash", "KillShell", "TaskStop",
        "AskUserQuestion", "EnterPlanMode", "ExitPlanMode",
        "Task", "Agent", "Skill", "SlashCommand",
    }
)  # fmt: skip
"""Tools left to the agent's own rules: they read, keep the agent's own lists, ask or end something of its
own, or start an agent whose tools come through the hook themselves."""
COMMANDS = frozenset({"Bash", "PowerShell"})
MAX_TOOL = 512


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What is put before the kernel."""

    action: str
    input: JsonObject
    reason: str = ""
    """The agent's own words for it; shown as unverified."""


class NotUnderstood(Exception):
    """The event is not what a pre-tool hook is handed; the sentence says where."""


def read_agent_request(event: Json) -> AgentRequest | None:
    """What the event asks for; None where it is left to the agent. Raises NotUnderstood."""
    if not isinstance(event, dict):
        raise NotUnderstood("it is no JSON object")
    if event.get("hook_event_name") != EVENT:
        raise NotUnderstood(f"hook_event_name is not {EVENT}")
    tool, given, cwd = event.get("tool_name"), event.get("tool_input"), event.get("cwd", "")
    if not isinstance(tool, str) or not 0 < len(tool) <= MAX_TOOL:
        raise NotUnderstood("tool_name is no name")
    if not isinstance(given, dict) or not isinstance(cwd, str):
        raise NotUnderstood("tool_input is no object, or cwd no text")
    if tool in UNCHECKED_TOOLS or (
        tool.startswith(OWN_TOOL_PREFIX) and "__" not in tool.removeprefix(OWN_TOOL_PREFIX)
    ):
        return None
    return _agent_request(tool, given, {"cwd": cwd} if cwd else {})


def _agent_request(tool: str, given: JsonObject, place: JsonObject) -> AgentRequest:
    if tool in COMMANDS:
        said = given.get("description")
        rest = {key: value for key, value in given.items() if key not in ("command", "description")}
        shell: JsonObject = {"command": _text(given, "command"), **place, **_options(rest)}
        return AgentRequest(SHELL, shell, said if isinstance(said, str) else "")
    if tool in _CHANGES:
        return AgentRequest(EDIT, {**place, **_CHANGES[tool](given)})
    if tool == "WebFetch":
        rest = {key: value for key, value in given.items() if key != "url"}
        return AgentRequest(FETCH, {"url": _text(given, "url"), **place, **_options(rest)})
    return AgentRequest(TOOL, {"tool": tool, "input": given, **place})


def _edit(given: JsonObject) -> JsonObject:
    rest = {key: value for key, value in given.items() if key not in ("file_path", *_EDIT_KEYS)}
    return {"path": _text(given, "file_path"), "edits": [_replacement(given)], **_options(rest)}


def _edits(given: JsonObject) -> JsonObject:
    edits = given.get("edits")
    if not isinstance(edits, list) or not edits:
        raise NotUnderstood("tool_input.edits is no list")
    rest = {key: value for key, value in given.items() if key not in ("file_path", "edits")}
    changes: list[Json] = []
    for edit in edits:
        if not isinstance(edit, dict) or not set(edit) <= set(_EDIT_KEYS):
            raise NotUnderstood("an edit of tool_input.edits is none")
        changes.append(_replacement(edit))
    return {"path": _text(given, "file_path"), "edits": changes, **_options(rest)}


_EDIT_KEYS = ("old_string", "new_string", "replace_all")


def _replacement(edit: JsonObject) -> JsonObject:
    every = edit.get("replace_all", False)
    if not isinstance(every, bool):
        raise NotUnderstood("replace_all is neither true nor false")
    replaced: JsonObject = {"old": _text(edit, "old_string"), "new": _text(edit, "new_string")}
    return {**replaced, "all": True} if every else replaced


def _write(given: JsonObject) -> JsonObject:
    rest = {key: value for key, value in given.items() if key not in ("file_path", "content")}
    return {"path": _text(given, "file_path"), "content": _text(given, "content"), **_options(rest)}


def _notebook(given: JsonObject) -> JsonObject:
    cell = {key: value for key, value in given.items() if key != "notebook_path"}
    return {"path": _text(given, "notebook_path"), "cell": cell}


_CHANGES = {"Edit": _edit, "MultiEdit": _edits, "Write": _write, "NotebookEdit": _notebook}
"""Tool to what it would change, in the words of `agent.edit`."""


def _options(rest: JsonObject) -> JsonObject:
    """Whatever else the tool is given, so that it is shown and is part of what is approved."""
    return {"options": rest} if rest else {}


def _text(given: JsonObject, key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str):
        raise NotUnderstood(f"tool_input.{key} is no text")
    return value
