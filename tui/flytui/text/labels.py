"""Labels, glyphs and durations, which are the same on every screen and on the command line."""

from __future__ import annotations

import json
import time
from datetime import date

from flycore.model.call import ToolResult
from flycore.model.enums import Code, Risk
from flycore.model.json import Json
from flytui.text.lines import StyledText, Tone, span

# The keys are the values of the enums `Effective`, `Risk`, `Status` and `Phase`.
STATE_LABELS: dict[str, tuple[str, Tone]] = {
    "available": ("● available", Tone.GOOD),
    "degraded": ("◐ degraded", Tone.WARN),
    "unavailable": ("○ unavailable", Tone.BAD),
    "disabled": ("⊘ disabled", Tone.DIM),
}
CHANGED_LABEL = ("± changed", Tone.WARN)
STATE_MEANINGS = (
    ("● available", Tone.GOOD, "works, as far as the last probe and calls show"),
    ("◐ degraded", Tone.WARN, "works with a limit that the ladder names"),
    ("○ unavailable", Tone.BAD, "does not work; the list gives reason and remedy"),
    ("⊘ disabled", Tone.DIM, "switched off in the registry"),
    ("± changed", Tone.WARN, "its entry changed: the trusted value runs on, the new one waits for trust"),
)
"""What each state of a tool means."""
RISK_LABELS: dict[str, tuple[str, Tone]] = {
    "low": ("low", Tone.DIM),
    "medium": ("med", Tone.PLAIN),
    "high": ("high", Tone.WARN),
    "critical": ("crit", Tone.ALARM),
}
STATUS_LABELS: dict[str, tuple[str, Tone]] = {
    "success": ("✓ success", Tone.GOOD),
    "failed": ("✗ failed", Tone.BAD),
    "unavailable": ("○ unavailable", Tone.BAD),
    "denied": ("⊘ denied", Tone.WARN),
    "pending": ("◌ pending", Tone.ACCENT),
    "unknown": ("? unknown", Tone.WARN),
}
PHASE_LABELS: dict[str, tuple[str, Tone]] = {
    "checking": ("◌ checking", Tone.ACCENT),
    "waiting-approval": ("▲ asks you", Tone.WARN),
    "waiting-group": ("◌ in line", Tone.ACCENT),
    "running": ("▶ running", Tone.ACCENT),
    "finished": ("✓ finished", Tone.DIM),
}


def label_span(pair: tuple[str, Tone]) -> StyledText:
    """A label of one of the tables above as a span."""
    return StyledText(*pair)


TURNED_AWAY_LABEL = ("◌ turned away", Tone.WARN)
"""The label of a call whose request found the queue full. Nobody has denied it."""


def result_span(result: ToolResult) -> StyledText:
    """The label of how a call ended."""
    full = result.error is not None and result.error.code == Code.QUEUE_FULL
    return label_span(TURNED_AWAY_LABEL if full else STATUS_LABELS[result.status])


def risk_title(risk: Risk) -> StyledText:
    """The risk as a card's title shows it. Only high and critical risk is red."""
    alarming = risk.at_least(Risk.HIGH)
    return span(f"{'▲ ' if alarming else ''}{risk.value.upper()}", Tone.ALARM if alarming else Tone.STRONG)


def duration(seconds: float) -> str:
    """A duration such as `0:12`, `9:48` or `1:02:03`. A negative one is `0:00`."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{second:02}" if hours else f"{minutes}:{second:02}"


def local_time(at: float) -> str:
    """A Unix time in the person's time zone, such as `14:03:11`, with the date where that is not today."""
    then = time.localtime(at)
    day = "" if then[:3] == time.localtime()[:3] else "%Y-%m-%d "
    return time.strftime(f"{day}%H:%M:%S", then)


DAY_TIME_CELLS = 11
"""Cells of the texts of `day_time`."""


def day_time(at: float, now: float) -> str:
    """A Unix time in the person's time zone for a list: `14:03:11` today, `11-23 14:03` before."""
    then = time.localtime(at)
    return time.strftime("%H:%M:%S" if then[:3] == time.localtime(now)[:3] else "%m-%d %H:%M", then)


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)


def day_words(at: float, now: float) -> str:
    """The day of a Unix time in the person's time zone: `today`, `yesterday`, `Tuesday` within a week, else
    `3 March`, with the year where that is not this one."""
    then, today = date(*time.localtime(at)[:3]), date(*time.localtime(now)[:3])
    days = (today - then).days
    if 0 <= days < 7:
        return ("today", "yesterday")[days] if days < 2 else _DAYS[then.weekday()]
    year = "" if then.year == today.year else f" {then.year}"
    return f"{then.day} {_MONTHS[then.month - 1]}{year}"


def age(seconds: float) -> str:
    """An age in its largest whole unit, such as `12s`, `3m`, `4h` or `2d`."""
    whole = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def milliseconds_text(milliseconds: int) -> str:
    """A duration in milliseconds as text, such as `40ms`, `1.9s` or `3:12`."""
    if milliseconds < 1_000:
        return f"{milliseconds}ms"
    return f"{milliseconds / 1_000:.1f}s" if milliseconds < 60_000 else duration(milliseconds / 1_000)


def plural(count: int, one: str, many: str = "") -> str:
    """A number with its noun, such as `1 problem` or `3 problems`. `many` is an irregular plural."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def json_text(value: Json) -> str:
    """The value as indented JSON, for reading."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False)
