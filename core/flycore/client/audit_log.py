"""The audit log of a root, read from its files: lines, calls, metrics, and verification."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from flycore.audit.export import Format as Format
from flycore.audit.export import export, lines
from flycore.audit.projection import Projection as Projection
from flycore.audit.projection import history
from flycore.audit.prometheus import exposition as exposition
from flycore.audit.query import MOST_LINES, find, tail
from flycore.audit.query import as_text as as_text
from flycore.audit.record import ALL_TIME, parse_time
from flycore.audit.record import TimeRange as TimeRange
from flycore.audit.verify import verify
from flycore.kernel.call_history import activity_of
from flycore.model.audit import ToolMetrics, Verification
from flycore.model.call import Activity
from flycore.model.json import JsonObject
from flycore.registry.paths import RootPaths

MOST_CALLS = 500
"""The most calls that `logged_calls` returns."""


def last_lines(places: RootPaths, count: int = MOST_LINES) -> tuple[JsonObject, ...]:
    """Return the last lines, oldest first. Raises OSError."""
    return tail(audit_folder(places), count)


def find_lines(places: RootPaths, number_or_call_id: int | str) -> tuple[JsonObject, ...]:
    """Return the line with that number, or all lines of the call with that id. Raises OSError."""
    return find(audit_folder(places), number_or_call_id)


def parse_time_range(since: str, until: str, now: datetime) -> TimeRange:
    """Parse two times as typed; an empty one leaves that end of the range open. Raises ValueError."""
    return TimeRange(parse_time(since, now) if since else None, parse_time(until, now) if until else None)


def exported_lines(places: RootPaths, form: Format, span: TimeRange) -> Iterator[str]:
    """Yield the log in that format, oldest line first, safe to print. Raises OSError."""
    return export(audit_folder(places), form, span)


def exported_values(places: RootPaths, span: TimeRange) -> Iterator[JsonObject]:
    """Yield the lines of that time as values, oldest first. Raises OSError."""
    return (line for _, line in lines(audit_folder(places), span))


def verify_log(places: RootPaths) -> Verification:
    """Check that every line is as it was written and none is missing."""
    return verify(audit_folder(places), anchor_file(places))


def read_metrics(places: RootPaths, span: TimeRange = ALL_TIME) -> Projection:
    """Compute the metrics of every tool and of the approvals in that time. Raises OSError."""
    projection = Projection(audit_folder(places), span, max_calls=0)
    projection.update()
    return projection


def tool_history(
    places: RootPaths, tool: str, most: int
) -> tuple[tuple[ToolMetrics, ...], tuple[Activity, ...]]:
    """Return the metrics of one tool and its latest ended calls, `most` at most. Raises OSError."""
    projection = Projection(audit_folder(places), max_calls=most, tool=tool)
    projection.update()
    calls = tuple(activity_of(record) for record in projection.history() if record.ended_at)
    return projection.metrics().tools, calls


def logged_calls(places: RootPaths) -> tuple[Activity, ...]:
    """Return the latest calls in the log, newest first. Raises OSError."""
    calls = [activity_of(record) for record in history(audit_folder(places), limit=MOST_CALLS)]
    return tuple(sorted(calls, key=lambda call: call.started_at, reverse=True))


def audit_folder(places: RootPaths) -> Path:
    """Return the folder of the log."""
    return places.audit_dir


def anchor_file(places: RootPaths) -> Path:
    """Return the file with the log's anchors, which lies outside the state folder."""
    return places.anchors_file
