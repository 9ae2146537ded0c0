"""The commands with the right answer beside them: `tests/flycore/policy/agent_commands/commands.txt`."""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).parents[1] / "flycore/policy/agent_commands/commands.txt"


def command_rows() -> list[tuple[str, str]]:
    """Each command, behind its answer."""
    found = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            answer, _, text = line.partition(" ")
            found.append((answer, json.loads(text)))
    return found
