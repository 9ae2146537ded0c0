"""The names of the actions that an agent performs with tools of its own, and asks permission for."""

from __future__ import annotations

SHELL, EDIT, FETCH, TOOL = "agent.shell", "agent.edit", "agent.fetch", "agent.tool"
READ = "agent.read"
AGENT_ACTIONS = frozenset((SHELL, READ, EDIT, FETCH, TOOL))
_LEFT_OUT = dict.fromkeys(range(33))


def is_file_address(text: str) -> bool:
    """Return whether the text is an address of a local file, however it is written. Control characters and
    spaces, which programs leave out of addresses, do not count."""
    return text.translate(_LEFT_OUT).lower().startswith("file:")
