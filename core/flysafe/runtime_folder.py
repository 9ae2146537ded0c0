"""The folder of this user's sockets. It uses the standard library only, because the installed command looks
for a socket before it imports anything else."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

APP_NAME = "flytui"
RUNTIME_DIRS = "/run/user"
"""Where Linux distributions keep the runtime folder of each user, which XDG_RUNTIME_DIR usually names."""
MAX_SOCKET_PATH = 107
"""Bytes that the path of a Unix socket may have on Linux, without the NUL at its end."""


def socket_path(name: str, environ: Mapping[str, str]) -> str:
    """Return the path of the socket with that name; it is absolute, and short enough for a socket."""
    runtime = environ.get("XDG_RUNTIME_DIR", "") or _default_runtime_dir()
    if os.path.isabs(runtime):
        path = os.path.join(runtime, APP_NAME, name)
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
            return path
    return f"/tmp/{APP_NAME}-{os.getuid()}/{name}"  # noqa: S108 - whoever binds it checks the owner


def _default_runtime_dir() -> str:
    """Return this user's folder below RUNTIME_DIRS; an empty text if this user has none there."""
    # Programs that start others with few variables, as clients of MCP do, lose XDG_RUNTIME_DIR.
    folder = os.path.join(RUNTIME_DIRS, str(os.getuid()))
    try:
        facts = os.lstat(folder)
    except OSError:
        return ""
    private = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077
    return folder if private else ""
