"""Values for the trial of one executable by whoever writes it."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import Status
from flycore.model.json import Json
from flycore.model.upstream import ToolDefinition, UnreadableTool


class TrialCall(Value, frozen=True, kw_only=True):
    """How one call of the executable ended."""

    status: Status
    code: str = ""
    message: str = ""
    output: Json = None
    duration_ms: int = 0


class ExecutableTrial(Value, frozen=True, kw_only=True):
    """What an executable says of itself, and how a call of it ended."""

    path: str
    tools: tuple[ToolDefinition, ...] = ()
    refused: tuple[UnreadableTool, ...] = ()
    problem: str = ""
    """Why its schema is not known, as a sentence without its subject; empty where it is."""
    stderr_tail: str = ""
    call: TrialCall | None = None
