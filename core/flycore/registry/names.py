"""What names may say: builtin tools and secrets."""

from __future__ import annotations

import re

BUILTIN_PREFIXES = ("workspace.", "git.", "process.", "shell.", "agent.")
"""Families compiled into the kernel; no registry may offer them."""

RESERVED_PREFIX = "FLYTUI_"
"""Environment variables the kernel sets itself."""

_SECRET = re.compile(
    r"KEY(?!BOARD|MAP|WORD)|TOKEN(?!I[SZ])|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH(?!ORS?(?:_|$))",
    re.IGNORECASE,
)

SECRET_NAME_PATTERN = rf"(?i)KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|^{RESERVED_PREFIX}"
"""Found in every name that `looks_secret` or is reserved; without look-ahead, so that any engine takes it."""


def looks_secret(name: str) -> bool:
    """Whether a variable's name says that it holds a secret; in doubt it does."""
    return _SECRET.search(name) is not None


def is_builtin(tool: str) -> bool:
    """Whether the name belongs to the kernel's own tools."""
    return tool.startswith(BUILTIN_PREFIXES)
