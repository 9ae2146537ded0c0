"""Reads the audit log of a root for the console and the command line, in threads and without writing.

What reads the log is imported where it is first used: a console has a reader before its first frame, and
reads nothing until then.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import anyio.to_thread

from flycore.model.audit import ApprovalReport, Verification
from flycore.model.json import JsonObject
from flycore.registry.paths import RootPaths

if TYPE_CHECKING:
    from flycore.audit.query import Follower

MAX_LINES = 100_000
"""Most lines that one read returns, the newest; `flytui audit export` writes all."""
MAX_BYTES = 128 * 1024 * 1024
"""How far before the end the first read begins, so that a long log takes no longer. That is room for
`MAX_LINES` lines of more than a kilobyte."""


class NewLines(NamedTuple):
    """Lines that were added, oldest first, each without its newline."""

    lines: tuple[bytes, ...]
    replaced: bool
    """Whether another log took the place of the one read before; then these are its first lines."""
    skipped: int
    """Number of older new lines that are left out because of `MAX_LINES`."""


class AuditReader:
    """Follows the log in `folder`. `anchors` is the file that records how long the log was."""

    def __init__(self, folder: Path, anchors: Path) -> None:
        self._folder, self._anchors = folder, anchors
        self._follower: Follower | None = None
        """What has read the log so far; None before the first read."""

    @classmethod
    def of(cls, places: RootPaths) -> AuditReader:
        """Return a reader for the log of that root."""
        return cls(places.audit_dir, places.anchors_file)

    async def read_new(self) -> NewLines:
        """Return the lines since the last call. Only one call may run at a time. Raises OSError."""
        return await anyio.to_thread.run_sync(self._read_new)

    async def verify(self) -> Verification:
        """Check that every line is as it was written. Takes about a second for each 100,000 lines."""
        found = await self._verify_once()
        # A line that the kernel is just writing looks torn; the second look sees it complete.
        return await self._verify_once() if found.torn else found

    async def _verify_once(self) -> Verification:
        from flycore.audit.verify import verify

        return await anyio.to_thread.run_sync(verify, self._folder, self._anchors, abandon_on_cancel=True)

    async def approval_report(self) -> ApprovalReport:
        """Return how often a person was asked, and how they answered. Raises OSError."""
        from flycore.audit.projection import approvals

        return await anyio.to_thread.run_sync(approvals, self._folder, abandon_on_cancel=True)

    async def lines_of(self, call_id: str) -> tuple[JsonObject, ...]:
        """Return the lines of one call, in order. Raises OSError."""
        from flycore.audit.query import find

        return await anyio.to_thread.run_sync(find, self._folder, call_id, abandon_on_cancel=True)

    def _read_new(self) -> NewLines:
        from flycore.audit.chain import read_link
        from flycore.audit.query import Follower

        replaced, left_out = self._follower is not None and self._follower.replaced(), False
        if self._follower is None or replaced:
            self._follower = Follower(self._folder)
            left_out = self._follower.start_near_end(MAX_BYTES)
        newest: deque[bytes] = deque(maxlen=MAX_LINES)  # drops the oldest line when it is full
        count = 0
        for line in self._follower.lines():
            newest.append(line)
            count += 1
        skipped = count - len(newest)
        link = read_link(newest[0]) if left_out and newest else None
        if link is not None:  # the log numbers its lines from 1 without gaps
            skipped = link.seq - 1
        return NewLines(tuple(newest), replaced, skipped)


def parse_record(raw: bytes) -> JsonObject:
    """Return a line of the log as a value. A line that is not valid gets the event UNREADABLE."""
    from flycore.audit.query import parse_line

    return parse_line(raw)


def line_text(line: JsonObject) -> str:
    """Return a record as one line for people, without time, event, ids and digests."""
    from flycore.audit.query import as_text

    fields = {name: value for name, value in line.items() if name not in _REFERENCE_FIELDS}
    time_and_event = {"time": line.get("time"), "event": line.get("event")}
    return as_text(fields).removeprefix(as_text(time_and_event)).strip()


_REFERENCE_FIELDS = frozenset(
    (
        *("seq", "callId", "callerKey", "requestId", "seal"),
        *("subject", "inputDigest", "outputDigest"),
    )
)
