"""The names of the actions that an agent performs with tools of its own, and asks permission for."""

from __future__ import annotations

SHELL, EDIT, FETCH, TOOL = "agent.shell", "agent.edit", "agent.fetch", "agent.tool"
READ = "agent.read"
AGENT_ACTIONS = frozenset((SHELL, READ, EDIT, FETCH, TOOL))
