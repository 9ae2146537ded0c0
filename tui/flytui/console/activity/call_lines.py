"""The lines about one call: its full page, its progress, and its row in the list of calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from flycore.model.call import Activity, ToolResult
from flycore.model.enums import Phase
from flytui.text.call_facts import caller_text, decided_text, decision_words
from flytui.text.labels import (
    DAY_TIME_CELLS,
    PHASE_LABELS,
    day_time,
    duration,
    json_text,
    label_span,
    local_time,
    milliseconds_text,
    result_span,
)
from flytui.text.lines import (
    StyledLine,
    StyledText,
    Tone,
    labelled,
    line,
    span,
    table_row,
    text_lines,
    truncated,
    wrap,
    wrapped,
)
from flytui.text.record_filter import parse_record_filter

_LABEL_CELLS = 12
MAX_SECTION_LINES = 60
"""Lines of an input or output on the page of its call; a view of its own shows all of it."""
MAX_SECTION_CHARACTERS = 6_000
"""The same limit in characters, since one line may be very long."""
BAR_CELLS = 12
MOVING_CELLS = 3
"""Of a bar without a share, the part that moves by one cell each second."""


def call_lines(call: Activity, now: float, width: int) -> list[StyledLine]:
    """The page of one call; `now` is in Unix seconds."""
    result = call.result
    state = _state_span(call)
    rows: list[StyledLine] = [
        line(StyledText(" "), span(call.tool, Tone.STRONG), StyledText("  "), state),
        (),
    ]
    rows += labelled("at", local_time(call.started_at), width, _LABEL_CELLS)
    rows += labelled("call", call.call_id, width, _LABEL_CELLS)
    rows += labelled("plan", plan_words(call), width, _LABEL_CELLS)
    rows += labelled("caller", str(call.caller), width, _LABEL_CELLS)
    rows += labelled(
        "claims", f"{call.caller.claims} (unverified)" if call.caller.claims else "", width, _LABEL_CELLS
    )
    rows += labelled("decided", decision_words(call), width, _LABEL_CELLS)
    rows += labelled("sidecar", call.sidecar or "–", width, _LABEL_CELLS)
    if result is None:
        rows += labelled("elapsed", duration(now - call.started_at), width, _LABEL_CELLS)
        left = remaining(call, now)
        rows += labelled(
            "remaining", f"about {duration(left)}" if left is not None else "", width, _LABEL_CELLS
        )
        if call.progress:
            rows += labelled(
                "progress", call.progress.message or call.progress.phase.value, width, _LABEL_CELLS
            )
    else:
        rows += _timing_lines(result, width)
    rows += _section("Input", _shortened(input_text(call), "i shows all of it"), width)
    if result is not None:
        rows += _result_lines(result, width)
    return rows


def plan_words(call: Activity) -> str:
    """The call id of the plan and the number of the step in it; empty for a call outside a plan."""
    return " · ".join(part for part in (call.parent_call_id, str(call.step or "")) if part)


def _timing_lines(result: ToolResult, width: int) -> Iterator[StyledLine]:
    yield from labelled(
        "ran",
        f"{milliseconds_text(result.duration_ms)}, waited {milliseconds_text(result.waited_ms)}",
        width,
        _LABEL_CELLS,
    )
    yield from labelled(
        "sandbox", result.sandbox.value if result.sandbox else "nothing ran", width, _LABEL_CELLS
    )
    if result.exit_code is not None:
        # As `subprocess` reports it: minus the number of the signal that ended the process.
        status = f"signal {-result.exit_code}" if result.exit_code < 0 else str(result.exit_code)
        yield from labelled("exit", status, width, _LABEL_CELLS)


def _result_lines(result: ToolResult, width: int) -> Iterator[StyledLine]:
    if result.error is not None:
        yield ()
        yield line(StyledText(" "), span("Error", Tone.STRONG), span(f"  {result.error.code}", Tone.BAD))
        yield from wrap(line(StyledText(" "), span(result.error.message)), width, 1)
        if result.error.hint:
            yield from wrap(line(StyledText(" "), span(f"→ {result.error.hint}", Tone.ACCENT)), width, 3)
        if result.error.details:
            yield from _section("Details", json_text(result.error.details), width)
    if result.output is not None:
        yield from _section("Output", _shortened(json_text(result.output), "t shows all of it"), width)
    if result.artifacts:
        files = "\n".join(f"{item.path}  {item.mime_type}, {item.bytes} bytes" for item in result.artifacts)
        yield from _section("Files", files, width)
    if result.warnings:
        yield from _section("Warnings", "\n".join(result.warnings), width)
    if result.stderr_tail:
        yield from _section("stderr", result.stderr_tail.rstrip("\n"), width)


def _section(title: str, text: str, width: int) -> list[StyledLine]:
    return [
        (),
        line(StyledText(" "), span(title, Tone.STRONG)),
        *wrapped(text_lines(text, margin=1), width, 3),
    ]


def input_text(call: Activity) -> str:
    """The input as JSON over several lines, or as it is where it is no JSON."""
    try:
        return json_text(json.loads(call.input_text))
    except (ValueError, RecursionError):
        return call.input_text


def call_json(call: Activity) -> str:
    """The call and its result as JSON over several lines."""
    return msgspec.json.format(msgspec.json.encode(call), indent=2).decode()


def _shortened(text: str, hint: str) -> str:
    """The beginning of a long text, with a hint where to see all of it."""
    lines = text[:MAX_SECTION_CHARACTERS].split("\n")
    whole = len(text) <= MAX_SECTION_CHARACTERS and len(lines) <= MAX_SECTION_LINES
    return text if whole else "\n".join([*lines[:MAX_SECTION_LINES], f"… {hint}"])


def elapsed(call: Activity, now: float) -> str:
    """How long a call has been running, or how long an ended call ran and waited before."""
    if call.result is not None:
        waited = (
            f" +{milliseconds_text(call.result.waited_ms)} wait" if call.result.waited_ms >= 1_000 else ""
        )
        return f"{milliseconds_text(call.result.duration_ms)}{waited}"
    running = call.running_since if call.phase is Phase.RUNNING and call.running_since else call.started_at
    return duration(now - running)


def remaining(call: Activity, now: float) -> float | None:
    """The seconds that a running call still takes at its speed so far; None where that is not known."""
    progress = call.progress
    if call.result is not None or progress is None or call.running_since is None:
        return None
    done, total = progress.progress, progress.total
    if done is None or not total or done <= 0 or total < done:
        return None
    return max(0.0, now - call.running_since) * (total - done) / done


def progress_line(call: Activity, now: float) -> StyledLine:
    """The progress of a running call: a bar with the time left, or a moving bar where the tool reports no
    share; then the message."""
    progress = call.progress
    if call.result is not None or call.phase is not Phase.RUNNING:
        return (span(progress.message, Tone.DIM),) if progress is not None and progress.message else ()
    message = span(progress.message if progress is not None else "", Tone.DIM)
    if progress is None or progress.progress is None or not progress.total or progress.total <= 0:
        at = int(now) % (BAR_CELLS - MOVING_CELLS + 1)
        after = BAR_CELLS - MOVING_CELLS - at
        moving = (
            StyledText("─" * at, Tone.DIM),
            StyledText("━" * MOVING_CELLS, Tone.ACCENT),
            StyledText("─" * after, Tone.DIM),
        )
        return (*moving, StyledText("  "), message)
    share = max(0.0, min(1.0, progress.progress / progress.total))
    filled = round(share * BAR_CELLS)
    bar = (StyledText("━" * filled, Tone.ACCENT), StyledText("─" * (BAR_CELLS - filled), Tone.DIM))
    left = remaining(call, now)
    rest = (span(f"{duration(left)} left  ", Tone.DIM),) if left is not None else ()
    return (*bar, span(f" {share:4.0%}  "), *rest, message)


def state_line(call: Activity, now: float) -> StyledLine:
    """The line above every view of a call: its state, its time, and its progress or error code."""
    result = call.result
    state = _state_span(call)
    code = result.error.code if result is not None and result.error is not None else ""
    ends = (span(code, Tone.BAD),) if code else progress_line(call, now)
    return (
        StyledText(" "),
        state,
        StyledText("  "),
        span(elapsed(call, now), Tone.DIM),
        StyledText("  "),
        *ends,
    )


# The row of a call in the list, and the calls that match a filter.


TITLES = {
    "AT": "TIME",
    "STATE": "OUTCOME",
    "WHAT": "WHAT",
    "BY": "ASKED BY",
    "DECIDED": "DECIDED",
    "TOOK": "TOOK",
}
"""The titles of the columns."""
_STATE_CELLS, _TOOK_CELLS = 13, 8
_WIDE, _MIDDLE = 108, 84
"""From these widths, in cells, both columns about who asked and decided are there, and that of who
decided."""


class CallRow(msgspec.Struct, frozen=True):
    """The row of a call in the list, or of several alike ones."""

    call: Activity
    now: float
    effect: str
    """What the call does, in a sentence."""
    group: tuple[str, ...] = ()
    """The ids of all calls that are alike; of more than one, the row may stand for all or for one."""
    count: int = 1
    """The number of calls that the row stands for."""

    @property
    def key(self) -> str:
        """The call's id."""
        return self.call.call_id

    def draw(self, width: int) -> StyledLine:
        """Draw when it came, its state, what it does, who asked, who decided and how fast, and how long it
        took."""
        call = self.call
        times = line(span(f"×{self.count} ", Tone.WARN)) if self.count > 1 else ()
        cells: dict[str, StyledLine] = {
            "AT": (span(day_time(call.started_at, self.now), Tone.DIM),),
            "STATE": (_state_span(call),),
            "WHAT": (*times, *self._what()),
            "BY": (span(caller_text(call.caller), Tone.DIM),),
            "DECIDED": (span(decided_text(call) or "–", Tone.DIM),),
            "TOOK": (span(took_text(call, self.now), Tone.DIM),),
        }
        return call_columns(cells, width)

    def _what(self) -> StyledLine:
        call = self.call
        tool, dot, effect = self.effect.partition(" · ")
        what = line(span(tool, Tone.STRONG), span(dot, Tone.DIM), span(effect))
        plan = line(span(f"{call.step}  ", Tone.DIM)) if call.step is not None else ()
        if call.result is None:
            # A call that waits needs its sentence more than words that say so, as its state does.
            progress = progress_line(call, self.now) if call.phase is Phase.RUNNING else ()
            name = span(tool, Tone.STRONG)
            return (*plan, name, StyledText("  "), *progress) if progress else (*plan, *what)
        error = call.result.error
        if error is None:
            return (*plan, *what)
        # Before the sentence, which may be long: why a call failed must not be cut off.
        return (
            *plan,
            span(tool, Tone.STRONG),
            span(f" {error.code}: {error.message}"),
            span(dot, Tone.DIM),
            span(effect),
        )


