"""Calls as plain text for the command line: how a call ended, its row, and its page.

Texts from outside stay as they came. Whoever prints them makes them safe.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from flycore.model.call import Activity, CallError, Progress, ToolResult
from flycore.model.enums import Code, Phase, Status
from flycore.model.json import Json
from flytui.cli.output import print_error, print_readable_json
from flytui.text.call_facts import decision_words
from flytui.text.kernels import clock_time
from flytui.text.labels import PHASE_LABELS, duration, result_span

STDERR_LINES = 20
"""Lines of a tool's standard error that are printed, counted from its end."""
EMPTY: tuple[Json, ...] = ("", [], {}, None)
HINTED_DETAILS = frozenset({"nearest"})
"""Details that the hint repeats."""


def cancelled_result(tool: str) -> ToolResult:
    """The result of a call that a signal ended in this process; the kernel was asked to cancel it."""
    return _without_answer(tool, Status.FAILED, Code.CANCELLED, "cancelled by you", "")


def lost_result(tool: str) -> ToolResult:
    """The result of a call whose kernel was lost before it answered."""
    return _without_answer(
        tool,
        Status.UNKNOWN,
        Code.OUTCOME_UNKNOWN,
        "the connection to the kernel was lost",
        "it is not known whether it took effect: check that before you call again (flytui audit tail)",
    )


def _without_answer(tool: str, status: Status, code: Code, message: str, hint: str) -> ToolResult:
    error = CallError(code=code, message=message, hint=hint)
    return ToolResult(status=status, tool=tool, sidecar=None, call_id="", error=error)


def print_result(result: ToolResult) -> None:
    """Print the output to standard output, and the outcome to standard error."""
    if result.status is Status.SUCCESS:
        print_readable_json(result.output)
    for line in outcome_lines(result):
        # A line of a text from outside is indented, so that it cannot look like one of ours.
        print_error(line.replace("\n", "\n    "))


def outcome_lines(result: ToolResult) -> list[str]:
    """The outcome of a call in plain lines."""
    lines = [_headline(result)]
    if result.error is not None:
        lines += _detail_lines(result.error)
        lines += [f"  → {result.error.hint}"] if result.error.hint else []
        tail = result.stderr_tail.rstrip("\n")
        lines += [f"  stderr │ {line}" for line in tail.split("\n")[-STDERR_LINES:] if tail]
    lines += [f"  artifact {item.path} ({item.mime_type}, {item.bytes} bytes)" for item in result.artifacts]
    lines += [f"  warning: {warning}" for warning in result.warnings]
    return lines


def _detail_lines(error: CallError) -> Iterator[str]:
    """The details of an error, except what its message and hint say already."""
    for key, value in error.details.items():
        if value in EMPTY or key in HINTED_DETAILS or (isinstance(value, str) and value in error.message):
            continue
        items = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        if key == "violations":
            violations = [f"{item.get('pointer') or '/'}: {item.get('message', '')}" for item in items]
            yield from (f"  {line}" for line in violations if line not in error.message)
        elif key == "expiresAt" and isinstance(value, int | float):
            yield f"  waits for a person until {clock_time(value)}"
        elif key == "reasons":
            yield from (
                f"  {item.get('code')}: {item.get('message')} → {item.get('remedy')}" for item in items[1:]
            )
        else:
            yield f"  {key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def _headline(result: ToolResult) -> str:
    if result.error is None:
        by = f" by {result.sidecar}" if result.sidecar else ""
        return f"{result.status.value}: {result.tool}{by}{_times(result)}"
    tail = _times(result)
    return (
        f"{': '.join(_status_words(result.status.value, str(result.error.code), result.error.message))}{tail}"
    )


def _times(result: ToolResult) -> str:
    """The times of a call in parentheses, after a blank; empty if it neither ran nor waited."""
    level = result.sandbox
    times = [] if level is None else [f"in {result.duration_ms} ms, sandbox {level.value}"]
    if result.waited_ms >= 1000:
        times.append(f"waited {result.waited_ms / 1000:.1f} s")
    return f" ({', '.join(times)})" if times else ""


