"""Pairing, seen from both consoles: the code is typed in one, and shown in the other, which may refuse."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from flycore.model.errors import FlyError
from flytui.console.ahead import OrderedKeys, TypeaheadScreen
from flytui.console.desk import Desk, Topic
from flytui.console.joined import CODE_LETTERS, PairingRequest, AttachedKernel, normalise_code, shown_code
from flytui.console.paint import Line, Tone, keys_line, line, span, wrapped
from flytui.console.screens.traits import ScreenTraits
from flytui.console.views import LineBar
from flytui.console.words import clock, clock_of

MOST_CHARACTERS = 24
TICK_S = 0.5


class CodeInput(Input, OrderedKeys):
    """A line to write the code on."""


class EnterCodeScreen(ScreenTraits, TypeaheadScreen[bool]):
    """Asks for the code that the other console shows. True once this console is paired; Escape leaves it a
    viewer. Nothing waits behind it that Enter could approve."""

    decides = of_one_kernel = closes_for_view = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False, priority=True, id="pair.back"),
        Binding("f2", "ask", "New code", show=False, priority=True, id="pair.ask"),
    ]

    def __init__(self, desk: Desk, joined: AttachedKernel) -> None:
        self._line = CodeInput(id="code", max_length=MOST_CHARACTERS, select_on_focus=False)
        super().__init__(self._line)
        self._desk = desk
        self._joined = joined
        self._said = ""
        self._asking = False
        self._foot = LineBar(self._keys)

    def compose(self) -> ComposeResult:
        """A box with a line for the code."""
        with Vertical(classes="box"):
            yield LineBar(self._top)
            yield self._line
            yield self._foot

    def on_mount(self) -> None:
        """Have a code shown where the person can read it."""
        super().on_mount()
        self.action_ask()

    def changed(self, topics: frozenset[Topic]) -> None:
        """Over when the kernel is another one, or gone."""
        if self._desk.joined is not self._joined or self._desk.gone is not None:
            self.dismiss(False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter presents what is written, once it is as long as a code."""
        event.stop()
        code = normalise_code(event.value)
        if len(code) != CODE_LETTERS:
            self._say(f"a code has {CODE_LETTERS} letters and digits; this has {len(code)}")
        elif not self._asking:
            self._asking = True
            self.run_worker(self._present(code), group="pair")

    def action_ask(self) -> None:
        """Another code, with tries of its own."""
        if not self._asking:
            self._asking = True
            self.run_worker(self._ask(), group="pair")

    def action_back(self) -> None:
        """Look on without deciding."""
        self.dismiss(False)

    async def _ask(self) -> None:
        try:
            await self._joined.pairing.ask()
            self._line.clear()
            self._say("")
        except FlyError as error:
            self._say(f"no code is shown: {error}")
        finally:
            self._asking = False

    async def _present(self, code: str) -> None:
        try:
            why_not = await self._joined.pairing.pair(code)
        except FlyError as error:
            why_not = str(error) or "the kernel went away"
        finally:
            self._asking = False
        if why_not:
            self._line.clear()
            self._say(why_not)
        elif self.is_attached:
            self.dismiss(True)

    def _say(self, words: str) -> None:
        self._said = words
        self._foot.redraw()

    def _top(self, width: int) -> Sequence[Line]:
        joined = self._joined
        rows = [
            line(span(f"Attached to {joined.whom}, since {clock_of(joined.since)}", Tone.STRONG)),
            line(span("A code is shown there. Typed here, it lets you decide from this terminal, too.")),
        ]
        return wrapped(rows, width)

    def _keys(self, width: int) -> Sequence[Line]:
        shown = self._desk.keys.shown
        keys = keys_line(
            [("Enter", "pairs"), (shown("pair.ask"), "another code"), (shown("pair.back"), "only look on")]
        )
        said = [line(span(f" {self._said}", Tone.WARN))] if self._said else []
        return wrapped([*said, keys], width)


class PairingRequestScreen(ScreenTraits, ModalScreen[None]):
    """Who asks to decide here too, with the code; `d` refuses. It opens by a key alone, never by itself."""

    decides = of_one_kernel = closes_for_view = True
    AUTO_FOCUS: ClassVar[str | None] = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", "Refuse", show=False, id="pairing.refuse"),
        Binding("escape", "back", "Back", show=False, id="pairing.back"),
    ]

    def __init__(
        self, desk: Desk, asking: PairingRequest, refuse: Callable[[PairingRequest], Awaitable[str]]
    ) -> None:
        """`refuse` gives why it could not be refused, `""` where it was."""
        super().__init__()
        self._desk = desk
        self._asking = asking
        self._refuse = refuse
        self._box = LineBar(self._lines)
        self._said = ""

    def compose(self) -> ComposeResult:
        """A small box."""
        with Vertical(classes="box"):
            yield self._box

    def on_mount(self) -> None:
        """What is left of its time is drawn as it runs."""
        self.set_interval(TICK_S, self._box.redraw)

    def changed(self, topics: frozenset[Topic]) -> None:
        """Who asks may have been paired, or left."""
        self._box.redraw()

    def action_refuse(self) -> None:
        """Its code counts no more."""
        if self._asking in self._desk.open_pairing_requests:
            self.run_worker(self._send(), group="pair")

    def action_back(self) -> None:
        """Leave it as it is."""
        self.dismiss()

    async def _send(self) -> None:
        try:
            why_not = await self._refuse(self._asking)
        except FlyError as error:
            why_not = str(error) or "refused"
        if why_not:
            self._said = f"not refused: {why_not}"
            self._box.redraw()
        elif self.is_attached:
            self._desk.notice = "refused: that code counts no more"
            self.dismiss()

    def _lines(self, width: int) -> Sequence[Line]:
        asking, keys = self._asking, [(self._desk.keys.shown("pairing.back"), "back")]
        rows = [line(span(f"{asking.who} asks to decide here, too", Tone.STRONG)), ()]
        if asking in self._desk.open_pairing_requests:
            left = clock(asking.expires_at - self._desk.now())
            rows += [
                line(span("its code  "), span(f" {shown_code(asking.code)} ", Tone.HEAD), span(f"  {left}")),
                (),
                line(span("Type it there only if it was you who opened that console.")),
            ]
            keys.insert(0, (self._desk.keys.shown("pairing.refuse"), "refuses"))
        else:
            rows.append(line(span("Its code is over.")))
        said = [line(span(self._said, Tone.WARN))] if self._said else []
        return wrapped([*rows, *said, keys_line(keys)], width)
