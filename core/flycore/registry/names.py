"""Names with a meaning of their own: builtin tools, reserved variables, and names of secrets."""

from __future__ import annotations

import re

BUILTIN_PREFIXES = ("workspace.", "git.", "process.", "shell.", "agent.")
"""Beginnings of the names of the kernel's own tools; no registry may offer a tool with such a name."""

PLANS = frozenset(("browser.use", "computer.use"))
"""Tools of the high level, which the kernel carries out itself, step by step."""

LONGEST_ID = 64
"""Characters of a sidecar's id."""

RESERVED_PREFIX = "FLYTUI_"
"""Beginning of the names of the environment variables that the kernel sets itself."""

_SECRET = re.compile(
    r"KEY(?!BOARD|MAP|WORD)|TOKEN(?!I[SZ])|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH(?!ORS?(?:_|$))",
    re.IGNORECASE,
)

SECRET_NAME_PATTERN = rf"(?i)KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|^{RESERVED_PREFIX}"
"""Matches every name that `looks_secret` or is reserved, and some more. It has no look-ahead, which not every
engine of a JSON Schema validator supports."""


def looks_secret(name: str) -> bool:
    """Return whether the name of a variable suggests that it holds a secret. In doubt it does."""
    return _SECRET.search(name) is not None


def is_builtin(tool: str) -> bool:
    """Return whether the name belongs to a tool of the kernel."""
    return tool.startswith(BUILTIN_PREFIXES)


_SERVER = "-server"


def free_id(sidecar: str) -> str:
    """Return another id for an MCP server's entry, below which no tool of the kernel has its name."""
    return f"{sidecar[: LONGEST_ID - len(_SERVER)].rstrip('-._')}{_SERVER}"
