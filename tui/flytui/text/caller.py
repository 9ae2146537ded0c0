"""Who asks, in a person's words: one line for cards and lists, and everything that is known."""

from __future__ import annotations

import os

from flycore.model.approval import ApprovalRequest
from flycore.model.caller import Caller
from flysafe.text import strict_text

NO_TERMINAL = "no terminal"
_DOORS = {
    "mcp": "via MCP",
    "http": "via MCP over HTTP",
    "socket": "via the socket",
}


def caller_line(caller: Caller) -> str:
    """The caller as a person would say it: name, working folder, terminal, and the door it came through."""
    parts = [strict_text(caller.title)]
    if caller.within:
        parts.append(f"within {strict_text(caller.within)}")
    if caller.folder:
        parts.append(strict_text(short_folder(caller.folder)))
    if caller.pid and not caller.is_sidecar:
        parts.append(strict_text(caller.terminal) or NO_TERMINAL)
    parts.append(_DOORS.get(caller.door, f"via {strict_text(caller.door)}"))
    return " · ".join(parts)


def caller_name(caller: Caller) -> str:
    """The caller in a list: its name and the last part of its folder, which tell two sessions apart."""
    folder = os.path.basename(caller.folder.rstrip("/"))
    return strict_text(f"{caller.title} · {folder}" if folder else caller.title)


def caller_facts(request: ApprovalRequest) -> tuple[str, ...]:
    """Everything that is known about the caller, one sentence each."""
    caller = request.caller
    facts = [str(caller)]
    if caller.executable:
        facts.append(f"runs {caller.executable}")
    if caller.folder:
        facts.append(f"works in {caller.folder}")
    if caller.terminal:
        facts.append(f"its terminal is {caller.terminal}")
    if caller.ancestors:
        facts.append(f"below {', '.join(caller.ancestors)}")
    return (*map(strict_text, facts), f"for {strict_text(request.app_root)}")


def short_folder(path: str) -> str:
    """A folder with `~` for the person's own."""
    home = os.path.expanduser("~")
    if home != "/" and (path == home or path.startswith(f"{home}/")):
        return f"~{path[len(home) :]}"
    return path
