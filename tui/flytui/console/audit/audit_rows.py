"""The lines of the log as rows: what each is about, which of them a filter shows, and which share a row.

A line is parsed when it is drawn. The filter searches the lines without parsing them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import overload

import msgspec

from flycore.client.audit_reader import MAX_LINES, line_text, parse_record
from flycore.model.catalog import Catalog
from flycore.model.enums import RequestState
from flycore.model.json import Json, JsonObject
from flytui.text.call_facts import authority_text, caller_text, decision_text, effect_text
from flytui.text.labels import DAY_TIME_CELLS, day_time, milliseconds_text
from flytui.text.lines import StyledLine, Tone, span, table_row, truncated
from flytui.text.record_filter import RecordFilter

MAX_BUFFER_BYTES = 64 * 1024 * 1024
"""The most bytes of lines that are kept; beyond it the oldest lines are dropped."""
TITLES = {"TIME": "TIME", "EVENT": "EVENT", "WHAT": "WHAT", "BY": "ASKED BY", "HOW": "HOW"}
"""The titles of the columns."""
_WIDE, _MIDDLE = 108, 84
"""From these widths, in cells, who asked has a column, and so has how a call was decided or ended."""
_BAD_EVENTS = frozenset(("UNREADABLE", "TAIL_TORN", "PANIC"))
_CALL_EVENTS = frozenset(
    ("TOOL_CALLED", "APPROVAL_ASKED", "APPROVAL_DECIDED", "TOOL_STARTED", "TOOL_EXECUTED")
)
_HEAD_BYTES = 256
"""The bytes of a line within which its event stands."""
_CALL_ID = re.compile(rb'"callId":"([^"\\]{1,200})"')
_CALLER = re.compile(rb'"caller":"((?:[^"\\]|\\.)*)"')
_TOOL = re.compile(rb'"tool":"((?:[^"\\]|\\.)*)"')
_TIME = re.compile(rb'"time":"([0-9T:.Z-]{1,40})"')


class AuditRow(msgspec.Struct, frozen=True):
    """The row of one line, or of several changes of the catalog's states that followed one another."""

    lines: tuple[bytes, ...]
    """The lines, the newest last."""
    at: int
    """The index of the first one among all lines that were read, the dropped ones included."""
    called: bytes = b""
    """The line with the input of the call that this line is about; empty where there is none."""
    catalog: Catalog | None = None
    """The catalog that knows what the call does."""
    now: float = 0.0

    @property
    def key(self) -> str:
        """The number of the line among those read, as text."""
        return str(self.at + 1)

    @property
    def raw(self) -> bytes:
        """The line, or the newest of several."""
        return self.lines[-1]

    def draw(self, width: int) -> StyledLine:
        """Draw the time, the event, what it is about, who asked, and how it was decided or ended."""
        record = parse_record(self.raw)
        event = str(record.get("event", ""))
        folded = f"×{len(self.lines)} " if len(self.lines) > 1 else ""
        how = how_text(record)
        cells: dict[str, StyledLine] = {
            "TIME": (span(wall_time(record.get("time"), self.now), Tone.DIM),),
            "EVENT": (span(event, Tone.BAD if event in _BAD_EVENTS else Tone.STRONG),),
            "WHAT": (span(folded, Tone.ACCENT), span(self._what(record))),
            "BY": (span(caller_text(str(record.get("caller", ""))), Tone.DIM),),
            "HOW": (span(how, Tone.DIM),),
        }
        if width < _MIDDLE and how:
            cells["WHAT"] = (span(f"{how} · ", Tone.DIM), *cells["WHAT"])
        return audit_columns(cells, width)

    def _what(self, record: JsonObject) -> str:
        """What the line is about: for a call its effect, after why it failed."""
        if record.get("event") not in _CALL_EVENTS:
            return line_text(record)
        tool = str(record.get("tool", ""))
        called = parse_record(self.called) if self.called else record
        effect = effect_text(self.catalog, tool, called.get("input"))
        if not record.get("code"):
            return effect
        failure = f"{tool} {record['code']}: {record.get('message', '')}"
        return " · ".join(part for part in (failure, effect.partition(" · ")[2]) if part)


def how_text(record: JsonObject) -> str:
    """How a call was decided, what let it start, or how it ended and how long it took."""
    match record.get("event"):
        case "APPROVAL_ASKED":
            return f"{record.get('risk', '')} risk"
        case "APPROVAL_DECIDED" if record.get("decision") in set(RequestState):
            return decision_text(RequestState(str(record["decision"])), _number(record.get("tookMs")))
        case "TOOL_STARTED":
            return authority_text(str(record.get("authority", "")))
        case "TOOL_EXECUTED":
            return f"{record.get('status', '')} {milliseconds_text(_number(record.get('durationMs')))}"
        case _:
            return ""


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0


def audit_columns(cells: Mapping[str, StyledLine], width: int) -> StyledLine:
    """The cells in their columns. What a line is about takes the room that the others leave."""
    sizes = {"TIME": DAY_TIME_CELLS, "EVENT": 17, "WHAT": 0}
    if width >= _WIDE:
        sizes["BY"] = 18
    if width >= _MIDDLE:
        sizes["HOW"] = 21
    sizes["WHAT"] = max(0, width - sum(sizes.values()) - len(sizes))
    return truncated(table_row((cells[name] for name in sizes), sizes.values()), width)


