"""The event that an agent hands to its hook, and the answer that it reads."""

from __future__ import annotations

import os
import stat
import sys
import time
from functools import cache

from flycore.model.json import Json, JsonObject
from flytui.cli.copilot import has_denying_rules

HOOKED = ("claude-code", "codex", "gemini", "qwen", "copilot")
"""The agents with a hook, as `agent_tools.json` has them."""
MAX_EVENT_BYTES = 2 * 1024 * 1024
"""A larger event is refused, because nobody can read it on a card."""
DEFAULT_WAIT = 50.0
"""Seconds; below the 60 after which agents end a hook whose settings name no time limit."""
MOST_WAIT = 86_400
TO_THE_END_MS = 7 * 24 * 3_600_000
"""One week: longer than any request waits for a person."""
SETTLE_SECONDS = 8.0
"""Seconds beyond `--wait` in which a kernel and a console have to be found."""
ALLOWED = "allowed in flytui"


@cache
def _received() -> bytes:
    # Standard input can be read once, and two ways of asking may want the event.
    parts, left = [], MAX_EVENT_BYTES + 1
    while left > 0 and (part := os.read(sys.stdin.fileno(), min(left, 65_536))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def read_event() -> bytes:
    """Return the event on standard input. Raises ValueError for one that is too large, and OSError."""
    data = _received()
    if len(data) > MAX_EVENT_BYTES:
        raise ValueError(f"the event is larger than {MAX_EVENT_BYTES // 1024 // 1024} MiB")
    return data


@cache
def begin() -> float:
    """Return the time, on the monotonic clock, at which the hook began: that of the first call of this."""
    return time.monotonic()


def seconds_left(wait: float) -> float:
    """Return how long the hook may still take, whichever way it asks, with that `--wait`."""
    return max(wait + SETTLE_SECONDS - (time.monotonic() - begin()), 0.5)


def is_allowed(status: str, error: object, output: Json, input_digest: str) -> bool:
    """Return whether the call of an agent's action was allowed, for exactly the input of that digest."""
    # A person may have edited the input on the card, but the agent would still run its own.
    return status == "success" and error is None and output == {"decision": "allow", "input": input_digest}


def hook_answer(permission: str, why: str, client: str = "claude-code") -> JsonObject:
    """Return the answer of the hook of this agent, to `allow`, `deny` or `ask`."""
    if permission == "allow" and client in ("claude-code", "copilot") and has_denying_rules(os.environ):
        return {}
    if permission != "deny" and client in ("codex", "gemini"):
        # Codex runs the tool where it does not know an answer, and both keep to their own rules without one.
        return {}
    if client == "gemini":
        return {"decision": permission, "reason": why}
    if client == "copilot":
        return {"permissionDecision": permission, "permissionDecisionReason": why}
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": permission,
            "permissionDecisionReason": why,
        }
    }


def print_answer(answer: str) -> None:
    """Print the answer. Raises OSError if nobody can read it."""
    # Without an answer the agent's own rules decide, so a lost answer has to be an error, which blocks.
    sink, null = os.fstat(sys.stdout.fileno()), os.stat(os.devnull)
    if stat.S_ISCHR(sink.st_mode) and sink.st_rdev == null.st_rdev:
        raise OSError("standard output is closed or the null device, and the answer would be lost")
    sys.stdout.write(answer + "\n")
    sys.stdout.flush()
