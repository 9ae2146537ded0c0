"""The texts that belong into the settings of agents and editors, so that they find flytui."""

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
"""Seconds that Claude Code gives the hook."""
SPARE_SECONDS = 30
"""The hook gives up this many seconds earlier, because Claude Code runs the tool after it ended a slow
hook."""
TOOL_SECONDS = 600
"""Seconds that Codex gives a tool call. They have to suffice for a person to decide."""


def program() -> str:
    """The command `flytui`: its name where that finds this installation, otherwise its absolute path."""
    beside = Path(sys.executable).parent / "flytui"
    found = shutil.which("flytui")
    if found is not None and Path(found).resolve() == beside.resolve():
        return "flytui"
    return str(beside) if beside.exists() else found or "flytui"


def _arguments(places: RootPaths) -> list[str]:
    return ["--root", str(places.app_root), "mcp"]


def mcp_json(places: RootPaths) -> str:
    """The text for `.mcp.json` of Claude Code, and for `.cursor/mcp.json`."""
    server = {"type": "stdio", "command": program(), "args": _arguments(places)}
    return json.dumps({"mcpServers": {"flytui": server}}, indent=2)


def codex_toml(places: RootPaths) -> str:
    """The text for `~/.codex/config.toml`."""
    arguments = ", ".join(_toml(word) for word in _arguments(places))
    return (
        "[mcp_servers.flytui]\n"
        f"command = {_toml(program())}\n"
        f"args = [{arguments}]\n"
        f"tool_timeout_sec = {TOOL_SECONDS}"
    )


def _toml(text: str) -> str:
    """The text as a TOML string in ASCII, so that no character of a folder's name acts on a terminal."""
    # JSON's escapes are valid in TOML, with two exceptions: DEL must be escaped, and a character outside the
    # basic plane is one escape and not a pair of surrogates.
    quoted = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return "".join(char if char.isascii() else f"\\U{ord(char):08X}" for char in quoted)


def hook_settings(places: RootPaths, without_console: str) -> str:
    """The text for `.claude/settings.json`."""
    wait = HOOK_SECONDS - SPARE_SECONDS
    words = [program(), "--root", str(places.app_root), "hook", "claude-code", "--wait", str(wait)]
    if without_console != "deny":
        words += ["--without-console", without_console]
    # Only exit code 2 blocks a tool. With `|| exit 2` the tool is blocked as well where the hook is not
    # found, cannot start, or is killed.
    command = {"type": "command", "command": f"{shlex.join(words)} || exit 2", "timeout": HOOK_SECONDS}
    return json.dumps({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [command]}]}}, indent=2)


CLIENTS: Mapping[str, tuple[str, Callable[[RootPaths], str]]] = {
    "claude-code": (".mcp.json", mcp_json),
    "codex": ("~/.codex/config.toml", codex_toml),
    "cursor": (".cursor/mcp.json", mcp_json),
}
"""Each client with its file and the function that makes the text for it."""


def print_config(places: RootPaths, client: str) -> int:
    """Print the text for one of `CLIENTS` to standard output, and the name of its file to standard error."""
    from flytui.cli.output import print_error

    file, text = CLIENTS[client]
    print_error(f"for {file}:")
    click.echo(text(places))
    return 0
