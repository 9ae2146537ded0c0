"""The history of calls from the log: earlier calls, metrics, and a person's past decisions."""

from __future__ import annotations

import json
import os
from collections.abc import Container
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from flycore.audit.projection import MOST_VALUE_CHARS, CallRecord, Projection
from flycore.model.approval import Checks, NamedPlaces, PastUse, Subject
from flycore.model.audit import Metrics
from flycore.model.call import Activity, Artifact, CallDecision, CallError, Picture, ToolResult
from flycore.model.caller import Caller, parse_caller_key
from flycore.model.clock import Clock
from flycore.model.enums import Code, Level, Phase, RequestState, Status
from flycore.model.events import Event, EventClass, Publish
from flycore.model.json import Json, canonical_json, digest
from flycore.pipeline.activity import FINISHED_KEPT
from flycore.registry.paths import RootPaths
from flycore.runners.images import MAX_IMAGE_BYTES, decode_image
from flysafe.beneath import read_beneath

NOT_ENDED = "the kernel ended before this call did"


def activity_of(record: CallRecord) -> Activity:
    """Return a call that no longer runs in the form of a running one, without what the log does not have."""
    return Activity(
        call_id=record.call_id,
        tool=record.tool,
        sidecar=record.sidecar or None,
        caller=parse_caller_key(record.caller_key),
        phase=Phase.FINISHED,
        started_at=_unix(record.called_at),
        input_text=_input(record.input),
        parent_call_id=record.parent_call_id,
        decision=_decision(record),
        authority=record.authority,
        result=_result(record),
    )


def _decision(record: CallRecord) -> CallDecision | None:
    if record.decision not in set(RequestState):
        return None
    return CallDecision(
        outcome=RequestState(record.decision),
        by=record.decided_by,
        took_ms=record.took_ms,
        reason=record.reason,
    )


def _with_decision(call: Activity, record: CallRecord | None) -> Activity:
    if record is None or not (record.decision or record.authority):
        return call
    return msgspec.structs.replace(call, decision=_decision(record), authority=record.authority)


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
    if len(text) >= MOST_VALUE_CHARS:
        return f"{text}… (flytui audit show has all of it)"
    try:
        return canonical_json(_parsed(text)) if text else ""
    except (ValueError, TypeError):
        return text


