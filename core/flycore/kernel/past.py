"""What happened before, beside a running kernel: the log's projection, read once, then fed by the line."""

from __future__ import annotations

from collections.abc import Container
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread

from flycore.approval.clock import Clock
from flycore.audit.history import CallRecord
from flycore.audit.projection import Projection
from flycore.executive.activity import FINISHED_KEPT
from flycore.kernel.records import activity_of
from flycore.model.approval import Checks, Subject
from flycore.model.audit import Metrics
from flycore.model.call import Activity
from flycore.model.events import Event, EventClass, Publish
from flycore.model.json import digest


class CallHistory:
    """History, metrics and earlier answers. Until `run` has read the log, `ready` waits and the rest is
    empty; lines written meanwhile are kept and taken afterwards, each exactly once."""

    def __init__(self, folder: Path, clock: Clock, publish: Publish) -> None:
        self._folder, self._clock, self._publish = folder, clock, publish
        self._made = Projection(folder, kept=FINISHED_KEPT)
        self._backlog: list[tuple[int, bytes]] = []
        self._read = anyio.Event()
        self._shown: dict[str, tuple[CallRecord, Activity]] = {}

    def on_line(self, seq: int, line: bytes) -> None:
        """A line was written."""
        if self._read.is_set():
            self._made.take(line)
        else:
            self._backlog.append((seq, line))

    async def run(self) -> None:
        """Read what earlier kernels wrote, beside the loop. A log that cannot be read begins empty here:
        the log itself says what is wrong with it."""
        try:
            await anyio.to_thread.run_sync(self._made.update, abandon_on_cancel=True)
        except OSError:
            self._made = Projection(self._folder, kept=FINISHED_KEPT)
        for seq, line in self._backlog:
            if seq > self._made.seq:
                self._made.take(line)
        self._backlog.clear()
        self._read.set()
        self._publish(Event(cls=EventClass.AUDIT, type="history.read", at=self._clock.now()))

    async def ready(self) -> None:
        """Wait until the log has been read."""
        await self._read.wait()

    def calls(self, besides: Container[str]) -> tuple[Activity, ...]:
        """Calls that no longer run, newest first, but for those `besides`. One whose end no kernel wrote is
        among them: whoever ran it is gone."""
        if not self._read.is_set():
            return ()
        shown: dict[str, tuple[CallRecord, Activity]] = {}
        for record in self._made.history(FINISHED_KEPT):
            if record.call_id in besides:
                continue
            known = self._shown.get(record.call_id)
            same = known is not None and known[0] is record
            shown[record.call_id] = known if known and same else (record, activity_of(record))
        self._shown = shown
        calls = [activity for _, activity in shown.values()]
        return tuple(sorted(calls, key=lambda call: call.started_at, reverse=True))

    def unfinished(self) -> tuple[CallRecord, ...]:
        """Calls that have started and not ended, of this kernel and of earlier ones, oldest first; none
        before the log has been read."""
        return self._made.unfinished() if self._read.is_set() else ()

    def metrics(self, caller_key: str = "") -> Metrics:
        """Per tool; over the calls of one caller where it is named."""
        return self._made.metrics_of(caller_key) if caller_key else self._made.metrics()

    def checks(self, subject: Subject) -> Checks:
        """How a person answered the same call of the same program since this day began, by the clock on
        the person's wall."""
        today = datetime.fromtimestamp(self._clock.now(), UTC).astimezone()
        day = today.replace(hour=0, minute=0, second=0, microsecond=0)
        since = f"{day.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
        return self._made.answers(subject.caller, subject.tool, digest(subject.input), since)
