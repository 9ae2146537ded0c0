"""A table of the requests that wait: one row each, to tick, and then to approve once what is ticked.

Nothing is ticked when it opens, and a row can be ticked only after all of it that has to be read was on
screen. A summary with the number and the highest risk follows, which is armed like a card. It grants no
standing permission: one answer is sent for each request, by id and digest, to the kernel of its root.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from flycore.model.approval import Answer, ApprovalRequest, Ask
from flycore.model.enums import Choice, Risk
from flycore.model.errors import FlyError
from flysafe.text import strict_text
from flytui.console.approvals.card_lines import card_line
from flytui.console.screens.armed import key_lines_with_state
from flytui.console.screens.armed_table import ArmedTable, TableEntry
from flytui.console.screens.arming import APPROVE_KEY, ArmingState, KeyEffect
from flytui.console.screens.header import root_spans
from flytui.console.screens.text_prompt import TextPromptScreen
from flytui.console.state import ConsoleState, QueuedRequest, Topic
from flytui.text.caller import caller_name
from flytui.text.card import CardLine, CardStyle, effect_text, render_card
from flytui.text.labels import RISK_LABELS, label_span, plural, risk_title
from flytui.text.lines import (
    StyledLine,
    StyledText,
    Tone,
    keys_line,
    line,
    padded,
    span,
    truncated,
    width_of,
    wrap,
    wrapped,
)

APPROVE_TICKED = "A"
DENY_CALLER = "D"
_ARMING = ArmingState(Risk.MEDIUM, read_whole=True)
_OMITTED = frozenset((CardStyle.TITLE, CardStyle.WHY, CardStyle.SAID, CardStyle.RULE))
"""The card's lines that say nothing about what would run."""
_REQUIRED_STYLES = frozenset((CardStyle.EFFECT, CardStyle.REACH_OPEN))
"""Styles of the card's lines that have to be read before a request is ticked, besides the input's."""
_INDENT = 4
_SUMMARY_INDENT = 10
_CHANGED = "the table has just changed: look, and press the key again"


