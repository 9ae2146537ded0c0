"""The two screens of pairing: one console asks for the code, the other shows it and may refuse."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from flycore.model.errors import FlyError
from flytui.console.kernel_connection import (
    CODE_LETTERS,
    AttachedKernel,
    PairingRequest,
    grouped_code,
    normalise_code,
)
from flytui.console.screens.base import ScreenTraits
from flytui.console.screens.header import root_spans
from flytui.console.state import ConsoleState, Topic
from flytui.console.widgets.lines import LineBar
from flytui.console.widgets.text_input import OrderedKeys, TypeaheadScreen
from flytui.text.labels import duration, local_time
from flytui.text.lines import StyledLine, Tone, keys_line, line, span, wrapped

MOST_CHARACTERS = 24
TICK_S = 0.5


class CodeInput(Input, OrderedKeys):
    """The text field for the code."""


class EnterCodeScreen(TypeaheadScreen[bool]):
    """Asks for the code that the other console shows. The screen gives True once this console is paired.
    Escape leaves it a viewer. No screen below it could be approved by Enter."""

    decides = of_one_kernel = closes_for_view = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False, priority=True, id="pair.back"),
        Binding("f2", "ask", "New code", show=False, priority=True, id="pair.ask"),
    ]

    def __init__(self, state: ConsoleState, attachment: AttachedKernel) -> None:
        self._line = CodeInput(id="code", max_length=MOST_CHARACTERS, select_on_focus=False)
        super().__init__(self._line)
        self._state = state
        self._attachment = attachment
        self._problem = ""
        self._busy = False
        self._foot = LineBar(self._keys)

    def compose(self) -> ComposeResult:
        """Yield a box with a text field for the code."""
        with Vertical(classes="box"):
            yield LineBar(self._top)
            yield self._line
            yield self._foot

    def on_mount(self) -> None:
        """Have the other console show a code."""
        super().on_mount()
        self.action_ask()

    def changed(self, topics: frozenset[Topic]) -> None:
        """Close the screen when the kernel has changed or gone."""
        if self._state.attachment is not self._attachment or self._state.lost is not None:
            self.dismiss(False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Present the code on Enter, once it has the length of a code."""
        event.stop()
        code = normalise_code(event.value)
        if len(code) != CODE_LETTERS:
            self._show_problem(f"a code has {CODE_LETTERS} letters and digits; this has {len(code)}")
        elif not self._busy:
            self._busy = True
            self.run_worker(self._submit_code(code), group="pair")

    def action_ask(self) -> None:
        """Have the other console show a new code, which has its own number of tries."""
        if not self._busy:
            self._busy = True
            self.run_worker(self._request_code(), group="pair")

    def action_back(self) -> None:
        """Close the screen and stay a viewer."""
        self.dismiss(False)

    async def _request_code(self) -> None:
        try:
            await self._attachment.pairing.ask()
            self._line.clear()
            self._show_problem("")
        except FlyError as error:
            self._show_problem(f"no code is shown: {error}")
        finally:
            self._busy = False

    async def _submit_code(self, code: str) -> None:
        try:
            why_not = await self._attachment.pairing.pair(code)
        except FlyError as error:
            why_not = str(error) or "the kernel went away"
        finally:
            self._busy = False
        if why_not:
            self._line.clear()
            self._show_problem(why_not)
        elif self.is_attached:
            self.dismiss(True)

    def _show_problem(self, words: str) -> None:
        self._problem = words
        self._foot.redraw()

    def _top(self, width: int) -> Sequence[StyledLine]:
        attachment = self._attachment
        rows = [
            line(
                *root_spans(self._state),
                span(f"Attached to {attachment.holder}, since {local_time(attachment.since)}", Tone.STRONG),
            ),
            line(span("A code is shown there. Type it here to decide from this terminal, too.")),
        ]
        return wrapped(rows, width)

    def _keys(self, width: int) -> Sequence[StyledLine]:
        shown = self._state.keys.label
        keys = keys_line(
            [("Enter", "pairs"), (shown("pair.ask"), "another code"), (shown("pair.back"), "stay a viewer")]
        )
        problem_lines = [line(span(f" {self._problem}", Tone.WARN))] if self._problem else []
        return wrapped([*problem_lines, keys], width)


class PairingRequestScreen(ScreenTraits, ModalScreen[None]):
    """Shows the console that asks to pair, with its code; `d` refuses it. It opens by a key, never by
    itself."""

    decides = of_one_kernel = closes_for_view = True
    AUTO_FOCUS: ClassVar[str | None] = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", "Refuse", show=False, id="pairing.refuse"),
        Binding("escape", "back", "Back", show=False, id="pairing.back"),
    ]

    def __init__(
        self, state: ConsoleState, request: PairingRequest, refuse: Callable[[PairingRequest], Awaitable[str]]
    ) -> None:
        """Build the screen. `refuse` returns why the console could not be refused, and `""` where it was."""
        super().__init__()
        self._state = state
        self._request = request
        self._refuse = refuse
        self._box = LineBar(self._lines)
        self._problem = ""

    def compose(self) -> ComposeResult:
        """Yield a small box."""
        with Vertical(classes="box"):
            yield self._box

    def on_mount(self) -> None:
        """Start the timer that draws the time left for the code."""
        self.set_interval(TICK_S, self._box.redraw)

    def changed(self, topics: frozenset[Topic]) -> None:
        """Draw the box again: the console that asks may have been paired or may have left."""
        self._box.redraw()

    def action_refuse(self) -> None:
        """Refuse the console, so that its code is no longer valid."""
        if self._request in self._state.open_pairing_requests:
            self.run_worker(self._send_refusal(), group="pair")

    def action_back(self) -> None:
        """Close the screen. The code stays valid until it expires."""
        self.dismiss()

    async def _send_refusal(self) -> None:
        try:
            why_not = await self._refuse(self._request)
        except FlyError as error:
            why_not = str(error) or "refused"
        if why_not:
            self._problem = f"not refused: {why_not}"
            self._box.redraw()
        elif self.is_attached:
            self._state.shared.notice = "refused: that code is no longer valid"
            self.dismiss()

    def _lines(self, width: int) -> Sequence[StyledLine]:
        request, keys = self._request, [(self._state.keys.label("pairing.back"), "back")]
        asks = span(f"{request.who} asks to decide here, too", Tone.STRONG)
        rows = [line(*root_spans(self._state), asks), ()]
        if request in self._state.open_pairing_requests:
            left = duration(request.expires_at - self._state.now())
            rows += [
                line(
                    span("its code  "), span(f" {grouped_code(request.code)} ", Tone.HEAD), span(f"  {left}")
                ),
                (),
                line(span("Type it there only if it was you who opened that console.")),
            ]
            keys.insert(0, (self._state.keys.label("pairing.refuse"), "refuses"))
        else:
            rows.append(line(span("Its code is no longer valid.")))
        problem_lines = [line(span(self._problem, Tone.WARN))] if self._problem else []
        return wrapped([*rows, *problem_lines, keys_line(keys)], width)