def _parsed(text: str) -> Json:
    """Parse the JSON; None if it is cut or empty."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def _unix(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0


# The history in a running kernel.


class CallHistory:
    """The log's projection: read once at the start, then fed with each new line.

    Until `run` has read the log, `ready` waits and all other results are empty.
    """

    def __init__(self, folder: Path, clock: Clock, publish: Publish) -> None:
        self._folder, self._clock, self._publish = folder, clock, publish
        self._projection = Projection(folder, max_calls=FINISHED_KEPT)
        self._backlog: list[tuple[int, bytes]] = []
        self._read = anyio.Event()
        self._shown: dict[str, tuple[CallRecord, Activity]] = {}

    def on_line(self, seq: int, line: bytes) -> None:
        """Take a line that was just written."""
        if self._read.is_set():
            self._projection.add_line(line)
        else:
            self._backlog.append((seq, line))

    async def run(self) -> None:
        """Read the lines of earlier kernels, in a thread."""
        try:
            # Abandoned when cancelled: reading a long log takes seconds, and the kernel should end at once.
            await anyio.to_thread.run_sync(self._projection.update, abandon_on_cancel=True)
        except OSError:  # the history starts empty; the log itself reports what is wrong with its files
            self._projection = Projection(self._folder, max_calls=FINISHED_KEPT)
        # The thread may have read some of the lines written meanwhile; their numbers show which ones.
        for seq, line in self._backlog:
            if seq > self._projection.seq:
                self._projection.add_line(line)
        self._backlog.clear()
        self._read.set()
        self._publish(Event(cls=EventClass.AUDIT, type="history.read", at=self._clock.now()))

    async def ready(self) -> None:
        """Wait until the log has been read."""
        await self._read.wait()

    def with_decisions(self, calls: tuple[Activity, ...]) -> tuple[Activity, ...]:
        """Return the calls with what the log says of how each was decided and what permitted it."""
        if not self._read.is_set():
            return calls
        records = {record.call_id: record for record in self._projection.history(FINISHED_KEPT)}
        return tuple(_with_decision(call, records.get(call.call_id)) for call in calls)

    def calls(self, besides: Container[str]) -> tuple[Activity, ...]:
        """Return the calls of the log, newest first, except those in `besides`.

        A call without an end is returned, too: its kernel was killed.
        """
        if not self._read.is_set():
            return ()
        shown: dict[str, tuple[CallRecord, Activity]] = {}
        for record in self._projection.history(FINISHED_KEPT):
            if record.call_id in besides:
                continue
            known = self._shown.get(record.call_id)
            same = known is not None and known[0] is record
            shown[record.call_id] = known if known and same else (record, activity_of(record))
        self._shown = shown
        calls = [activity for _, activity in shown.values()]
        return tuple(sorted(calls, key=lambda call: call.started_at, reverse=True))

    def unfinished(self) -> tuple[CallRecord, ...]:
        """Return the calls of all kernels that started and have no end, oldest first; none before the log was
        read."""
        return self._projection.unfinished() if self._read.is_set() else ()

    def metrics(self, caller_key: str = "") -> Metrics:
        """Return the metrics per tool, over all calls or those of one caller."""
        return self._projection.metrics_of(caller_key) if caller_key else self._projection.metrics()

    def checks(self, subject: Subject, caller: Caller) -> Checks:
        """Count a person's decisions on the same call of the same caller today, in the local time zone."""
        today = datetime.fromtimestamp(self._clock.now(), UTC).astimezone()
        day = today.replace(hour=0, minute=0, second=0, microsecond=0)
        since = f"{day.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
        return self._projection.past_decisions(caller, subject.tool, digest(subject.input), since)

    def past_use(self, tool: str, named: NamedPlaces) -> PastUse:
        """What the log knows of these places, and of earlier calls of the tool."""
        return self._projection.past_use(tool, named)


# The reader of images that calls made, for clients that may see the call.


class ArtifactImages:
    """The images among the artifacts of a root's calls."""

    def __init__(self, places: RootPaths) -> None:
        self._places = places
        # One image is decoded at a time, as a small file can become a large image: many readers at once could
        # fill the memory.
        self._turn = anyio.Lock()

    async def read(self, call: Activity, index: int, owners: tuple[str, ...]) -> Picture | None:
        """Read an artifact of the call as an image; None if it is not there or is no image.

        `owners` are the calls whose artifact folders it may lie in: the call and its steps.
        """
        artifacts = call.result.artifacts if call.result is not None else ()
        if not 0 <= index < len(artifacts):
            return None
        async with self._turn:
            return await anyio.to_thread.run_sync(self._read, owners, artifacts[index])

    def _read(self, owners: tuple[str, ...], artifact: Artifact) -> Picture | None:
        data = self._bytes(owners, artifact.path)
        return decode_image(data) if data is not None else None

    def _bytes(self, owners: tuple[str, ...], path: str) -> bytes | None:
        """Read the file, which must lie in the artifact folder of one of the calls or in the project."""
        artifacts_dir = self._places.artifacts_dir
        for anchor, own in ((artifacts_dir, owners), (self._places.app_root, ())):
            start = os.path.realpath(anchor)
            if not path.startswith(os.path.join(start, "")):
                continue
            # Of a process that serves several calls, the folders of the calls lie one level deeper.
            if own and not set(own).intersection(os.path.relpath(path, start).split("/")[:2]):
                continue
            # Checked again, and through no link: the path was valid when the call ended, not now.
            try:
                return read_beneath(Path(start), os.path.relpath(path, start), MAX_IMAGE_BYTES)
            except OSError:
                return None
        return None
