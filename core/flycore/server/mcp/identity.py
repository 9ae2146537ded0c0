"""What the MCP server says of itself when a session begins."""

from __future__ import annotations

import flycore
from flycore.model.json import JsonObject

SERVER_NAME = "flytui"
INSTRUCTIONS = (
    "Tools of this project. Risky calls wait for a person, who sees the exact input and approves or denies "
    "it; nothing you send decides that. A call that ends `approval-pending` has not run: to resume it, make "
    "exactly the same call again. A denial says why; do not repeat a denied call unchanged."
)
SESSION_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions of the protocol whose sessions begin with `initialize`."""


def initialize_result(version: str) -> JsonObject:
    """Return the answer to `initialize` of a client that asks for this version, one of SESSION_VERSIONS."""
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": SERVER_NAME, "title": SERVER_NAME, "version": flycore.__version__},
        "instructions": INSTRUCTIONS,
    }
