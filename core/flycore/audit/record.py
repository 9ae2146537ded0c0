"""One line of the audit log as a value, and ranges of time to select lines by."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import msgspec

from flycore.audit.query import UNREADABLE, parse_line
from flycore.model.caller import caller_origin
from flycore.model.json import Json, JsonObject

LONGEST_NAME = 256
"""Characters by which tools and callers are distinguished: a forged log must not fill memory with names."""


_NO_VALUE = msgspec.Raw()


class LogRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The members of a line that projections use, whichever event it is. A missing member is empty."""

    seq: int = 0
    time: str = ""
    event: str = ""
    call_id: str = ""
    request_id: str = ""
    tool: str = ""
    caller: str = ""
    caller_key: str = ""
    caller_name: str = ""
    sidecar: str = ""
    status: str = ""
    code: str = ""
    message: str = ""
    risk: str = ""
    decision: str = ""
    choice: str = ""
    decided_by: str = ""
    reason: str = ""
    took_ms: int = 0
    duration_ms: int = 0
    waited_ms: int = 0
    level: str = ""
    authority: str = ""
    seal: str = ""
    hosts: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    input_bytes: int = 0
    parent_call_id: str = ""
    input_digest: str = ""
    input: msgspec.Raw = _NO_VALUE
    output: msgspec.Raw = _NO_VALUE
    artifacts: int = 0

    @property
    def ran(self) -> bool:
        """Whether the call had run: only then does its last line have a sandbox level."""
        return bool(self.level)

    @property
    def program(self) -> str:
        """The caller without its process, such as `socket:/usr/bin/agent`: equal for each start of it."""
        return program_of(self.caller_key)


def program_of(caller_key: str) -> str:
    """The door and program of a caller key."""
    return caller_origin(caller_key)[:LONGEST_NAME]


_decode = msgspec.json.Decoder(LogRecord).decode


def read_line(raw: bytes) -> LogRecord | None:
    """Parse a line; None if it is not JSON or a member has a type that the log never writes."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        pass  # msgspec refuses half a surrogate pair, which a logged file name may contain; `json` takes it
    line = parse_line(raw)
    try:
        if line.get("event") == UNREADABLE:
            return None
        members: dict[str, object] = {**line}
        members |= {name: _raw_json(line[name]) for name in ("input", "output") if name in line}
        return msgspec.convert(members, LogRecord)
    except msgspec.ValidationError:
        return None


def _raw_json(value: Json) -> msgspec.Raw:
    """The value as JSON text again."""
    return msgspec.Raw(json.dumps(value).encode("ascii"))


# Time ranges.


_AGO = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def parse_time(text: str, now: datetime) -> datetime:
    """Parse `2026-06-01`, `2026-06-01T12:00` (UTC if it has no zone), or `90m`, `7d` before `now`.

    Raises ValueError.
    """
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        named = datetime.fromisoformat(text)
        return (named if named.tzinfo else named.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text} is not a time: write 2026-06-01, 2026-06-01T12:00 or 7d") from None


def _log_time(when: datetime | None) -> str:
    """The time as the log writes it; empty for None."""
    if when is None:
        return ""
    return f"{when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


class TimeRange:
    """The time from `since` up to, but without, `until`; None leaves that end open.

    Times are compared as texts: the log writes all of them in UTC with the same number of digits.
    """

    def __init__(self, since: datetime | None = None, until: datetime | None = None) -> None:
        self._since = _log_time(since)
        self._until = _log_time(until)

    def __contains__(self, line: JsonObject) -> bool:
        """Whether the line lies in the range. An unreadable line has no time and always does."""
        time = line.get("time")
        if not isinstance(time, str):
            return line.get("event") == UNREADABLE
        return self.covers(time)

    def covers(self, time: str) -> bool:
        """Whether that time, as the log writes it, lies in the range."""
        return self._since <= time and (not self._until or time < self._until)

    def reaches(self, month: str) -> bool:
        """Whether the file of that month, `YYYY-MM`, can have lines of the range."""
        # Only `since` counts: after the clock was set back, a file has times before its month, never after.
        return month >= self._since[:7]


ALL_TIME = TimeRange()
