"""A stretch of time that lines of the log are asked for."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from flycore.audit.read import UNREADABLE
from flycore.model.json import JsonObject

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