class BatchScreen(ArmedTable[None]):
    """The requests that wait. One that changes or ends meanwhile is no longer ticked, and one that arrives is
    added at the end."""

    of_all_roots = True

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(state, "Approvals", _ARMING)
        self._asks = state.shared.waiting
        self._ticked: frozenset[str] = frozenset()
        """The keys of the entries that are ticked."""
        self._summary: tuple[QueuedRequest, ...] = ()
        """What the summary would approve; empty while the table is shown."""
        self._outcome: tuple[str, ...] = ()
        self._notice = ""
        self._cursor = entry_key(self._asks[0]) if self._asks else ""

    def changed(self, topics: frozenset[Topic]) -> None:
        """Follow the queue. A summary of which a request ended or changed is armed from the start."""
        if Topic.ASKS in topics and not self._sending:
            self._follow_queue()
        self._redraw()

    def _follow_queue(self) -> None:
        keys = [entry_key(ask) for ask in self._asks]
        self._asks = self._state.shared.waiting
        now = [entry_key(ask) for ask in self._asks]
        if now == keys:
            return
        self._ticked &= frozenset(now)
        if self._cursor not in now:
            at = keys.index(self._cursor) if self._cursor in keys else 0
            self._cursor = now[min(at, len(now) - 1)] if now else ""
        still = tuple(ask for ask in self._summary if entry_key(ask) in now)
        if still != self._summary:
            self._summary = still
            self._show_question(_ARMING)
        elif not self._summary:
            # A key that was pressed for the row that stood there must not tick the one that took its place.
            self._card.cover()
            self._rebuild_table()

    def _handle_key(self, key: str, now: float) -> None:
        """Handle a key of the table, or of the summary."""
        self._notice, self._outcome = "", ()
        if self._summary:
            self._handle_summary_key(key, now)
            return
        shown = self._card.arming.belongs_to_card(now)
        self._card.note_key(now)
        match key:
            case "escape":
                self.dismiss()
            case " ":
                self._toggle(shown=shown)
            case "A":
                self._open_summary()
            case "D":
                self._open_denial(shown=shown)
            case _ if self._handle_table_key(key):
                pass
            case _ if self._state.keys.meant("card", key) == APPROVE_KEY:
                self._notice = f"{APPROVE_TICKED} approves what is ticked"
            case _:
                pass

    def _handle_summary_key(self, key: str, now: float) -> None:
        key = APPROVE_KEY if key == APPROVE_TICKED else self._state.keys.meant("card", key)
        if self._card.press(key, now) is KeyEffect.APPROVED:
            sending = self._approval()
            if sending is not None:
                self._start_sending(sending)
        elif key == "escape":
            self._summary = ()
            self._show_question(_ARMING)
            self._scroll_to_cursor()
        else:
            self._scroll(key)

    def _toggle(self, *, shown: bool) -> None:
        """Tick the request under the cursor, or take the tick away. `shown` says that the table was on screen
        when the key was pressed."""
        ask = self._ask_at_cursor()
        if ask is None:
            return
        if self._cursor in self._ticked:
            self._ticked -= {self._cursor}
        elif why := exclusion_reason(ask.ask.request):
            self._notice = why
        elif not shown:
            self._notice = _CHANGED
        elif self._was_shown(self._cursor):
            self._ticked |= {self._cursor}
        else:
            self._notice = "not ticked: not all of it was on screen yet · PgDn reads on"
        self._rebuild_table()

    def _ask_at_cursor(self) -> QueuedRequest | None:
        return next((ask for ask in self._asks if entry_key(ask) == self._cursor), None)

    def _open_summary(self) -> None:
        ticked = tuple(ask for ask in self._asks if entry_key(ask) in self._ticked)
        self._notice = _obstacle(ticked) or ("" if ticked else "nothing is ticked: space ticks")
        if not self._notice:
            self._summary = ticked
            self._use_root(ticked[0].root)
            self._show_question(_ARMING)

    def _open_denial(self, *, shown: bool) -> None:
        """Ask for the reason, and then deny every request of the caller under the cursor that waits now.
        `shown` is as for `_toggle`: where the table has just changed, the cursor may be on another caller."""
        queued = self._ask_at_cursor()
        self._notice = _obstacle((queued,) if queued is not None else ()) or ("" if shown else _CHANGED)
        if queued is None or self._notice:
            return
        caller, root = queued.ask.request.caller, queued.root
        # A caller of the same key at another root is another one for the person who looks at this row.
        asks = tuple(
            one for one in self._asks if one.root is root and one.ask.request.caller.key == caller.key
        )
        title = f"Deny {plural(len(asks), 'request')} of {_who(queued)}"
        note = "Each of them, whatever its risk. The caller gets what you write."
        prompt = TextPromptScreen(title, note, "deny all and send", "back to the table")
        self.app.push_screen(prompt, self._denial_callback(asks))

    def _denial_callback(self, asks: tuple[QueuedRequest, ...]) -> Callable[[str | None], None]:
        def reasoned(reason: str | None) -> None:
            if reason is not None and not self._sending:
                self._start_sending(self._send(asks, Answer(choice=Choice.DENY, reason=reason), "denied"))

        return reasoned

    def _approval(self) -> Coroutine[Any, Any, None] | None:
        if not self._summary:
            return None
        return self._send(self._summary, Answer(choice=Choice.APPROVE_ONCE), "approved once")

    async def _send(self, asks: Sequence[QueuedRequest], answer: Answer, done_words: str) -> None:
        """Send the answer for each of the requests. A refusal by the kernel does not end the others."""
        refused: list[str] = []
        obstacle = "" if answer.choice == Choice.DENY else await self._state.shared.approval_obstacle()
        for queued in () if obstacle else asks:
            # The digest is the one on screen: where the request changed since, the kernel refuses the answer.
            tool = queued.ask.request.tool
            try:
                outcome = await queued.decide(answer)
            except FlyError as error:
                refused.append(f"{tool} did not count: {error}")
            else:
                if not outcome.accepted:
                    refused.append(f"{tool} did not count: {outcome.why_not or 'refused'}")
        done = plural(len(asks) - len(refused), "request")
        self._outcome = ("nothing approved", obstacle) if obstacle else (f"{done} {done_words}", *refused)
        self._summary, self._ticked = (), frozenset()
        self._follow_queue()
        self._show_question(_ARMING)
        self._scroll_to_cursor()

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        if self._summary:
            words = f" approve {plural(len(self._summary), 'request')} once, each for this one call"
            risk = highest_risk(self._summary)
            row = line(span(words, Tone.STRONG), span(" · highest risk "), risk_title(risk))
            return wrap(row, width, 1)
        own = sum(bool(exclusion_reason(queued.ask.request)) for queued in self._asks)
        row = line(
            span(f" {plural(len(self._asks), 'request waits', 'requests wait')}", Tone.STRONG),
            span(f" · {len(self._ticked)} ticked", Tone.ACCENT if self._ticked else Tone.DIM),
            span(f" · {own} not in a batch: each has its own card" if own else "", Tone.DIM),
        )
        return wrap(row, width, 1)

    def _body_lines(self, width: int) -> Sequence[StyledLine]:
        if self._summary:
            self._places = ()
            return [
                row for place, ask in enumerate(self._summary, 1) for row in summary_lines(place, ask, width)
            ]
        if not self._asks:
            self._places = ()
            return [line(span(" Nothing waits."))]
        return super()._body_lines(width)

    def _entries(self, width: int) -> Sequence[TableEntry]:
        return [self._entry(ask, width) for ask in self._asks]

    def _entry(self, queued: QueuedRequest, width: int) -> TableEntry:
        key = entry_key(queued)
        row = batch_row(queued, ticked=key in self._ticked, width=width)
        if key != self._cursor:
            return TableEntry(key, [row])
        title = _entry_title(queued, width)
        cards = _entry_cards(queued.ask, width)
        lines = [row, *title, *(_card_line(card) for card in cards), ()]
        first = 1 + len(title)
        required = {
            first + at for at, card in enumerate(cards) if card.must_read or card.style in _REQUIRED_STYLES
        }
        return TableEntry(key, lines, frozenset({*range(first), *required}))

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        if self._sending:
            return [line(span(" sending the answers…", Tone.ACCENT))]
        if self._summary:
            pairs = [
                (self._state.keys.label("card.approve"), f"approve these {len(self._summary)} once"),
                ("↑↓ PgUp PgDn", "read"),
                ("Esc", "back to the table"),
            ]
            return key_lines_with_state(self._readiness(), pairs, width)
        rows: list[StyledLine] = []
        if self._outcome:
            first, *rest = self._outcome
            rows = [line(span(f" ✓ {first}", Tone.STRONG))]
            rows += [line(span(f" ✗ {text}", Tone.WARN)) for text in rest]
        elif self._notice:
            rows = [line(span(f" {self._notice}", Tone.WARN))]
        ask = self._ask_at_cursor()
        pairs = [] if ask is None else [("Space", "tick"), ("↑↓", "move")]
        if self._ticked:
            pairs.append((APPROVE_TICKED, f"approve the {len(self._ticked)} ticked…"))
        if ask is not None:
            pairs.append((DENY_CALLER, f"deny all of {_who(ask)}…"))
        return [*wrapped(rows, width, 3), *wrap(keys_line([*pairs, ("Esc", "back")]), width)]


