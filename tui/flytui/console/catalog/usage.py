"""How a tool has been used: what the log adds up to, and its latest calls. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from flycore.model.audit import ToolMetrics
from flycore.model.call import Activity
from flytui.console.paint import StyledLine, StyledText, Tone, labelled, line, padded, span, truncated
from flytui.console.words import PHASE_LABELS, STATUS_LABELS, age, label_span, milliseconds_text, plural

MAX_RECENT_CALLS = 10
_USAGE_LABEL_CELLS = 13


class ToolUsage(NamedTuple):
    """What is known of one tool's calls."""

    metrics: ToolMetrics | None
    """None where the log has no call of it."""
    recent: Sequence[Activity]
    """Newest first."""


def usage_of(tool: str, metrics: Iterable[ToolMetrics], calls: Iterable[Activity]) -> ToolUsage:
    """The tool's own among all."""
    own = next((item for item in metrics if item.tool == tool), None)
    return ToolUsage(own, [call for call in calls if call.tool == tool][:MAX_RECENT_CALLS])


def usage_lines(usage: ToolUsage, now: float, width: int) -> list[StyledLine]:
    """Counts, durations, the last error and the latest calls; `now` in Unix seconds."""
    rows: list[StyledLine] = [(), line(StyledText(" "), span("Calls", Tone.STRONG))]
    metrics = usage.metrics
    if metrics is None and not usage.recent:
        return [*rows, line(span(" none yet", Tone.DIM))]
    if metrics is not None:
        rows += labelled("counted", _count_words(metrics), width, _USAGE_LABEL_CELLS)
        if metrics.ran:
            average = milliseconds_text(round(metrics.average_ms))
            times = f"{average} average, {milliseconds_text(metrics.p95_ms)} p95"
            rows += labelled(
                "took", f"{times}, {milliseconds_text(metrics.total_ms)} in all", width, _USAGE_LABEL_CELLS
            )
            rows += labelled(
                "last ran", f"{_age_of(metrics.last_executed, now)} ago", width, _USAGE_LABEL_CELLS
            )
        if metrics.last_error is not None:
            error = metrics.last_error
            rows += labelled(
                "last error",
                f"{error.code}: {error.message} ({_age_of(error.at, now)} ago)",
                width,
                _USAGE_LABEL_CELLS,
            )
    for call in usage.recent:
        rows.append(truncated(_recent_line(call, now), width))
    return rows


def _count_words(metrics: ToolMetrics) -> str:
    ends = (
        (metrics.success, "success"),
        (metrics.failed, "failed"),
        (metrics.denied, "denied"),
        (metrics.unavailable, "unavailable"),
        (metrics.other + metrics.open, "other or open"),
    )
    return f"{plural(metrics.calls, 'call')}: " + ", ".join(
        f"{count} {word}" for count, word in ends if count
    )


def _recent_line(call: Activity, now: float) -> StyledLine:
    result = call.result
    state = label_span(STATUS_LABELS[result.status] if result is not None else PHASE_LABELS[call.phase])
    ran = milliseconds_text(result.duration_ms) if result is not None else ""
    error = f"  {result.error.code}" if result is not None and result.error is not None else ""
    return (
        *padded((StyledText(" "), span(f"{age(now - call.started_at)} ago", Tone.DIM)), _USAGE_LABEL_CELLS),
        *padded((state,), 14),
        *padded((span(ran, Tone.DIM),), 9),
        span(f"{call.caller}{error}", Tone.DIM),
    )


def _age_of(time: str, now: float) -> str:
    try:
        return age(now - datetime.fromisoformat(time).timestamp())
    except (ValueError, OverflowError):
        return time
