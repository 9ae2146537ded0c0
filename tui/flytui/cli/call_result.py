"""How a call ended: the outcome on standard error, the output on standard output."""

from __future__ import annotations

import json
from collections.abc import Iterator

from flycore.model.call import CallError, ToolResult
from flycore.model.enums import Code, Status
from flycore.model.json import Json
from flytui.cli.output import clock_time, print_error, print_readable_json

STDERR_LINES = 20
EMPTY: tuple[Json, ...] = ("", [], {}, None)
HINTED_DETAILS = frozenset({"nearest"})
"""Details that the hint names."""


def cancelled_result(tool: str) -> ToolResult:
    """The result of a call that a signal ended here: the kernel has been told."""
    return _without_answer(tool, Status.FAILED, Code.CANCELLED, "cancelled by you", "")


def lost_result(tool: str) -> ToolResult:
    """The result of a call whose kernel went away before it answered."""
    return _without_answer(
        tool,
        Status.UNKNOWN,
        Code.OUTCOME_UNKNOWN,
        "the connection to the kernel was lost",
        "whether it took effect is not known: look before you call again (flytui audit tail)",
    )


def _without_answer(tool: str, status: Status, code: Code, message: str, hint: str) -> ToolResult:
    error = CallError(code=code, message=message, hint=hint)
    return ToolResult(status=status, tool=tool, sidecar=None, call_id="", error=error)


def print_result(result: ToolResult) -> None:
    """The output on standard output; how it ended on standard error."""
    if result.status is Status.SUCCESS:
        print_readable_json(result.output)
    for line in outcome_lines(result):
        print_error(line.replace("\n", "\n    "))  # no line of a text from outside stands where ours begin


def outcome_lines(result: ToolResult) -> list[str]:
    """How a call ended, in plain lines; texts are as they came, whoever prints makes them safe."""
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
    """Every violation with its pointer, every further reason, then what else is known. What message
    and hint say already is left out."""
    for key, value in error.details.items():
        if value in EMPTY or key in HINTED_DETAILS or (isinstance(value, str) and value in error.message):
            continue
        items = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        if key == "violations":
            found = [f"{item.get('pointer') or '/'}: {item.get('message', '')}" for item in items]
            yield from (f"  {line}" for line in found if line not in error.message)
        elif key == "expiresAt" and isinstance(value, int | float):
            yield f"  waits for a person until {clock_time(value)}"
        elif key == "reasons":
            yield from (
                f"  {item.get('code')}: {item.get('message')} → {item.get('remedy')}" for item in items[1:]
            )
        else:
            yield f"  {key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def _headline(result: ToolResult) -> str:
    by = f" by {result.sidecar}" if result.sidecar else ""
    times = []
    if result.sandbox is not None:
        times.append(f"in {result.duration_ms} ms, sandbox {result.sandbox.value}")
    if result.waited_ms >= 1000:
        times.append(f"waited {result.waited_ms / 1000:.1f} s")
    tail = f" ({', '.join(times)})" if times else ""
    if result.error is None:
        return f"{result.status.value}: {result.tool}{by}{tail}"
    return (
        f"{': '.join(_status_words(result.status.value, str(result.error.code), result.error.message))}{tail}"
    )


def _status_words(status: str, code: str, message: str) -> list[str]:
    """Status, code and message, without a word that the next one repeats."""
    words = [status] if code == status else [status, code]
    return [message] if message.startswith(f"{words[0]} by ") else [*words, message]
