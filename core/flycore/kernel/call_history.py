"""A call as the log remembers it, in the shape in which running ones are shown."""

from __future__ import annotations

import json
from collections.abc import Container
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread

from flycore.audit.projection import MOST_KEPT, CallRecord, Projection
from flycore.model.approval import Checks, Subject
from flycore.model.audit import Metrics
from flycore.model.call import Activity, CallError, ToolResult
from flycore.model.caller import parse_caller_key
from flycore.model.clock import Clock
from flycore.model.enums import Code, Level, Phase, Status
from flycore.model.events import Event, EventClass, Publish
from flycore.model.json import Json, canonical_json, digest
from flycore.pipeline.activity import FINISHED_KEPT

NOT_ENDED = "the kernel ended before this call did"


def activity_of(record: CallRecord) -> Activity:
    """The record of a call that no longer runs. What the log does not know is left out."""
    return Activity(
        call_id=record.call_id,
        tool=record.tool,
        sidecar=record.sidecar or None,
        caller=parse_caller_key(record.caller_key),
        phase=Phase.FINISHED,
        started_at=_unix(record.called_at),
        input_text=_input(record.input),
        parent_call_id=record.parent_call_id,
        result=_result(record),
    )


def _result(record: CallRecord) -> ToolResult:
    status, code, message, hint = record.status, record.code, record.message, ""
    if not record.ended_at:
        status = Status.UNKNOWN if record.authority else Status.FAILED
        code = Code.OUTCOME_UNKNOWN if record.authority else Code.CANCELLED
        message = NOT_ENDED
        hint = "" if record.authority else "it had not started"
    if code == Code.OUTCOME_UNKNOWN:
        hint = "whether it took effect is not known: look before you call again"
    return ToolResult(
        status=Status(status) if status in set(Status) else Status.UNKNOWN,
        tool=record.tool,
        sidecar=record.sidecar or None,
        call_id=record.call_id,
        output=_parsed(record.output),
        error=CallError(code=code, message=message, hint=hint) if code else None,
        duration_ms=record.duration_ms,
        waited_ms=record.waited_ms,
        sandbox=Level(record.level) if record.level in set(Level) else None,
    )


def _input(text: str) -> str:
    if len(text) >= MOST_KEPT:
        return f"{text}… (flytui audit show has all of it)"
    try:
        return canonical_json(_parsed(text)) if text else ""
    except (ValueError, TypeError):
        return text


def _parsed(text: str) -> Json:
    """The JSON, None where it is cut or not there."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def _unix(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0


# What happened before, beside a running kernel: the log's projection, read once, then fed by the line.


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
