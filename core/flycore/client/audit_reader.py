"""The audit log of a root for a person who looks at it: read beside the loop, never written."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread

from flycore.audit.projection import approvals
from flycore.audit.query import Follower, as_text, parse_line
from flycore.audit.verify import verify
from flycore.model.audit import ApprovalReport, Verification
from flycore.model.json import JsonObject
from flycore.registry.paths import RootPaths

MAX_LINES = 100_000
"""Lines handed out at once, the newest; `flytui audit export` gives all."""


class NewLines(NamedTuple):
    """Lines that have come, oldest first, each without its newline."""

    lines: tuple[bytes, ...]
    replaced: bool
    """The log is another than was read before: these are the first."""
    skipped: int
    """Older ones that came as well and are not handed out."""


class AuditReader:
    """Follows the log in `folder`; `anchors` is the file that knows how long it was."""

    def __init__(self, folder: Path, anchors: Path) -> None:
        self._folder, self._anchors = folder, anchors
        self._follower = Follower(folder)

    @classmethod
    def of(cls, places: RootPaths) -> AuditReader:
        """The log of that root."""
        return cls(places.audit_dir, places.anchors_file)

    async def read_new(self) -> NewLines:
        """What has come since the last time. Raises OSError. Not to be called twice at once."""
        return await anyio.to_thread.run_sync(self._read_new)

    async def verify(self) -> Verification:
        """Whether every line is as it was written; takes a second for each hundred thousand."""
        found = await self._verify_once()
        return await self._verify_once() if found.torn else found  # a line that is being written looks torn

    async def _verify_once(self) -> Verification:
        return await anyio.to_thread.run_sync(verify, self._folder, self._anchors, abandon_on_cancel=True)

    async def approval_report(self) -> ApprovalReport:
        """How much a person was asked. Raises OSError."""
        return await anyio.to_thread.run_sync(approvals, self._folder, abandon_on_cancel=True)

    def _read_new(self) -> NewLines:
        anew = self._follower.replaced()
        if anew:
            self._follower = Follower(self._folder)
        newest: deque[bytes] = deque(maxlen=MAX_LINES)
        count = 0
        for line in self._follower.lines():
            newest.append(line)
            count += 1
        return NewLines(tuple(newest), anew, count - len(newest))


def parse_record(raw: bytes) -> JsonObject:
    """A line as a value; one that cannot be read has the event UNREADABLE."""
    return parse_line(raw)


def line_text(line: JsonObject) -> str:
    """What a line says behind its time and event, as one readable line, without numbers and digests."""
    said = {name: value for name, value in line.items() if name not in _REFERENCE_FIELDS}
    time_and_event = {"time": line.get("time"), "event": line.get("event")}
    return as_text(said).removeprefix(as_text(time_and_event)).strip()


_REFERENCE_FIELDS = frozenset(
    (
        *("seq", "callId", "callerKey", "requestId", "seal"),
        *("subject", "inputDigest", "outputDigest"),
    )
)
