"""The trust question: what the registry's entries would run, armed like a card, accepted by `a`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from flycore.model.enums import Risk
from flycore.model.errors import FlyError
from flycore.model.trust import TrustItem
from flysafe.text import strict_text
from flytui.console.approvals.armed import ArmedLines, key_of
from flytui.console.approvals.keys import Arming, Pressed
from flytui.console.changes import difference_lines
from flytui.console.desk import Desk, Topic
from flytui.console.header import header_lines
from flytui.console.paint import Line, Span, Tone, keys_line, line, span, wrap, wrapped
from flytui.console.views import Bar
from flytui.console.words import plural

TICK_S = 0.1


def _changed(item: TrustItem) -> str:
    if item.tools:
        return "± tools that changed, or are new: they wait; the server's other tools run on"
    if not item.difference:
        return "± changed since it was trusted"
    return "± changed since it was trusted; the trusted value runs on meanwhile"


class TrustScreen(Screen[bool]):
    """Shows what waits when it opens; a change meanwhile is a new question. Escape trusts nothing."""

    AUTO_FOCUS: ClassVar[str | None] = ""
    ALLOW_SELECT = False

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk
        self._items: tuple[TrustItem, ...] = desk.trust
        self._outcome = ""
        self._sending = False
        self._card = ArmedLines(desk, self._body, self._fresh(), id="card")

    def compose(self) -> ComposeResult:
        """Header, what it is about, the entries, the keys."""
        yield Bar(lambda width: header_lines(self._desk, "Trust", width), id="header")
        yield Bar(self._top, id="card-title")
        yield self._card
        yield Bar(self._keys, id="card-keys")

    def on_mount(self) -> None:
        """Readiness is drawn as it changes."""
        self.set_interval(TICK_S, self._tick)
        self.call_after_refresh(self._tick)

    def changed(self, topics: frozenset[Topic]) -> None:
        """Other entries, or other values of them: read and armed anew."""
        if Topic.TRUST in topics and self._desk.trust != self._items and not self._sending:
            self._items = self._desk.trust
            if not self._items:
                self.dismiss(True)
                return
            self._card.ask(self._fresh())
            self.call_after_refresh(self._tick)
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
        now = self._desk.pressed_at(event)
        key = self._desk.keys.meant("card", key_of(event))
        read = self._card.arming.seen_all
        pressed = self._card.press(key, now)
        if pressed is Pressed.APPROVED and read and not self._sending:
            self._sending = True
            self.run_worker(self._send(), group="decide")
        elif key == "escape":
            self.dismiss(False)
        elif self._card.scroll_by(key):
            self.call_after_refresh(self._tick)
        self._redraw()

    async def _send(self) -> None:
        """Trust exactly the digests that were shown."""
        shown = tuple((item.sidecar, item.digest) for item in self._items)
        try:
            outcome = await self._desk.approver.trust(shown)
        except FlyError as error:
            self._outcome = f"nothing was trusted: {error}"
        else:
            if outcome.accepted:
                self._desk.notice = f"{plural(len(shown), 'entry', 'entries')} trusted"
                self.dismiss(True)
            self._outcome = f"nothing was trusted: {outcome.why_not or 'refused'}"
        self._sending = False
        self._redraw()

    def _fresh(self) -> Arming:
        return Arming(Risk.MEDIUM, last_key=self._desk.last_key, hands_on=self._desk.hands_on)

    def _tick(self) -> None:
        self._card.look()
        self._redraw()

    def _redraw(self) -> None:
        for bar in self.query(Bar):
            bar.redraw()

    def _top(self, width: int) -> Sequence[Line]:
        count = plural(len(self._items), "entry", "entries")
        rows = [
            line(
                span(f" {count} of this project's registry would run programs on this machine", Tone.STRONG)
            ),
            line(span(" Nothing of what is shown runs, not even a probe, before you trust it.", Tone.DIM)),
        ]
        return wrapped(rows, width, 1)

    def _body(self, width: int) -> Sequence[Line]:
        rows: list[Line] = []
        for item in self._items:
            mark = span(_changed(item), Tone.WARN) if item.changed else span("new", Tone.DIM)
            name = Span(strict_text(item.sidecar), Tone.STRONG)
            rows += [(), *wrap(line(Span(" "), name, Span("  "), mark), width, 3)]
            rows += difference_lines(item.difference, width, 3)
            for text in item.lines:
                rows += wrap(line(Span("   "), Span(strict_text(text))), width, 5)
            rows += wrap(line(Span("   "), span(f"sha256 {item.digest}", Tone.DIM)), width, 5)
        return rows[1:]

    def _keys(self, width: int) -> Sequence[Line]:
        now = self._desk.clock()
        if self._outcome:
            state = span(f" {self._outcome}", Tone.WARN)
        elif not self._card.arming.seen_all:
            state = span(" read to the last line first ↓", Tone.WARN)
        elif blocked := self._card.arming.blocked(now):
            state = span(f" {blocked} ○", Tone.DIM)
        else:
            state = span(" keys ready ●", Tone.GOOD)
        pairs = [
            (self._desk.keys.shown("card.approve"), f"trust all {len(self._items)}"),
            ("↑↓ PgUp PgDn", "read"),
            ("Esc", "trust nothing now"),
        ]
        return [*wrap(line(state), width, 1), *wrap(keys_line(pairs), width, 1)]
