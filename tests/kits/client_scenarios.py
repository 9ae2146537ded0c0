"""What the tests of agents' programs do at the console, and what they compare."""

from __future__ import annotations

import hashlib
import json

from kits.agent_programs import LONGEST, AgentRun, PlainRoot
from kits.model_endpoint import ModelEndpoint, ScriptedCall
from kits.terminals import READY, Tmux, until

DIGEST = hashlib.sha256(b"what the clients hash\n").hexdigest()
FREE = ScriptedCall("file_hash", {"path": "read.txt"})
"""A call that needs nobody; its result has DIGEST."""
ASKS = ScriptedCall("ask_do", {"note": "by a client"})
"""A call that asks; its result has APPROVED."""
APPROVED = "done as approved"
PENDING = "approval-pending"
"""What a result has that is a ticket."""


def open_card(tmux: Tmux, run: AgentRun, shows: str) -> None:
    """Open the card of the one call that waits, until its keys are ready."""
    until(
        "a call that waits, or the end of the program",
        lambda: "1 waiting" in tmux.screen() or run.process.poll() is not None,
        LONGEST,
    )
    assert "1 waiting" in tmux.screen(), "the program has ended, and nothing waits"
    if READY not in tmux.screen():
        tmux.keys("C-o")
    tmux.sees(shows)
    tmux.sees(READY)


def approve(tmux: Tmux, run: AgentRun, shows: str) -> None:
    """Approve the call that waits."""
    open_card(tmux, run, shows)
    tmux.decide()


def deny(tmux: Tmux, run: AgentRun, shows: str, reason: str) -> None:
    """Deny the call that waits with a reason."""
    open_card(tmux, run, shows)
    tmux.keys("r")
    tmux.sees("(?i)reason")
    tmux.text(reason)
    tmux.sees(reason)
    tmux.keys("Enter")


def listed_names(root: PlainRoot) -> set[str]:
    """The names under which `flytui mcp` lists tools to a client that says nothing of itself."""
    requests = (
        {"method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                            "clientInfo": {"name": "test", "version": "1"}}},
        {"method": "tools/list", "params": {}},
    )  # fmt: skip
    lines = [json.dumps({"jsonrpc": "2.0", "id": number, **one}) for number, one in enumerate(requests)]
    lines.insert(1, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    answered = root.flytui("mcp", input="\n".join(lines) + "\n")
    answers = [json.loads(line) for line in answered.stdout.splitlines()]
    (listed,) = [one["result"] for one in answers if one.get("id") == 1]
    assert "nextCursor" not in listed
    return {tool["name"] for tool in listed["tools"]}


def missing_names(root: PlainRoot, model: ModelEndpoint, turn: int | None = None) -> set[str]:
    """The listed tools that the request of that turn does not offer to the model; by default the request with
    the most, because programs also ask the model about other things."""
    requests = [seen.request for seen in model.seen]
    request = max(requests, key=lambda one: len(one.tools)) if turn is None else requests[turn]
    offered = [tool.full_name for tool in request.tools]
    return {name for name in listed_names(root) if not any(one.endswith(name) for one in offered)}
