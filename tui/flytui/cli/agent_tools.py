"""Translates a coding agent's own tool call into a request to the kernel.

The event comes from a pre-tool hook and has `hook_event_name`, `tool_name`, `tool_input` and `cwd`; that of
Copilot CLI has `toolName`, `toolArgs` and `cwd`. Nothing in it is verified. The request contains the tool's
input and its folder, and nothing else of the event.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from flycore.model.agent_actions import EDIT, FETCH, READ, SHELL, TOOL, is_file_address
from flycore.model.json import Json, JsonObject
from flycore.registry.paths import RootPaths
from flytui.cli.copilot import has_own_hook

CLIENTS_FILE = Path(__file__).with_name("agent_tools.json")
"""The agents by the name of their hook: the event; the tools that are left to the agent's own rules, because
they keep its own lists, ask the person, end something that it started, or start an agent whose own tools come
through the hook; and the tools that mean the same as one of Claude Code's, with members of another name."""
CLAUDE = "claude-code"
COPILOT = "copilot"
SHELL_TOOL = "Bash"
COMMANDS = frozenset({SHELL_TOOL, "PowerShell"})
_LIKE_CLAUDE = (CLAUDE, COPILOT)
"""The agents whose hooks may run each other's events."""
_BY_CLAUDE = frozenset({SHELL_TOOL})
"""Names of Claude Code that other agents use with the same meaning."""
MOST_FOLDERS = 64
MAX_TOOL = 512
"""Characters of a tool's name."""


class AgentRequest(NamedTuple):
    """What the kernel is asked."""

    action: str
    input: JsonObject
    reason: str = ""
    """The agent's own reason, which is shown as unverified."""
    client: str = CLAUDE
    """The agent whose form the answer has."""


class AgentEventError(Exception):
    """The event is not one of a pre-tool hook; the message says what is wrong."""


def read_agent_request(event: Json, client: str = CLAUDE) -> AgentRequest | None:
    """The request that an event of this agent stands for; None where the call is left to the agent's own
    rules. Raises AgentEventError."""
    known = _table(client)
    if not isinstance(event, dict):
        raise AgentEventError("it is no JSON object")
    if client == COPILOT and "toolName" in event:
        tool, tool_input = event.get("toolName"), event.get("toolArgs")
    elif event.get("hook_event_name") == known["event"]:
        tool, tool_input = event.get("tool_name"), event.get("tool_input")
    else:
        raise AgentEventError(f"hook_event_name is not {known['event']}")
    cwd = event.get("cwd", "")
    if not isinstance(tool, str) or not 0 < len(tool) <= MAX_TOOL:
        raise AgentEventError("tool_name is no name")
    mapped = known["tools"].get(tool)
    is_text = isinstance(tool_input, str) and mapped is not None and "text" in mapped
    if is_text:
        tool_input = {mapped["text"]: tool_input}
    if not isinstance(tool_input, dict) or not isinstance(cwd, str):
        raise AgentEventError("tool_input is no object, or cwd no text")
    if _is_own(event, tool, client) or tool in known["bookkeeping"]:
        return None
    folder: JsonObject = {"cwd": cwd} if cwd else {}
    answered = CLAUDE if client == COPILOT and "toolName" not in event else client
    as_it_is = AgentRequest(TOOL, {"tool": tool, "input": tool_input, **folder}, client=answered)
    if "mcp_context" in event or (mapped is None and client not in _LIKE_CLAUDE and tool not in _BY_CLAUDE):
        return as_it_is
    try:
        return _agent_request(*_renamed(tool, tool_input, mapped or {}), folder)._replace(client=answered)
    except AgentEventError:
        # Agents change their tools. What does not have the expected form is shown as it is.
        if client == CLAUDE and not is_text and not _members(mapped or {}).keys() & tool_input.keys():
            raise
        return as_it_is


@cache
def _clients() -> dict[str, Any]:
    clients: dict[str, Any] = json.loads(CLIENTS_FILE.read_bytes())
    return clients


