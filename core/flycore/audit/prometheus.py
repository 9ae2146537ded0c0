"""The metrics as text for Prometheus (exposition format 0.0.4).

Labels are safe to print: control characters are replaced (`safe_text`) before they are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from flycore.model.audit import ApprovalMetrics, ApprovalReport, Metrics, ToolMetrics
from flycore.model.status import Status
from flysafe.text import safe_text

Sample = tuple[str, dict[str, str], float]
"""A suffix to the family's name, the labels, and the value."""


def exposition(metrics: Metrics, approvals: ApprovalReport, running: Status | None = None) -> str:
    """Return all families, each with HELP and TYPE; the text ends with a newline. `running` is the status of
    the kernel that runs, None where none does."""
    lines = [*_lines(metrics, approvals), *(_kernel(running) if running is not None else ())]
    return "".join(f"{line}\n" for line in lines)


def _kernel(running: Status) -> Iterator[str]:
    yield from _family(
        "flytui_loop_pauses_total",
        "counter",
        "Times that the kernel's event loop stood still for more than 100 ms.",
        _one(running.loop_pauses),
    )
    yield from _family(
        "flytui_loop_longest_pause_seconds",
        "gauge",
        "The longest of them since the kernel started.",
        _one(running.longest_pause_ms / 1000),
    )


def escape_label(text: str) -> str:
    """Escape `\\`, `"` and line feed in a label's value, as the format requires."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _lines(metrics: Metrics, approvals: ApprovalReport) -> Iterator[str]:
    tools = metrics.tools
    calls = (
        ("", {"tool": tool.tool, "status": status}, count)
        for tool in tools
        for status, count in _status_counts(tool)
    )
    yield from _family("flytui_tool_calls_total", "counter", "Calls that have ended.", calls)
    running = (("", {"tool": tool.tool}, tool.open) for tool in tools)
    yield from _family("flytui_tool_calls_open", "gauge", "Calls without an end in the log.", running)
    durations = (sample for tool in tools for sample in _duration(tool))
    yield from _family(
        "flytui_tool_duration_seconds", "summary", "Running time of calls, without waiting.", durations
    )
    last = (("", {"tool": tool.tool}, _seconds(tool.last_executed)) for tool in tools if tool.last_executed)
    yield from _family(
        "flytui_tool_last_executed_timestamp_seconds", "gauge", "When the tool last ran.", last
    )
    errors = (
        ("", {"tool": tool.tool, "code": tool.last_error.code}, _seconds(tool.last_error.at))
        for tool in tools
        if tool.last_error is not None
    )
    yield from _family(
        "flytui_tool_last_error_timestamp_seconds", "gauge", "When the tool last failed.", errors
    )
    yield from _approvals(approvals)
    yield from _family(
        "flytui_audit_unreadable_lines",
        "gauge",
        "Lines of the log that cannot be read.",
        _one(metrics.unreadable),
    )


def _approvals(approvals: ApprovalReport) -> Iterator[str]:
    prompts = (
        ("", {**_pair_labels(pair), "outcome": outcome}, count)
        for pair in approvals.pairs
        for outcome, count in _outcomes(pair)
    )
    yield from _family("flytui_approval_prompts_total", "counter", "Cards put before a person.", prompts)
    at_once = (("", _pair_labels(pair), pair.approved_at_once) for pair in approvals.pairs)
    yield from _family(
        "flytui_approvals_at_once_total", "counter", "Approved within a second of asking.", at_once
    )
    total = approvals.total
    quantiles = ((0.5, total.median_ms), (0.95, total.p95_ms))
    decided = (("", {"quantile": f"{quantile}"}, ms / 1000) for quantile, ms in quantiles)
    yield from _family(
        "flytui_approval_decision_seconds", "gauge", "From asking to a person's answer.", decided
    )
    busiest = _one(total.busiest_hour)
    yield from _family(
        "flytui_approval_busiest_hour_prompts", "gauge", "Most cards within one hour of the clock.", busiest
    )


def _status_counts(tool: ToolMetrics) -> Iterator[tuple[str, int]]:
    yield "success", tool.success
    yield "failed", tool.failed
    yield "denied", tool.denied
    yield "unavailable", tool.unavailable
    yield "other", tool.other


def _outcomes(pair: ApprovalMetrics) -> Iterator[tuple[str, int]]:
    yield "approved", pair.approved
    yield "denied", pair.denied
    yield "timed-out", pair.timed_out
    yield "withdrawn", pair.withdrawn


def _duration(tool: ToolMetrics) -> Iterator[Sample]:
    if tool.ran:
        yield "", {"tool": tool.tool, "quantile": "0.95"}, tool.p95_ms / 1000
    yield "_sum", {"tool": tool.tool}, tool.total_ms / 1000
    yield "_count", {"tool": tool.tool}, tool.ran


def _pair_labels(pair: ApprovalMetrics) -> dict[str, str]:
    return {"caller": pair.caller, "tool": pair.tool}


def _one(value: float) -> tuple[Sample, ...]:
    return (("", {}, value),)


def _family(name: str, kind: str, words: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"
    for suffix, labels, value in samples:
        label_text = ",".join(f'{key}="{escape_label(safe_text(text))}"' for key, text in labels.items())
        yield f"{name}{suffix}{'{' + label_text + '}' if label_text else ''} {value!r}"


def _seconds(time: str) -> float:
    """Return a time of the log as Unix time; 0 if it is not a time."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError):
        return 0.0
