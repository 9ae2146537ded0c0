"""Labels, glyphs and durations, which are the same on every screen and on the command line."""

from __future__ import annotations

import json
import time

from flycore.model.call import ToolResult
from flycore.model.enums import Code, Effective, Phase, Risk, Status
from flycore.model.json import Json
from flytui.text.lines import StyledText, Tone, span

STATE_LABELS: dict[Effective, tuple[str, Tone]] = {
    Effective.AVAILABLE: ("● available", Tone.GOOD),
    Effective.DEGRADED: ("◐ degraded", Tone.WARN),
    Effective.UNAVAILABLE: ("○ unavailable", Tone.BAD),
    Effective.DISABLED: ("⊘ disabled", Tone.DIM),
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
RISK_LABELS: dict[Risk, tuple[str, Tone]] = {
    Risk.LOW: ("low", Tone.DIM),
    Risk.MEDIUM: ("med", Tone.PLAIN),
    Risk.HIGH: ("high", Tone.WARN),
    Risk.CRITICAL: ("crit", Tone.ALARM),
}
STATUS_LABELS: dict[Status, tuple[str, Tone]] = {
    Status.SUCCESS: ("✓ success", Tone.GOOD),
    Status.FAILED: ("✗ failed", Tone.BAD),
    Status.UNAVAILABLE: ("○ unavailable", Tone.BAD),
    Status.DENIED: ("⊘ denied", Tone.WARN),
    Status.PENDING: ("◌ pending", Tone.ACCENT),
    Status.UNKNOWN: ("? unknown", Tone.WARN),
}
PHASE_LABELS: dict[Phase, tuple[str, Tone]] = {
    Phase.CHECKING: ("◌ checking", Tone.ACCENT),
    Phase.WAITING_APPROVAL: ("▲ asks you", Tone.WARN),
    Phase.WAITING_GROUP: ("◌ in line", Tone.ACCENT),
    Phase.RUNNING: ("▶ running", Tone.ACCENT),
    Phase.FINISHED: ("✓ finished", Tone.DIM),
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
