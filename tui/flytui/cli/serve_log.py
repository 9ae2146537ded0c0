"""The log of a kernel that goes on as `flytui serve` without a terminal: the codes of consoles that ask."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from flycore.registry.paths import RootPaths

SERVE_LOG = "serve.log"
FRESH_S = 120.0
"""Seconds for which a code is valid after it was written."""
MAX_LOG_BYTES = 1024 * 1024
MAX_READ_BYTES = 64 * 1024


def serve_log(places: RootPaths) -> Path:
    """The path of the log, which only this user may read."""
    return places.state_dir / SERVE_LOG


@contextmanager
def open_serve_log(places: RootPaths) -> Iterator[Callable[[str], None]]:
    """Begin a new log, and yield the function that adds a line. The log is removed at the end."""
    path = serve_log(places)
    # A new file each time, never one whose mode somebody else chose.
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:

        def write(line: str) -> None:
            if os.fstat(descriptor).st_size < MAX_LOG_BYTES:
                os.write(descriptor, line.encode("utf-8", "backslashreplace") + b"\n")

        yield write
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)


def latest_line(places: RootPaths) -> str:
    """The last line of the log while it is as fresh as a code; otherwise an empty text."""
    with suppress(OSError), open(serve_log(places), "rb") as log:
        facts = os.fstat(log.fileno())
        private = facts.st_uid == os.getuid() and not stat.S_IMODE(facts.st_mode) & 0o077
        if private and time.time() - facts.st_mtime < FRESH_S:
            log.seek(max(0, facts.st_size - MAX_READ_BYTES))
            lines = log.read(MAX_READ_BYTES).decode("utf-8", "replace").splitlines()
            return lines[-1] if lines else ""
    return ""
