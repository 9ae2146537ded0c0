"""Something that is done once it has been seen: armed like a card, done by `a`, left by Escape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from flycore.model.enums import Risk
from flycore.model.errors import FlyError
from flytui.console.approvals.armed import ArmedLines, key_of
from flytui.console.approvals.keys import Arming, Pressed
from flytui.console.desk import Desk, Topic
from flytui.console.header import header_lines
from flytui.console.paint import Line, Span, Tone, keys_line, line, span, wrap
from flytui.console.views import Bar, Build

TICK_S = 0.1
Act = Callable[[], Awaitable[str]]
"""Does it; a sentence says why it was not done, nothing that it was."""


class ActScreen(Screen[bool]):
    """True once it was done. Enter, a click and pasted text do nothing."""

    AUTO_FOCUS: ClassVar[str | None] = ""
    ALLOW_SELECT = False

    def __init__(
        self,
        desk: Desk,
        title: str,
        heading: str,
        body: Build,
        does: str,
        act: Act | None,
        *,
        copy: str = "",
        whole: bool = False,
    ) -> None:
        """`does` says what `a` does; without `act` nothing can be done here but `copy` what is shown. With
        `whole` all of it has to have been on screen first."""
        super().__init__()
        self._desk = desk
        self._title = title
        self._heading = heading
        self._does = does
        self._act = act
        self._copy = copy
        self._whole = whole
        self._outcome = ""
        self._sending = False
        self._card = ArmedLines(desk, body, self._fresh(), id="card")

    def compose(self) -> ComposeResult:
        """Header, what it is about, what would be done, the keys."""
        yield Bar(lambda width: header_lines(self._desk, self._title, width), id="header")
        yield Bar(self._top, id="card-title")
        yield self._card
        yield Bar(self._keys, id="card-keys")

    def on_mount(self) -> None:
        """Readiness is drawn as it changes."""
        self.set_interval(TICK_S, self._tick)
        self.call_after_refresh(self._tick)

    def changed(self, topics: frozenset[Topic]) -> None:
        """The header follows; what would be done stays what is shown."""
        self._redraw()

    def hands(self, on: bool) -> None:
        """A tool took or released the machine."""
        self._card.hands(on)

    def on_screen_suspend(self) -> None:
        """Covered: not armed."""
        self._card.cover()

    def on_screen_resume(self) -> None:
        """Visible again: armed anew."""
        self._card.repaint()
        self.call_after_refresh(self._tick)

    def on_resize(self) -> None:
        """Other lines may be on screen now."""
        self.call_after_refresh(self._tick)

    def on_paste(self, event: events.Paste) -> None:
        """Dropped."""
        event.stop()
        self._card.note(self._desk.pressed_at(event))

    def on_key(self, event: events.Key) -> None:
        """All keys end here."""
        event.stop()
        event.prevent_default()
        key = key_of(event)
        pressed = self._card.press(key, self._desk.pressed_at(event))
        if pressed is Pressed.APPROVED and self._act is not None and not self._sending:
            self._sending = True
            self.run_worker(self._send(self._act), group="act")
        elif key == "escape":
            self.dismiss(False)
        elif key == "y" and self._copy:
            self.app.copy_to_clipboard(self._copy)
            self._outcome = "copied"
        elif self._card.scroll_by(key):
            self.call_after_refresh(self._tick)
        self._redraw()

    async def _send(self, act: Act) -> None:
        try:
            why_not = await act()
        except FlyError as error:
            why_not = str(error)
        self._sending = False
        if why_not:
            self._outcome = f"not done: {why_not}"
            self._redraw()
        else:
            self.dismiss(True)

    def _fresh(self) -> Arming:
        desk = self._desk
        return Arming(Risk.MEDIUM, last_key=desk.last_key, hands_on=desk.hands_on, whole=self._whole)

    def _tick(self) -> None:
        self._card.look()
        self._redraw()

    def _redraw(self) -> None:
        for bar in self.query(Bar):
            bar.redraw()

    def _top(self, width: int) -> Sequence[Line]:
        return wrap(line(span(f" {self._heading}", Tone.STRONG)), width, 1)

    def _keys(self, width: int) -> Sequence[Line]:
        if self._outcome:
            state = span(f" {self._outcome}", Tone.WARN)
        elif self._act is None:
            state = Span("")
        elif blocked := self._card.arming.blocked(self._desk.clock()):
            state = span(f" {blocked} ○", Tone.DIM)
        else:
            state = span(" keys ready ●", Tone.GOOD)
        pairs = [
            *([("a", self._does)] if self._act is not None else []),
            *([("y", "copy it")] if self._copy else []),
            ("↑↓ PgUp PgDn", "read"),
            ("Esc", "leave it as it is"),
        ]
        return [*wrap(line(state), width, 1), *wrap(keys_line(pairs), width, 1)]
