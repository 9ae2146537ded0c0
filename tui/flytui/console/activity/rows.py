"""A call as a row of the list, and which calls a filter lets through. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flycore.model.call import Activity
from flytui.console.activity.details import elapsed, progress_line
from flytui.console.paint import StyledLine, StyledText, Tone, line, span, table_row, truncated
from flytui.console.words import PHASE_LABELS, STATUS_LABELS, label_span

COLUMN_TITLES = ("STATE", "TOOL", "TIME", "CALLER")


@dataclass(frozen=True, slots=True)
class CallRow:
    """A call in the list."""

    call: Activity
    now: float

    @property
    def key(self) -> str:
        """The call's id."""
        return self.call.call_id

    def draw(self, width: int) -> StyledLine:
        """State, tool, time, caller, and how far it is or how it ended."""
        call = self.call
        cells = (
            _state_span(call),
            span(call.tool, Tone.STRONG),
            span(elapsed(call, self.now), Tone.DIM),
            span(call.caller, Tone.DIM),
        )
        return truncated((*call_columns(cells, width), *self._end()), width)

    def _end(self) -> StyledLine:
        call = self.call
        plan = line(span(f"{call.step}  ", Tone.DIM)) if call.step is not None else ()
        if call.result is None:
            return (*plan, *progress_line(call, self.now))
        error = call.result.error
        return (*plan, *line(span(f"{error.code}: {error.message}", Tone.DIM))) if error else plan


def call_columns(cells: Sequence[StyledText], width: int) -> StyledLine:
    """State, tool, time and, where there is room, caller, each in its column."""
    sizes = (13, 20, 9) if width < 90 else (13, 20, 16, 20 if width < 116 else 28)
    return table_row(((cell,) for cell in cells), sizes)


def matching_calls(calls: Sequence[Activity], words: str) -> list[Activity]:
    """Calls that hold every word in their state, tool, sidecar, caller, id or error; `!word` must be in none
    of these."""
    wanted = [(word.removeprefix("!").casefold(), word.startswith("!")) for word in words.split()]
    wanted = [(word, absent) for word, absent in wanted if word]
    if not wanted:
        return list(calls)
    return [
        call for call in calls if all((word in _searched_text(call)) is not absent for word, absent in wanted)
    ]


def _state_span(call: Activity) -> StyledText:
    return label_span(STATUS_LABELS[call.result.status] if call.result else PHASE_LABELS[call.phase])


def _searched_text(call: Activity) -> str:
    error = call.result.error if call.result is not None else None
    said_of = (
        _state_span(call).text,
        call.phase.value,
        call.result.status.value if call.result is not None else "",
        call.tool,
        call.sidecar or "",
        str(call.caller),
        call.caller.claims,
        call.call_id,
        call.parent_call_id,
        f"{error.code} {error.message}" if error is not None else "",
    )
    return "\n".join(said_of).casefold()
