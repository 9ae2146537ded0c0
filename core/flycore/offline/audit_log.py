"""The audit log of a root, read from its files: lines, calls, numbers, and whether it is whole."""

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
from flycore.audit.record import ALL_TIME, moment
from flycore.audit.record import TimeRange as TimeRange
from flycore.audit.verify import verify
from flycore.kernel.call_history import activity_of
from flycore.model.audit import ToolMetrics, Verification
from flycore.model.call import Activity
from flycore.model.json import JsonObject
from flycore.registry.paths import RootPaths

MOST_CALLS = 500
"""Calls of the log that `logged_calls` looks at."""


def last_lines(places: RootPaths, count: int = MOST_LINES) -> tuple[JsonObject, ...]:
    """The last lines, oldest first. OSError."""
    return tail(audit_folder(places), count)


def find_lines(places: RootPaths, wanted: int | str) -> tuple[JsonObject, ...]:
    """The line of that number, or all lines of the call of that id. OSError."""
    return find(audit_folder(places), wanted)


def read_span(since: str, until: str, now: datetime) -> TimeRange:
    """The time from one word to the other, each empty where that end is open. Raises ValueError where a word
    is no time."""
    return TimeRange(moment(since, now) if since else None, moment(until, now) if until else None)


def exported_lines(places: RootPaths, form: Format, span: TimeRange) -> Iterator[str]:
    """The log in that format, oldest line first, ready to print. OSError."""
    return export(audit_folder(places), form, span)


def exported_values(places: RootPaths, span: TimeRange) -> Iterator[JsonObject]:
    """The lines of that time as values, oldest first. OSError."""
    return (line for _, line in lines(audit_folder(places), span))


def verify_log(places: RootPaths) -> Verification:
    """Whether every line is as it was written, and none is missing."""
    return verify(audit_folder(places), anchor_file(places))


def read_numbers(places: RootPaths, span: TimeRange = ALL_TIME) -> Projection:
    """What the lines of that time say of every tool, and of how much a person was asked. OSError."""
    numbers = Projection(audit_folder(places), span, kept=0)
    numbers.update()
    return numbers


def tool_history(
    places: RootPaths, tool: str, most: int
) -> tuple[tuple[ToolMetrics, ...], tuple[Activity, ...]]:
    """The numbers of one tool, and its latest calls that have ended, at most so many. OSError."""
    made = Projection(audit_folder(places), kept=most, tool=tool)
    made.update()
    calls = tuple(activity_of(record) for record in made.history() if record.ended_at)
    return made.metrics().tools, calls


def logged_calls(places: RootPaths) -> tuple[Activity, ...]:
    """The latest calls in the log, newest first. OSError."""
    made = [activity_of(record) for record in history(audit_folder(places), limit=MOST_CALLS)]
    return tuple(sorted(made, key=lambda call: call.started_at, reverse=True))


def audit_folder(places: RootPaths) -> Path:
    """The folder that holds the log."""
    return places.audit_dir


def anchor_file(places: RootPaths) -> Path:
    """The file, outside the state folder, that knows how long the log was."""
    return places.anchors_file
