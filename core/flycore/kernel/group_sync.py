"""The sync of log lines that were written without one: together, a moment after the first of them."""

from __future__ import annotations

from contextlib import suppress

import anyio

from flycore.audit.log import AuditLog
from flycore.model.errors import AuditUnwritable

AUDIT_GROUP_SECONDS = 0.05
"""The time after which result lines are synced together. Lines before an effect are synced at once."""


class GroupSync:
    """Syncs the lines of a log that were written without a sync, a moment after the first of them. Without
    lines it does nothing, so that an idle kernel sleeps."""

    def __init__(self) -> None:
        self._written = anyio.Event()

    def note_line(self) -> None:
        """Note that a line was written."""
        self._written.set()

    async def run(self, audit: AuditLog) -> None:
        """Sync until cancelled."""
        while True:
            await self._written.wait()
            self._written = anyio.Event()
            await anyio.sleep(AUDIT_GROUP_SECONDS)
            if audit.dirty and not audit.stopped:
                with suppress(AuditUnwritable):
                    audit.flush()
