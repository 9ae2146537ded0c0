"""A test call under way and its end: a page that shows how far it is. Leaving it ends nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from flytui.console.screens.base import PageScreen
from flytui.console.state import ConsoleState, Topic
from flytui.console.user_settings import KeyBindings
from flytui.text.labels import PHASE_LABELS, STATUS_LABELS, duration, label_span
from flytui.text.lines import StyledLine, StyledText, Tone, keys_fitting, line, span, wrap, wrapped

WAIT_MS = 24 * 60 * 60 * 1000
"""The console stays to the end: it never comes back for an answer, as an agent would."""


@dataclass(slots=True, eq=False)
class TestCall:
    """A call that this console made."""

    tool: str
    input: JsonObject
    started: float
    """Unix time, seconds."""
    progress: Progress | None = None
    result: ToolResult | None = None
    lost_reason: str = ""
    """Why nothing will be known of it any more."""

    @property
    def call_id(self) -> str:
        """The kernel's id of it, `""` until the kernel has said it."""
        known = self.result or self.progress
        return known.call_id if known else ""

    async def run(self, desk: ConsoleState, told: Callable[[], None]) -> None:
        """Make the call, as any caller does; `told` whenever there is news."""

        def heard(progress: Progress) -> None:
            self.progress = progress
            told()

        call, desk.test_calls = desk.client.call, desk.test_calls + 1
        try:
            self.result = await call(self.tool, self.input, inline_wait_ms=WAIT_MS, on_progress=heard)
        except FlyError as error:
            self.lost_reason = str(error) or "the kernel went away"
        finally:
            desk.test_calls -= 1
        told()

    def as_json(self) -> str:
        """The result; before there is one, the input. ASCII, for nothing hidden is copied."""
        shown = msgspec.to_builtins(self.result) if self.result else self.input
        return json.dumps(shown, indent=2)


class CallPage(PageScreen):
    """Progress, waiting, then the outcome."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "again", "Again", show=False, id="call.again"),
    ]

    def __init__(self, desk: ConsoleState, sent: TestCall, again: Callable[[], Screen[None]]) -> None:
        super().__init__(
            desk, "Test call", lambda width: test_call_lines(sent, desk, width), copy=sent.as_json
        )
        self._sent = sent
        self._again = again

    def on_mount(self) -> None:
        """Elapsed time is drawn as it runs."""
        self.set_interval(1.0, self._tick)

    def refresh_call(self) -> None:
        """The call moved or ended."""
        if self.is_attached:
            self.changed(frozenset((Topic.ACTIVITY,)))

    def action_again(self) -> None:
        """Back to the form, which has the same input in it."""
        self.app.switch_screen(self._again())

    def _tick(self) -> None:
        if self._sent.result is None:
            self.refresh_call()

    def _keys(self, width: int) -> Sequence[StyledLine]:
        ended = self._sent.result is not None or bool(self._sent.lost_reason)
        pairs = [
            ("page.close", "back" if ended else "leave it running"),
            ("call.again", "call again"),
            ("page.copy", "copy as JSON"),
            ("↑↓ PgUp PgDn", "scroll"),
        ]
        return [keys_fitting(self._desk.keys.hints(pairs), width)]


def start_test_call(
    app: App[None], desk: ConsoleState, tool: str, input: JsonObject, again: Callable[[], Screen[None]]
) -> CallPage:
    """Make the call beside everything else that the console does; its page, to be shown. `again` makes the
    form anew."""
    sent = TestCall(tool, input, desk.now())
    page = CallPage(desk, sent, again)
    app.run_worker(sent.run(desk, page.refresh_call), group="test-call")
    return page


def test_call_lines(sent: TestCall, desk: ConsoleState, width: int) -> list[StyledLine]:
    """How it goes; then everything that is known of the call."""
    now = desk.now()
    call = next((call for call in desk.activity if call.call_id == sent.call_id), None)
    rows = [*wrapped(_state(sent, now, desk.keys), width, 1), ()]
    if call is None:
        return [*rows, *_error_lines(sent, width)]
    ended = sent.result is not None
    return [*([] if ended else rows), *call_lines(_latest_activity(call, sent), now, width)]


def _latest_activity(call: Activity, sent: TestCall) -> Activity:
    if sent.result is None or call.result is not None:
        return call
    return msgspec.structs.replace(call, result=sent.result, phase=Phase.FINISHED)


def _state(sent: TestCall, now: float, keys: KeyBindings) -> list[StyledLine]:
    tool = span(f" {sent.tool}  ", Tone.STRONG)
    if sent.lost_reason:
        return [line(tool, span(f"✗ not known how it ended: {sent.lost_reason}", Tone.WARN))]
    if sent.result is not None:
        return [line(tool, label_span(STATUS_LABELS[sent.result.status]))]
    phase = sent.progress.phase if sent.progress else Phase.CHECKING
    rows = [line(tool, label_span(PHASE_LABELS[phase]), span(f"  {duration(now - sent.started)}", Tone.DIM))]
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


def _error_lines(sent: TestCall, width: int) -> list[StyledLine]:
    """What its own answer says, while Activity does not have the call."""
    error = sent.result.error if sent.result else None
    if error is None:
        return []
    rows = wrap(line(span(f" {error.code}: {error.message}")), width, 1)
    return [*rows, *wrap(line(span(f" → {error.hint}", Tone.ACCENT)), width, 3)] if error.hint else rows