@cache
def _table(client: str) -> dict[str, Any]:
    clients = _clients()
    if client not in _LIKE_CLAUDE:
        table: dict[str, Any] = clients[client]
        return table
    # Copilot CLI runs the hook of Claude Code's settings, too, and VS Code that of Copilot CLI's. In such an
    # event a tool that both have has Claude Code's name, with the members of the agent that sends it.
    both = [clients[one] for one in _LIKE_CLAUDE]
    return {
        **clients[client],
        "bookkeeping": [name for one in both for name in one["bookkeeping"]],
        "tools": {name: mapped for one in both for name, mapped in one["tools"].items()},
    }


def _is_of_copilot(event: Json) -> bool:
    """Whether Copilot CLI has sent the event, in either form: it says when, and names no transcript."""
    return isinstance(event, dict) and "timestamp" in event and "transcript_path" not in event


def is_asked_by_other_hook(event: Json, client: str, places: RootPaths) -> bool:
    """Whether flytui's other hook asks: Copilot CLI runs that of Claude Code's settings beside its own."""
    if client != CLAUDE or not _is_of_copilot(event):
        return False
    return has_own_hook(places, os.environ)


def _is_own(event: JsonObject, tool: str, client: str) -> bool:
    """Whether it is a tool of flytui's own MCP server. The kernel approves these calls when they arrive."""
    known = _clients()[client]
    if client in _LIKE_CLAUDE:
        # `flytui-x-do` may be the tool `do` of another server, which is named `flytui-x`.
        prefix = _clients()[COPILOT]["own"]
        if tool.startswith(prefix) and "-" not in tool.removeprefix(prefix):
            return True
        if client == COPILOT or _is_of_copilot(event):
            return False  # there, `mcp__flytui__x-do` is a tool of another server
    prefix = known.get("own")
    if prefix is not None:
        return tool.startswith(prefix) and "__" not in tool.removeprefix(prefix)
    # The tool's name does not tell servers apart whose names begin alike.
    context = event.get("mcp_context")
    return isinstance(context, dict) and context.get("server_name") == known["server"]


def _renamed(tool: str, tool_input: JsonObject, mapped: dict[str, Any]) -> tuple[str, JsonObject]:
    """Return the call under the name and with the members that Claude Code has for it."""
    members = _members(mapped)
    renamed = {members.get(key, key): value for key, value in tool_input.items()}
    if len(renamed) != len(tool_input):
        raise AgentEventError("two members mean the same")
    for key, value in tool_input.items():
        if key in members and isinstance(value, list) and len(value) == 1:
            renamed[members[key]] = value[0]  # a list of one path
    return mapped.get("as", tool), renamed


def _members(mapped: dict[str, Any]) -> dict[str, str]:
    """Return what Claude Code calls the members of a tool's input that are named otherwise."""
    members: dict[str, str] = mapped.get("members", {})
    return members


def _agent_request(tool: str, tool_input: JsonObject, folder: JsonObject) -> AgentRequest:
    if tool in COMMANDS:
        reason = tool_input.get("description")
        rest = {key: value for key, value in tool_input.items() if key not in ("command", "description")}
        if tool != SHELL_TOOL:
            rest = {"shell": tool, **rest}  # an option that no rule of flytui's own knows, so that it asks
        shell: JsonObject = {"command": _text(tool_input, "command"), **folder, **_options(rest)}
        return AgentRequest(SHELL, shell, reason if isinstance(reason, str) else "")
    if tool in _READS:
        return AgentRequest(READ, {"tool": tool, **folder, **_read(tool, tool_input)})
    if tool in _CHANGES:
        return AgentRequest(EDIT, {**folder, **_CHANGES[tool](tool_input)})
    if tool == "WebFetch":
        rest = {key: value for key, value in tool_input.items() if key != "url"}
        address = _text(tool_input, "url")
        if is_file_address(address):
            return AgentRequest(READ, {"tool": tool, "path": address, **folder, **_options(rest)})
        return AgentRequest(FETCH, {"url": address, **folder, **_options(rest)})
    return AgentRequest(TOOL, {"tool": tool, "input": tool_input, **folder})


