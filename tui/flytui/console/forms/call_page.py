"""The page of a test call: it shows the progress, then the result. Leaving the page does not end the call."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from flycore.model.call import Activity, Progress, ToolResult
from flycore.model.enums import Phase
from flycore.model.errors import FlyError
from flycore.model.json import JsonObject
from flytui.console.activity.call_lines import call_lines
from flytui.console.screens.base import PageScreen, more_keys
from flytui.console.state import ConsoleState, Topic
from flytui.console.user_settings import KeyBindings
from flytui.text.labels import PHASE_LABELS, duration, label_span, result_span
from flytui.text.lines import StyledLine, StyledText, Tone, keys_fitting, line, span, wrap, wrapped

WAIT_MS = 24 * 60 * 60 * 1000
"""The console waits until the call ends. It does not come back for the result later, as an agent does."""


class TestCall(msgspec.Struct, eq=False):
    """A call that this console makes, and what is known of it."""

    tool: str
    input: JsonObject
    started: float
    """Unix time, seconds."""
    progress: Progress | None = None
    result: ToolResult | None = None
    lost_reason: str = ""
    """Why its result will never be known; empty while it may be."""

    @property
    def call_id(self) -> str:
        """The id of the call; empty until the kernel has answered."""
        known = self.result or self.progress
        return known.call_id if known else ""

    async def run(self, state: ConsoleState, on_change: Callable[[], None]) -> None:
        """Make the call through the same client as any caller. `on_change` is called for each progress and at
        the end."""

        def on_progress(progress: Progress) -> None:
            self.progress = progress
            on_change()

        call, state.test_calls = state.client.call, state.test_calls + 1
        try:
            self.result = await call(self.tool, self.input, inline_wait_ms=WAIT_MS, on_progress=on_progress)
        except FlyError as error:
            self.lost_reason = str(error) or "the kernel went away"
        finally:
            state.test_calls -= 1
        on_change()

    def as_json(self) -> str:
        """The result as JSON, or the input while there is no result."""
        shown = msgspec.to_builtins(self.result) if self.result else self.input
        return json.dumps(
            shown, indent=2
        )  # in ASCII: a character that cannot be seen is copied as its escape


class CallPage(PageScreen):
    """Shows a test call while it runs and when it has ended."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "again", "Again", show=False, id="call.again"),
    ]

    def __init__(self, state: ConsoleState, test_call: TestCall, again: Callable[[], Screen[None]]) -> None:
        super().__init__(
            state, "Test call", lambda width: test_call_lines(test_call, state, width), copy=test_call.as_json
        )
        self._test_call = test_call
        self._again = again

    def on_mount(self) -> None:
        """Draw the elapsed time every second."""
        self.set_interval(1.0, self._tick)

    def refresh_call(self) -> None:
        """Draw the call again after a change."""
        if self.is_attached:
            self.changed(frozenset((Topic.ACTIVITY,)))

    def action_again(self) -> None:
        """Go back to the form, which has the same input in it."""
        self.app.switch_screen(self._again())

    def _tick(self) -> None:
        if self._test_call.result is None:
            self.refresh_call()

    def _keys(self, width: int) -> Sequence[StyledLine]:
        ended = self._test_call.result is not None or bool(self._test_call.lost_reason)
        pairs = [
            ("page.close", "back" if ended else "leave it running"),
            ("call.again", "call again"),
            ("page.copy", "copy as JSON"),
            ("↑↓ PgUp PgDn", "scroll"),
        ]
        return [keys_fitting(self._state.keys.hints(pairs), width, more_keys(self._state.keys))]


def start_test_call(
    app: App[None], state: ConsoleState, tool: str, input: JsonObject, again: Callable[[], Screen[None]]
) -> CallPage:
    """Start the call and return its page, which the caller shows. `again` makes the form anew."""
    test_call = TestCall(tool, input, state.now())
    page = CallPage(state, test_call, again)
    # A worker of the application and not of the page, so that the call goes on when the page is left.
    app.run_worker(test_call.run(state, page.refresh_call), group="test-call")
    return page


def test_call_lines(test_call: TestCall, state: ConsoleState, width: int) -> list[StyledLine]:
    """The state of a test call, then everything that Activity knows of it."""
    now = state.now()
    call = next((call for call in state.activity if call.call_id == test_call.call_id), None)
    rows = [*wrapped(_state_lines(test_call, now, state.keys), width, 1), ()]
    if call is None:
        return [*rows, *_error_lines(test_call, width)]
    ended = test_call.result is not None
    return [*([] if ended else rows), *call_lines(_latest_activity(call, test_call), now, width)]


def _latest_activity(call: Activity, test_call: TestCall) -> Activity:
    # The answer of the call may arrive before the list of calls is fetched again.
    if test_call.result is None or call.result is not None:
        return call
    return msgspec.structs.replace(call, result=test_call.result, phase=Phase.FINISHED)


def _state_lines(test_call: TestCall, now: float, keys: KeyBindings) -> list[StyledLine]:
    tool = span(f" {test_call.tool}  ", Tone.STRONG)
    if test_call.lost_reason:
        return [line(tool, span(f"✗ not known how it ended: {test_call.lost_reason}", Tone.WARN))]
    if test_call.result is not None:
        return [line(tool, result_span(test_call.result))]
    phase = test_call.progress.phase if test_call.progress else Phase.CHECKING
    rows = [
        line(tool, label_span(PHASE_LABELS[phase]), span(f"  {duration(now - test_call.started)}", Tone.DIM))
    ]
    if phase is Phase.WAITING_APPROVAL:
        rows.append(
            line(
                StyledText(" "),
                span(keys.label("app.card"), Tone.KEY),
                span(" opens its card; nothing runs before."),
            )
        )
    leave, activity = keys.label("page.close"), keys.label("main.activity")
    rows.append(line(span(f" {leave} leaves it running: it is in Activity ({activity}).", Tone.DIM)))
    return rows


def _error_lines(test_call: TestCall, width: int) -> list[StyledLine]:
    """The error in the answer, for a call that Activity does not have."""
    error = test_call.result.error if test_call.result else None
    if error is None:
        return []
    rows = wrap(line(span(f" {error.code}: {error.message}")), width, 1)
    return [*rows, *wrap(line(span(f" → {error.hint}", Tone.ACCENT)), width, 3)] if error.hint else rows
