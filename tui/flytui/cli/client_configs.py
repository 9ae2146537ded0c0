"""What belongs into the settings of agents and editors, so that they find flytui: pure, one text each."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flycore.registry.paths import RootPaths

HOOK_SECONDS = 600
"""How long Claude Code gives the hook."""
SPARE_SECONDS = 30
"""So much earlier the hook itself gives up, because one that is ended lets the tool go on."""
TOOL_SECONDS = 600
"""How long Codex gives a tool call: a person may have to be asked."""


def program() -> str:
    """The command: by name where that finds this very installation, else its absolute path."""
    beside = Path(sys.executable).parent / "flytui"
    found = shutil.which("flytui")
    if found is not None and Path(found).resolve() == beside.resolve():
        return "flytui"
    return str(beside) if beside.exists() else found or "flytui"


def _arguments(places: RootPaths) -> list[str]:
    return ["--root", str(places.app_root), "mcp"]


def mcp_json(places: RootPaths) -> str:
    """For `.mcp.json` of Claude Code, and `.cursor/mcp.json`."""
    server = {"type": "stdio", "command": program(), "args": _arguments(places)}
    return json.dumps({"mcpServers": {"flytui": server}}, indent=2)


def codex_toml(places: RootPaths) -> str:
    """For `~/.codex/config.toml`."""
    arguments = ", ".join(_toml(word) for word in _arguments(places))
    return (
        "[mcp_servers.flytui]\n"
        f"command = {_toml(program())}\n"
        f"args = [{arguments}]\n"
        f"tool_timeout_sec = {TOOL_SECONDS}"
    )


def _toml(text: str) -> str:
    """A TOML basic string in ASCII, so that no letter of a folder's name acts on a terminal. JSON's escapes
    are among its own, but for DEL and for pairs of surrogates."""
    quoted = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return "".join(char if char.isascii() else f"\\U{ord(char):08X}" for char in quoted)


def hook_settings(places: RootPaths, without_console: str) -> str:
    """For `.claude/settings.json`. Only exit code 2 blocks a tool: the shell ends with it as well where the
    hook is not found, cannot start or is killed."""
    wait = HOOK_SECONDS - SPARE_SECONDS
    words = [program(), "--root", str(places.app_root), "hook", "claude-code", "--wait", str(wait)]
    if without_console != "deny":
        words += ["--without-console", without_console]
    command = {"type": "command", "command": f"{shlex.join(words)} || exit 2", "timeout": HOOK_SECONDS}
    return json.dumps({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [command]}]}}, indent=2)


CLIENTS: Mapping[str, tuple[str, Callable[[RootPaths], str]]] = {
    "claude-code": (".mcp.json", mcp_json),
    "codex": ("~/.codex/config.toml", codex_toml),
    "cursor": (".cursor/mcp.json", mcp_json),
}
"""Client to the file, and what belongs into it."""


def print_config(places: RootPaths, client: str) -> int:
    """Print the snippet for that one of `CLIENTS`, and the file it belongs in beside it."""
    from flytui.cli.output import print_error

    file, text = CLIENTS[client]
    print_error(f"for {file}:")
    click.echo(text(places))
    return 0