def _status_words(status: str, code: str, message: str) -> list[str]:
    """Status, code and message, without a word that the next part repeats."""
    words = [status] if code == status else [status, code]
    return [message] if message.startswith(f"{words[0]} by ") else [*words, message]


# A call as a row of a table and as a page.


_LABEL = 10
BAR = 16
"""The width of a progress bar, in cells."""


def state_text(call: Activity) -> str:
    """The status of an ended call, or the phase of a running one, as glyph and word."""
    return PHASE_LABELS[call.phase][0] if call.result is None else result_span(call.result).text


def share_of(progress: Progress | None) -> float | None:
    """The share of a call that is done, from 0 to 1; None where its tool does not report it."""
    if progress is None or progress.progress is None or not progress.total:
        return None
    return min(max(progress.progress / progress.total, 0.0), 1.0)


def bar(share: float) -> str:
    """A progress bar of BAR cells."""
    full = round(share * BAR)
    return "█" * full + "░" * (BAR - full)


def outcome_text(call: Activity) -> str:
    """The progress of a running call, or the error of an ended one."""
    if call.result is None:
        progress, share = call.progress, share_of(call.progress)
        message = progress.message if progress is not None else ""
        return " ".join(part for part in ("" if share is None else f"{share:.0%}", message) if part)
    error = call.result.error
    return "" if error is None else f"{error.code}: {error.message}"


def duration_text(call: Activity, now: float) -> str:
    """How long a call ran, or has been running; `now` is in Unix seconds."""
    if call.result is not None:
        return _seconds_text(call.result.duration_ms / 1_000)
    running = call.phase is Phase.RUNNING and call.running_since is not None
    since = call.running_since if running and call.running_since is not None else call.started_at
    return _seconds_text(max(0.0, now - since))


def _seconds_text(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)


def call_row(call: Activity, now: float) -> tuple[str, ...]:
    """The cells ID, STATE, TOOL, CALLER, STARTED, TOOK and HOW of a call."""
    return (
        call.call_id,
        state_text(call),
        call.tool,
        str(call.caller),
        clock_time(call.started_at),
        duration_text(call, now),
        outcome_text(call),
    )


def follow_line(call: Activity, now: float) -> str:
    """The line that `--follow` prints for a change of a call."""
    how = outcome_text(call)
    head = f"{clock_time(now)}  {call.call_id}  {state_text(call)}  {call.tool}  {call.caller}"
    return f"{head}  {duration_text(call, now)}{f'  {how}' if how else ''}"


def call_page(call: Activity, now: float) -> list[str]:
    """The page with everything that is known about one call."""
    claims = f"{call.caller.claims} (unverified)" if call.caller.claims else ""
    facts = (
        ("call", call.call_id),
        ("tool", call.tool),
        ("state", state_text(call)),
        ("plan", " · ".join(part for part in (call.parent_call_id, str(call.step or "")) if part)),
        ("caller", str(call.caller)),
        ("claims", claims),
        ("decided", decision_words(call)),
        ("sidecar", call.sidecar or "–"),
        ("started", clock_time(call.started_at)),
        ("took" if call.result is not None else "elapsed", duration_text(call, now)),
        ("progress", outcome_text(call) if call.result is None else ""),
    )
    lines = [f"{label:<{_LABEL}}{_below(text)}" for label, text in facts if text]
    lines += ["input", *_indented(_pretty(call.input_text))]
    if call.result is not None:
        lines += ["outcome", *(f"  {_below(line)}" for line in outcome_lines(call.result))]
        if call.result.output is not None:
            lines += ["output", *_indented(json.dumps(call.result.output, indent=2, ensure_ascii=False))]
    return lines


def _below(text: str) -> str:
    """The text with its further lines indented, so that none of them looks like one of ours."""
    return text.replace("\n", "\n" + " " * _LABEL)


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.split("\n")]


def _pretty(text: str) -> str:
    """The text as JSON over several lines, or as it is where it is no JSON."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
