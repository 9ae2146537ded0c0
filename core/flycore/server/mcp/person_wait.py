"""How long a call over MCP waits for a person before its client gets a ticket."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread

from flycore.registry.paths import SETTINGS_FILE
from flycore.registry.settings import load_settings
from flycore.registry.stamps import Stamp, stamp_of

LIMITS_FILE = Path(__file__).with_name("client_limits.json")
"""The clients that end a request after a fixed time, each with the seconds that a call may wait. A name may
end in `*`. Some of them do so whatever progress is reported."""
TO_THE_END_MS = 7 * 24 * 3_600_000
"""One week: longer than any request waits for a person."""


class ClientLimit(NamedTuple):
    """One row of the file."""

    client: str
    wait_ms: int
    despite_progress: bool


def wait_ms_of(client: str, *, has_progress: bool, settings_ms: int) -> int:
    """Return the milliseconds that a call of this client waits for a person.

    `client` is the name in its `clientInfo`, `has_progress` whether the request has a progress token, and
    `settings_ms` what the person's settings say for a client without one.
    """
    # A client that follows the progress counts its time limit from the last one.
    wait_ms = TO_THE_END_MS if has_progress else settings_ms
    for limit in _limits():
        if fnmatchcase(client, limit.client) and (limit.despite_progress or not has_progress):
            return min(wait_ms, limit.wait_ms)
    return wait_ms


@cache
def _limits() -> tuple[ClientLimit, ...]:
    rows = json.loads(LIMITS_FILE.read_bytes())
    return tuple(
        ClientLimit(row["client"], int(row["seconds"] * 1000), row["despiteProgress"]) for row in rows
    )


class PersonWait:
    """The wait of the calls of one server, as the settings are at each call."""

    def __init__(self, config_dir: Path, wait_seconds: float | None = None) -> None:
        """`wait_seconds` counts before settings and clients; None where nobody has given it."""
        self._config_dir, self._wait_seconds = config_dir, wait_seconds
        self._read: tuple[Stamp, int] | None = None
        """The stamp of the settings file when it was last read, and the wait that it says."""

    async def wait_ms(self, client: str, *, has_progress: bool) -> int:
        """Return the milliseconds that a call waits."""
        if self._wait_seconds is not None:
            return int(self._wait_seconds * 1000)
        # Before the file is read, so that a change in between is noticed at the next call.
        stamp = stamp_of(self._config_dir / SETTINGS_FILE)
        if self._read is None or self._read[0] != stamp:
            settings, _ = await anyio.to_thread.run_sync(load_settings, self._config_dir)
            self._read = (stamp, settings.inline_wait_ms)
        return wait_ms_of(client, has_progress=has_progress, settings_ms=self._read[1])