def entry_key(queued: QueuedRequest) -> str:
    """What identifies a request and what it asks for. One that changes gets another key, so that its tick is
    lost."""
    return f"{queued.key} {queued.ask.request.subject_digest} {queued.ask.request.risk}"


def _who(queued: QueuedRequest) -> str:
    """The caller of a request, after the root where the console has several."""
    name = caller_name(queued.ask.request.caller)
    return f"{queued.root.name} · {name}" if queued.root.name else name


def _obstacle(asks: Sequence[QueuedRequest]) -> str:
    """Why this console cannot decide about one of the requests; `""` where it can about each."""
    return next((why for queued in asks if (why := queued.root.no_decision_reason)), "")


def highest_risk(asks: Sequence[QueuedRequest]) -> Risk:
    """The highest risk among the requests, of which there is at least one."""
    risks = {queued.ask.request.risk for queued in asks}
    return next(risk for risk in reversed(Risk) if risk in risks)


def exclusion_reason(request: ApprovalRequest) -> str:
    """Why a request cannot be in a batch; `""` where it can."""
    if request.risk.at_least(Risk.HIGH):
        return f"{request.risk.value} risk is decided on its own card"
    if request.crop is not None:
        return "it is about a place on the screen, which its own card shows"
    return "it has masked fields, which its own card reveals" if request.masked else ""