def call_columns(cells: Mapping[str, StyledLine], width: int) -> StyledLine:
    """The cells in their columns. What a call does takes the room that the others leave."""
    sizes = {"AT": DAY_TIME_CELLS, "STATE": _STATE_CELLS, "WHAT": 0}
    if width >= _WIDE:
        sizes["BY"] = 18
    if width >= _MIDDLE:
        sizes["DECIDED"] = 21
    sizes["TOOK"] = _TOOK_CELLS
    sizes["WHAT"] = max(0, width - sum(sizes.values()) - len(sizes))
    return truncated(table_row((cells[name] for name in sizes), sizes.values()), width)


def took_text(call: Activity, now: float) -> str:
    """How long an ended call ran, or how long it has been running."""
    return milliseconds_text(call.result.duration_ms) if call.result is not None else elapsed(call, now)


def matching_calls(
    calls: Sequence[Activity], words: str, now: float, effect_of: Callable[[Activity], str]
) -> list[Activity]:
    """The calls that the filter lets through. Its words are looked for in state, effect, sidecar, caller, who
    decided, id and error; `now` is the Unix time from which its days count."""
    if not words:
        return list(calls)
    record_filter = parse_record_filter(words, now)

    def matches(call: Activity) -> bool:
        def text_of(key: str) -> str:
            texts = {
                "caller": f"{call.caller} {caller_text(call.caller)} {call.caller.claims}",
                "tool": call.tool,
            }
            return (texts.get(key) or _searched_text(call, effect_of(call))).casefold()

        return record_filter.matches(text_of, lambda: call.started_at)

    return [call for call in calls if matches(call)]


def _state_span(call: Activity) -> StyledText:
    return result_span(call.result) if call.result else label_span(PHASE_LABELS[call.phase])


def _searched_text(call: Activity, effect: str) -> str:
    error = call.result.error if call.result is not None else None
    texts = (
        _state_span(call).text,
        call.phase.value,
        call.result.status.value if call.result is not None else "",
        call.tool,
        call.sidecar or "",
        str(call.caller),
        caller_text(call.caller),
        call.caller.claims,
        call.call_id,
        call.parent_call_id,
        f"{error.code} {error.message}" if error is not None else "",
        effect,
        decided_text(call),
    )
    return "\n".join(texts)
