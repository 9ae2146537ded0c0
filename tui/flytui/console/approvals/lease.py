"""The lease form: minutes and calls chosen by keys, then a summary that arms like a new card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen

from flycore.model.approval import LEASE_MINUTES, ApprovalRequest, LeaseTerms
from flycore.model.enums import Risk
from flytui.console.approvals.armed import ArmedLines, key_of
from flytui.console.approvals.keys import Arming, Pressed
from flytui.console.desk import Desk
from flytui.console.paint import Line, Span, Tone, keys_line, line, span, wrapped
from flytui.console.views import Bar
from flytui.console.words import plural

MOST_CALLS = 100
FIRST_CALLS = 10
TICK_S = 0.1
_STEPS = {"up": 1, "down": -1, "pageup": 10, "pagedown": -10}
_TURNS = {"left": -1, "right": 1}


class LeaseScreen(ModalScreen[LeaseTerms | None]):
    """Gives terms that were approved on the summary, or None: back to the card."""

    AUTO_FOCUS: ClassVar[str | None] = ""
    ALLOW_SELECT = False

    def __init__(self, desk: Desk, request: ApprovalRequest) -> None:
        super().__init__()
        self._desk = desk
        self._request = request
        self._minutes = 0
        self._calls = FIRST_CALLS
        self._deciding = False
        self._foot = Bar(self._keys)
        self._card = ArmedLines(desk, self._body, Arming(request.risk, request.letter), id="lease")

    def compose(self) -> ComposeResult:
        """One box; form and summary share it."""
        with Vertical(classes="box tall"):
            yield self._card
            yield self._foot

    def on_mount(self) -> None:
        """The keys line follows the arming."""
        self.set_interval(TICK_S, self._tick)

    @property
    def terms(self) -> LeaseTerms:
        """What is chosen."""
        return LeaseTerms(minutes=LEASE_MINUTES[self._minutes], calls=self._calls)

    def on_key(self, event: events.Key) -> None:
        """All keys end here; nothing bubbles to what lies below."""
        event.stop()
        event.prevent_default()
        key, now = key_of(event), self._desk.pressed_at(event)
        if self._deciding:
            self._decide(key, now)
        else:
            self._choose(key)
        self._card.rebuild()
        self.call_after_refresh(self._tick)

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text is dropped, and counts as a key for the quiet before approving."""
        event.stop()
        self._card.note(self._desk.pressed_at(event))

    def on_screen_suspend(self) -> None:
        """Covered: what is not seen is not armed."""
        self._card.cover()

    def hands(self, on: bool) -> None:
        """A tool took or released the machine."""
        self._card.hands(on)

    def _choose(self, key: str) -> None:
        if key == "escape":
            self.dismiss(None)
        elif key in _TURNS:
            self._minutes = max(0, min(len(LEASE_MINUTES) - 1, self._minutes + _TURNS[key]))
        elif key in _STEPS:
            self._calls = max(1, min(MOST_CALLS, self._calls + _STEPS[key]))
        elif key == "enter":
            self._deciding = True
            self._card.ask(Arming(self._request.risk, self._request.letter))

    def _decide(self, key: str, now: float) -> None:
        was_open = self._card.arming.open(now)
        if self._card.press(key, now) is Pressed.APPROVED:
            self.dismiss(self.terms)
        elif key == "escape" and not was_open:
            self._deciding = False
        else:
            self._card.scroll_by(key)

    def _tick(self) -> None:
        if self._deciding:
            self._card.look()
        self._foot.redraw()

    def _body(self, width: int) -> Sequence[Line]:
        request, terms = self._request, self.terms
        if not self._deciding:
            minutes: list[Span] = [Span("Minutes  ", Tone.DIM)]
            for at, value in enumerate(LEASE_MINUTES):
                here = at == self._minutes
                minutes.append(
                    span(f"[{value}]" if here else f" {value} ", Tone.STRONG if here else Tone.DIM)
                )
            rows = [
                line(span("Lease for the same tool and caller", Tone.STRONG)),
                (),
                tuple(minutes),
                line(span("Calls    ", Tone.DIM), span(f"at most {terms.calls}", Tone.STRONG)),
            ]
            return wrapped(rows, width)
        limits = f"{plural(terms.minutes, 'minute')}, at most {plural(terms.calls, 'call')}"
        facts = [
            line(span("Tool    ", Tone.DIM), span(request.tool, Tone.STRONG)),
            line(span("Caller  ", Tone.DIM), span(request.caller)),
            line(span("For     ", Tone.DIM), span(limits)),
        ]
        notes = [
            line(
                span("Inside it, calls of this tool by this caller run with any input, unasked.", Tone.WARN)
            ),
            line(span("It ends earlier when the program, its entry or its level changes.", Tone.DIM)),
        ]
        title = line(span("Lease, to be approved", Tone.STRONG))
        return [title, (), *wrapped(facts, width, 8), (), *wrapped(notes, width)]

    def _keys(self, width: int) -> Sequence[Line]:
        if not self._deciding:
            pairs = [("←→", "minutes"), ("↑↓ PgUp PgDn", "calls"), ("Enter", "summary"), ("Esc", "back")]
            return wrapped([keys_line(pairs)], width)
        now, summary = self._desk.clock(), self._card.arming
        if summary.open(now):
            words = "type the code " if self._request.risk is Risk.CRITICAL else "confirm with "
            return [
                line(
                    span(words, Tone.STRONG),
                    span(f" {self._request.letter} ", Tone.ALARM),
                    span(summary.typed),
                )
            ]
        state = summary.blocked(now)
        return wrapped(
            [
                line(span(f"{state} ○", Tone.DIM) if state else span("keys ready ●", Tone.GOOD)),
                keys_line([("a", "approve this lease"), ("Esc", "back")]),
            ],
            width,
        )
