"""The lease form: minutes and calls chosen by keys, then a summary that arms like a new card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from flycore.model.approval import LEASE_MINUTES, ApprovalRequest, LeaseTerms
from flycore.model.enums import Risk
from flytui.console.approvals.keys import Arming, Pressed
from flytui.console.desk import Desk
from flytui.console.paint import Line, Span, Tone, keys_line, line, span, wrapped
from flytui.console.views import Bar, LinesView
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
        self._summary: Arming | None = None
        self._painted = False

    def compose(self) -> ComposeResult:
        """One box; form and summary share it."""
        from textual.containers import Vertical

        with Vertical(classes="box tall"):
            view = LinesView(self._body, id="lease")
            view.can_focus = False
            yield view
            yield Bar(self._keys, id="lease-keys")

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
        now = self._desk.pressed_at(event)
        key = event.character if event.is_printable and event.character else event.key
        if self._summary is None:
            self._choose(key)
        else:
            self._decide(self._summary, key, now)
        self._redraw()

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text is dropped, and counts as a key for the quiet before approving."""
        event.stop()
        if self._summary is not None:
            self._summary = self._summary.noted(self._desk.pressed_at(event))

    def on_screen_suspend(self) -> None:
        """Covered: what is not seen is not armed."""
        if self._summary is not None:
            self._summary = self._summary.hidden()

    def hands(self, on: bool) -> None:
        """A tool took or released the machine."""
        if self._summary is not None:
            self._summary = self._summary.hands(on, self._desk.clock())

    def _choose(self, key: str) -> None:
        if key == "escape":
            self.dismiss(None)
        elif key in _TURNS:
            self._minutes = max(0, min(len(LEASE_MINUTES) - 1, self._minutes + _TURNS[key]))
        elif key in _STEPS:
            self._calls = max(1, min(MOST_CALLS, self._calls + _STEPS[key]))
        elif key == "enter":
            request = self._request
            self._summary = Arming(
                request.risk, request.letter, last_key=self._desk.last_key, hands_on=self._desk.hands_on
            )

    def _decide(self, summary: Arming, key: str, now: float) -> None:
        was_open = summary.open(now)
        self._summary, pressed = summary.press(key, now)
        if pressed is Pressed.APPROVED:
            self.dismiss(self.terms)
        elif key == "escape" and not was_open:
            self._summary = None
        elif key in ("up", "down", "pageup", "pagedown"):
            view = self.query_one(LinesView)
            view.scroll_to(y=view.scroll_offset.y + (-1 if key in ("up", "pageup") else 1), animate=False)

    def _redraw(self) -> None:
        self.query_one(LinesView).rebuild()
        self.query_one("#lease-keys", Bar).redraw()
        self.call_after_refresh(self._tick)

    def _tick(self) -> None:
        view = self.query_one(LinesView)
        summary = self._summary
        if summary is not None and self.is_current and view.painted:
            if summary.shown_at is None:
                summary = summary.shown(self._desk.clock()).noted(self._desk.last_key)
            self._summary = summary.reading(seen_all=summary.seen_all or view.bottom_visible)
        self.query_one("#lease-keys", Bar).redraw()

    def _body(self, width: int) -> Sequence[Line]:
        request, terms = self._request, self.terms
        if self._summary is None:
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
        if self._summary is None:
            pairs = [("←→", "minutes"), ("↑↓ PgUp PgDn", "calls"), ("Enter", "summary"), ("Esc", "back")]
            return wrapped([keys_line(pairs)], width)
        now = self._desk.clock()
        if self._summary.open(now):
            words = "type the code " if self._request.risk is Risk.CRITICAL else "confirm with "
            return [
                line(
                    span(words, Tone.STRONG),
                    span(f" {self._request.letter} ", Tone.ALARM),
                    span(self._summary.typed),
                )
            ]
        state = self._summary.blocked(now)
        return wrapped(
            [
                line(span(f"{state} ○", Tone.DIM) if state else span("keys ready ●", Tone.GOOD)),
                keys_line([("a", "approve this lease"), ("Esc", "back")]),
            ],
            width,
        )
