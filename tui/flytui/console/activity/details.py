"""One call, in full: what went in, what came out, how it was confined, how long it took. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from flycore.model.call import Activity, ToolResult
from flycore.model.enums import Phase
from flytui.console.paint import Line, Span, Tone, block, column, line, span, wrap, wrapped
from flytui.console.words import PHASE, STATUS, clock, pretty, said, took

_LABEL = 12


def call_lines(call: Activity, now: float, width: int) -> list[Line]:
    """The page for one call; `now` in Unix seconds."""
    result = call.result
    state = said(STATUS[result.status]) if result else said(PHASE[call.phase])
    rows: list[Line] = [line(Span(" "), span(call.tool, Tone.STRONG), Span("  "), state), ()]
    rows += _pair("call", call.call_id, width)
    rows += _pair("caller", str(call.caller), width)
    rows += _pair("claims", f"{call.caller.claims} (unverified)" if call.caller.claims else "", width)
    rows += _pair("sidecar", call.sidecar or "–", width)
    if result is None:
        rows += _pair("elapsed", clock(now - call.started_at), width)
        if call.progress:
            rows += _pair("progress", call.progress.message or call.progress.phase.value, width)
    else:
        rows += _timing(result, width)
    rows += _section("Input", _as_json(call.input_text), width)
    if result is not None:
        rows += _ended(result, width)
    return rows


def _timing(result: ToolResult, width: int) -> Iterator[Line]:
    yield from _pair("ran", f"{took(result.duration_ms)}, waited {took(result.waited_ms)}", width)
    yield from _pair("sandbox", result.sandbox.value if result.sandbox else "nothing ran", width)
    if result.exit_code is not None:
        killed = f"signal {-result.exit_code}" if result.exit_code < 0 else str(result.exit_code)
        yield from _pair("exit", killed, width)


def _ended(result: ToolResult, width: int) -> Iterator[Line]:
    if result.error is not None:
        yield ()
        yield line(Span(" "), span("Error", Tone.STRONG), span(f"  {result.error.code}", Tone.BAD))
        yield from wrap(line(Span(" "), span(result.error.message)), width, 1)
        if result.error.hint:
            yield from wrap(line(Span(" "), span(f"→ {result.error.hint}", Tone.ACCENT)), width, 3)
        if result.error.details:
            yield from _section("Details", pretty(result.error.details), width)
    if result.output is not None:
        yield from _section("Output", pretty(result.output), width)
    if result.artifacts:
        files = "\n".join(f"{item.path}  {item.mime_type}, {item.bytes} bytes" for item in result.artifacts)
        yield from _section("Files", files, width)
    if result.warnings:
        yield from _section("Warnings", "\n".join(result.warnings), width)
    if result.stderr_tail:
        yield from _section("stderr", result.stderr_tail.rstrip("\n"), width)


def _section(title: str, text: str, width: int) -> list[Line]:
    return [(), line(Span(" "), span(title, Tone.STRONG)), *wrapped(block(text, margin=1), width, 3)]


def _pair(label: str, text: str, width: int) -> list[Line]:
    return (
        wrap((*column((Span(" "), span(label, Tone.DIM)), _LABEL), span(text)), width, _LABEL) if text else []
    )


def _as_json(text: str) -> str:
    """Canonical JSON spread over lines; anything else as it is."""
    try:
        return pretty(json.loads(text))
    except ValueError:
        return text


def elapsed(call: Activity, now: float) -> str:
    """Running: since when; ended: how long it ran and how long it waited before."""
    if call.result is not None:
        waited = f" +{took(call.result.waited_ms)} wait" if call.result.waited_ms >= 1_000 else ""
        return f"{took(call.result.duration_ms)}{waited}"
    running = call.running_since if call.phase is Phase.RUNNING and call.running_since else call.started_at
    return clock(now - running)