def wall_time(time: Json, now: float) -> str:
    """A time of the log in the person's time zone: `12:00:01` today, `06-15 12:00` before. A text that is no
    time stays as it is."""
    try:
        return day_time(datetime.fromisoformat(str(time)).timestamp(), now)
    except (ValueError, OverflowError):
        return str(time)


# The lines that are kept, and those that are rows.


class LineBuffer:
    """The newest lines of the log, up to a number and a size."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.dropped = 0
        """The number of lines that were read and dropped."""
        self._bytes = 0
        self._called: dict[bytes, bytes] = {}
        """Those of the lines that have the inputs of calls, by call id."""

    def add(self, lines: Sequence[bytes]) -> None:
        """Add lines at the end, and drop the oldest lines beyond the limits."""
        self.lines += lines
        self._bytes += sum(map(len, lines))
        for raw in lines:
            if call_id := _call_begun(raw):
                self._called[call_id] = raw
        gone = 0
        # A single line larger than the limit is kept, so that the screen is never empty.
        while len(self.lines) - gone > MAX_LINES or (
            self._bytes > MAX_BUFFER_BYTES and len(self.lines) - gone > 1
        ):
            self._bytes -= len(self.lines[gone])
            self._called.pop(_call_begun(self.lines[gone]), None)
            gone += 1
        if gone:
            self.lines = self.lines[gone:]
            self.dropped += gone

    def called(self, raw: bytes) -> bytes:
        """The line with the input of the call that this line is about; empty where it is not kept."""
        found = _CALL_ID.search(raw)
        return self._called.get(found[1], b"") if found is not None else b""


def _call_begun(raw: bytes) -> bytes:
    """The id of the call whose input the line has; empty for every other line."""
    found = _CALL_ID.search(raw) if has_event(raw, b"TOOL_CALLED") else None
    return found[1] if found is not None else b""


def has_event(raw: bytes, event: bytes) -> bool:
    """Whether the line has that event, without parsing it."""
    return raw.find(b'"event":"%s"' % event, 0, _HEAD_BYTES) >= 0


class RowPlaces:
    """Which lines are rows: each of them, but changes of the catalog's states that follow one another share
    one. Lines are named by their index among all lines that were read."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        """The lines of each row, oldest first."""
        self.count = 0
        """The number of lines in all rows."""
        self._folds = False
        """Whether the last row takes another change of states."""

    def add(self, at: int, raw: bytes) -> None:
        """Add a line that is newer than all others."""
        snapshot = has_event(raw, b"SNAPSHOT_CHANGED")
        if snapshot and self._folds:
            self.rows[-1].append(at)
        else:
            self.rows.append([at])
        self._folds = snapshot
        self.count += 1

    def drop_before(self, first: int) -> None:
        """Forget the lines before this one."""
        gone = 0
        while gone < len(self.rows) and self.rows[gone][-1] < first:
            self.count -= len(self.rows[gone])
            gone += 1
        del self.rows[:gone]
        if self.rows and self.rows[0][0] < first:
            kept = [at for at in self.rows[0] if at >= first]
            self.count -= len(self.rows[0]) - len(kept)
            self.rows[0] = kept
        self._folds = self._folds and bool(self.rows)


class AuditRows(Sequence[AuditRow]):
    """The rows at these places of a buffer. A row is made when it is read."""

    def __init__(
        self, buffer: LineBuffer, places: RowPlaces, catalog: Catalog | None, now: Callable[[], float]
    ) -> None:
        self._buffer, self._rows, self._catalog, self._now = buffer, places.rows, catalog, now

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> AuditRow: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[AuditRow]: ...
    def __getitem__(self, at: int | slice) -> AuditRow | Sequence[AuditRow]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        places, buffer = self._rows[at], self._buffer
        lines = tuple(buffer.lines[place - buffer.dropped] for place in places)
        return AuditRow(lines, places[0], buffer.called(lines[-1]), self._catalog, self._now())


# The filter.


def matching_places(lines: Sequence[bytes], record_filter: RecordFilter, start: int, stop: int) -> list[int]:
    """The places from `start` to before `stop` of the lines that the filter lets through. Upper and lower
    case are the same. The hashes of the chain are not searched."""
    if not record_filter.terms:
        return list(range(start, min(stop, len(lines))))
    encoded = _escaped_filter(record_filter)
    chosen = islice(lines, start, stop)
    return [place for place, raw in enumerate(chosen, start) if _line_matches(raw, encoded)]


def _escaped_filter(record_filter: RecordFilter) -> RecordFilter:
    """The filter with its values as the log spells them: JSON in ASCII, in lower case."""
    terms = (
        msgspec.structs.replace(term, value=json.dumps(term.value)[1:-1].lower())
        for term in record_filter.terms
    )
    return RecordFilter(tuple(terms))


def _line_matches(raw: bytes, record_filter: RecordFilter) -> bool:
    def text_of(key: str) -> str:
        if key:
            found = (_CALLER if key == "caller" else _TOOL).search(raw)
            return found[1].decode("ascii", "replace").lower() if found is not None else ""
        # The hashes of the chain end every line. A short word would match their digits by chance.
        end = raw.rfind(b',"prev":')
        return (raw if end < 0 else raw[:end]).decode("ascii", "replace").lower()

    def at() -> float:
        found = _TIME.search(raw, 0, _HEAD_BYTES)
        try:
            return datetime.fromisoformat(found[1].decode()).timestamp() if found is not None else 0.0
        except (ValueError, OverflowError):
            return 0.0

    return record_filter.matches(text_of, at)