_READS = {
    "Read": "file_path",
    "NotebookRead": "notebook_path",
    "LS": "path",
    "Glob": "path",
    "Grep": "path",
}
"""Each tool that reads files, with the member of its input that names the file or folder."""


def _read(tool: str, tool_input: JsonObject) -> JsonObject:
    named = _READS[tool]
    rest = {key: value for key, value in tool_input.items() if key not in (named, "pattern")}
    known: JsonObject = {}
    if named in tool_input or named != "path":
        known["path"] = _text(tool_input, named)
    if "pattern" in tool_input:
        known["pattern"] = _text(tool_input, "pattern")
    return {**known, **_options(rest)}


def program_folders(path: str, root: str, cwd: str) -> list[Json]:
    """Return the folders of a PATH that are relative or lie in the project: what a shell starts by a name
    such as `ls` may be a program of the project there."""
    found: list[Json] = []
    inside = root.rstrip("/") + "/"
    for folder in path.split(":"):
        real = os.path.realpath(os.path.join(cwd or root, folder))
        if not folder.startswith("/") or real == root or real.startswith(inside):
            found.append(folder or ".")
    return found[:MOST_FOLDERS]


def with_program_folders(request: AgentRequest, path: str, root: str) -> AgentRequest:
    """Return the request with what the agent's PATH has of such folders."""
    folders = program_folders(path, root, str(request.input.get("cwd", "")))
    if request.action != SHELL or not folders:
        return request
    return request._replace(input={**request.input, "programFolders": folders})


def _edit(tool_input: JsonObject) -> JsonObject:
    rest = {key: value for key, value in tool_input.items() if key not in ("file_path", *_EDIT_KEYS)}
    return {"path": _text(tool_input, "file_path"), "edits": [_replacement(tool_input)], **_options(rest)}


def _edits(tool_input: JsonObject) -> JsonObject:
    edits = tool_input.get("edits")
    if not isinstance(edits, list) or not edits:
        raise AgentEventError("tool_input.edits is no list")
    rest = {key: value for key, value in tool_input.items() if key not in ("file_path", "edits")}
    changes: list[Json] = []
    for edit in edits:
        if not isinstance(edit, dict) or not set(edit) <= set(_EDIT_KEYS):
            raise AgentEventError("an item of tool_input.edits is no edit")
        changes.append(_replacement(edit))
    return {"path": _text(tool_input, "file_path"), "edits": changes, **_options(rest)}


_EDIT_KEYS = ("old_string", "new_string", "replace_all")


def _replacement(edit: JsonObject) -> JsonObject:
    every = edit.get("replace_all", False)
    if not isinstance(every, bool):
        raise AgentEventError("replace_all is neither true nor false")
    replaced: JsonObject = {"old": _text(edit, "old_string"), "new": _text(edit, "new_string")}
    return {**replaced, "all": True} if every else replaced


def _write(tool_input: JsonObject) -> JsonObject:
    rest = {key: value for key, value in tool_input.items() if key not in ("file_path", "content")}
    return {"path": _text(tool_input, "file_path"), "content": _text(tool_input, "content"), **_options(rest)}


def _notebook(tool_input: JsonObject) -> JsonObject:
    cell = {key: value for key, value in tool_input.items() if key != "notebook_path"}
    return {"path": _text(tool_input, "notebook_path"), "cell": cell}


_CHANGES = {"Edit": _edit, "MultiEdit": _edits, "Write": _write, "NotebookEdit": _notebook}
"""Each tool that changes files, with the function that translates its input to that of `agent.edit`."""


def _options(rest: JsonObject) -> JsonObject:
    """All other members of the input, so that they are shown and are part of what is approved."""
    return {"options": rest} if rest else {}


def _text(tool_input: JsonObject, key: str) -> str:
    value = tool_input.get(key)
    if not isinstance(value, str):
        raise AgentEventError(f"tool_input.{key} is no text")
    return value