def batch_row(queued: QueuedRequest, *, ticked: bool, width: int) -> StyledLine:
    """The row of a request: tick, risk, effect, root and caller."""
    ask, request, root = queued.ask, queued.ask.request, root_spans(queued.root)
    who = max(14, min(28, width // 4)) + min(width_of(root), width // 6)
    mark = span("[x]", Tone.STRONG) if ticked else span(" – " if exclusion_reason(request) else "[ ]")
    times = span(f"×{ask.count} ", Tone.WARN) if ask.count > 1 else StyledText("")
    effect = padded(
        (times, span(effect_text(request), Tone.STRONG if ticked else Tone.PLAIN)), width - who - 10
    )
    risk = padded((label_span(RISK_LABELS[request.risk]),), 4)
    caller = truncated((*root, span(caller_name(request.caller), Tone.DIM)), who)
    return (mark, StyledText(" "), *risk, StyledText(" "), *effect, StyledText(" "), *caller)


def summary_lines(place: int, queued: QueuedRequest, width: int) -> list[StyledLine]:
    """The lines of one request in the summary: its risk and whole effect, its root, tool and caller, and the
    beginning of its input, all of which was on screen when it was ticked."""
    ask, request = queued.ask, queued.ask.request
    first = line(span(f" {place:>2}  "), *padded((label_span(RISK_LABELS[request.risk]),), 5))
    effect = StyledText(effect_text(request), Tone.STRONG)
    indent = StyledText(" " * _SUMMARY_INDENT)
    times = f" · {ask.count} identical calls" if ask.count > 1 else ""
    who = line(
        indent,
        *root_spans(queued.root),
        span(f"{request.tool} · {caller_name(request.caller)}{times}", Tone.DIM),
    )
    given = StyledText(strict_text(request.input_json[:width]), Tone.QUOTE)
    cut = StyledText("…" if len(request.input_json) > width else "")
    return [
        *wrap((*first, effect), width, _SUMMARY_INDENT),
        *wrap(who, width, _SUMMARY_INDENT),
        truncated((indent, given, cut), width),
    ]


def _entry_title(queued: QueuedRequest, width: int) -> list[StyledLine]:
    """The lines that name one request's root, tool and caller."""
    ask, request = queued.ask, queued.ask.request
    indent = " " * _INDENT
    title = line(
        StyledText(indent),
        *root_spans(queued.root),
        StyledText(strict_text(request.tool), Tone.STRONG),
        span(f"  {caller_name(request.caller)}"),
    )
    rows = wrap(title, width, _INDENT)
    why = exclusion_reason(request)
    if why:
        rows += wrap(line(span(f"{indent}not in a batch: {why}", Tone.WARN)), width, _INDENT)
    if ask.count > 1:
        what = f"{indent}{ask.count} identical calls wait for this answer"
        rows += wrap(line(span(what, Tone.WARN)), width, _INDENT)
    return rows


def _entry_cards(ask: Ask, width: int) -> Sequence[CardLine]:
    """The lines of one request's effect, of its whole input, and of what the call could reach."""
    # By its style: a label of the input is the caller's, and must not take a line off the table.
    cards = render_card(ask.request, width - _INDENT - 2, unfolded=True)
    return [card for card in cards if card.style not in _OMITTED]


def _card_line(card: CardLine) -> StyledLine:
    return (StyledText(" " * _INDENT), *card_line(card))
