"""A stretch of time that lines of the log are asked for."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import msgspec

from flycore.audit.query import UNREADABLE, parse_line
from flycore.model.caller import caller_origin
from flycore.model.json import Json, JsonObject

_AGO = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def moment(text: str, now: datetime) -> datetime:
    """`2026-06-01`, `2026-06-01T12:00`, with or without zone (else UTC), or `90m`, `7d` before now.

    Raises ValueError for anything else.
    """
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        named = datetime.fromisoformat(text)
        return (named if named.tzinfo else named.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text} is no time: write 2026-06-01, 2026-06-01T12:00 or 7d") from None


def _written(when: datetime | None) -> str:
    """As the log writes times."""
    if when is None:
        return ""
    return f"{when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


class TimeRange:
    """From `since` to before `until`, either of them open. Times are compared as they are written."""

    def __init__(self, since: datetime | None = None, until: datetime | None = None) -> None:
        self._since = _written(since)
        self._until = _written(until)

    def __contains__(self, line: JsonObject) -> bool:
        """Whether the line is meant. One that is unreadable has no time and always is."""
        time = line.get("time")
        if not isinstance(time, str):
            return line.get("event") == UNREADABLE
        return self.covers(time)

    def covers(self, time: str) -> bool:
        """Whether a line of that time, as the log writes it, is meant."""
        return self._since <= time and (not self._until or time < self._until)

    def reaches(self, month: str) -> bool:
        """Whether the file of that month can hold such lines; none holds a later time than its month."""
        return month >= self._since[:7]


ALL_TIME = TimeRange()


# The members of a line that projections are made of, whichever event it is; the others are skipped.


LONGEST_NAME = 256
"""Characters of a tool or caller that are told apart; a forged log must not fill memory with names."""


EMPTY_RECORD = msgspec.Raw()


class LogRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One line. What it does not have is empty."""

    seq: int = 0
    time: str = ""
    event: str = ""
    call_id: str = ""
    request_id: str = ""
    tool: str = ""
    caller: str = ""
    caller_key: str = ""
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
    parent_call_id: str = ""
    input_digest: str = ""
    input: msgspec.Raw = EMPTY_RECORD
    output: msgspec.Raw = EMPTY_RECORD
    artifacts: int = 0

    @property
    def ran(self) -> bool:
        """Whether a call that ended had run: only then a level was applied."""
        return bool(self.level)

    @property
    def program(self) -> str:
        """The caller without its process: `socket:/usr/bin/agent`, the same for every start of it."""
        return program_of(self.caller_key)


def program_of(caller_key: str) -> str:
    """Door and program of a caller's identity."""
    return caller_origin(caller_key)[:LONGEST_NAME]


_decode = msgspec.json.Decoder(LogRecord).decode


def read_line(raw: bytes) -> LogRecord | None:
    """The line; None where it is none, or a member has another type than the log writes."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        pass  # half a surrogate pair in a name is no UTF-8, but a line all the same
    line = parse_line(raw)
    try:
        if line.get("event") == UNREADABLE:
            return None
        members: dict[str, object] = {**line}
        members |= {name: _reparse(line[name]) for name in ("input", "output") if name in line}
        return msgspec.convert(members, LogRecord)
    except msgspec.ValidationError:
        return None


def _reparse(value: Json) -> msgspec.Raw:
    """The value as it stood in the line."""
    return msgspec.Raw(json.dumps(value).encode("ascii"))
