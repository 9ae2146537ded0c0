"""A screen that approves several requests once: a table of exactly what would run, armed like a card.

It grants no standing permission. One answer is sent for each request that was on screen, by id and digest.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from flycore.model.approval import Answer, ApprovalRequest, Ask
from flycore.model.enums import Choice, RequestState, Risk
from flycore.model.errors import FlyError
from flysafe.text import strict_text
from flytui.console.approvals.card_lines import TONES
from flytui.console.screens.armed import ArmedScreen, key_lines_with_state
from flytui.console.screens.arming import ArmingState
from flytui.console.state import ConsoleState, Topic
from flytui.text.card import LABEL_CELLS, CardLine, render_card
from flytui.text.labels import plural
from flytui.text.lines import StyledLine, StyledText, Tone, keys_line, line, padded, span, wrap, wrapped

_ARMING = ArmingState(Risk.MEDIUM, read_whole=True)
_OMITTED_LABELS = frozenset(("ROOT", "WHY", "CHECKS"))
"""Labels of the card's lines that say nothing about what would run."""


class BatchScreen(ArmedScreen[None]):
    """The requests that wait when the screen opens. One that changes or ends meanwhile is taken off, and the
    table has to be read again."""

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(state, "Approvals", _ARMING)
        self._asks, self._others = split_batch(state.waiting)
        self._outcome: tuple[str, ...] = ()
        self._must_read: frozenset[int] = frozenset()

    def changed(self, topics: frozenset[Topic]) -> None:
        """Take requests that ended or changed off the table, which is then armed from the start."""
        if Topic.ASKS in topics and not self._sending and not self._outcome:
            still = tuple(ask for ask in self._asks if self._waits(ask))
            if still != self._asks:
                self._asks = still
                self._show_question(_ARMING)
        self._tick()

    def _approval(self) -> Coroutine[Any, Any, None] | None:
        return self._send(self._asks) if self._asks and not self._outcome else None

    def _waits(self, ask: Ask) -> bool:
        now = self._state.ask(ask.request.id)
        same = now is not None and now.request.subject_digest == ask.request.subject_digest
        return same and now is not None and now.state is RequestState.WAITING

    async def _send(self, asks: Sequence[Ask]) -> None:
        """Send one answer for each request that was shown. A refusal by the kernel does not end the
        others."""
        if obstacle := await self._state.approval_obstacle():
            self._outcome = ("nothing approved", obstacle)
            return
        refused: list[str] = []
        for ask in asks:
            # The digest is the one on screen: where the request changed since, the kernel refuses the answer.
            request, answer = ask.request, Answer(choice=Choice.APPROVE_ONCE)
            try:
                outcome = await self._state.approver.decide(request.id, request.subject_digest, answer)
            except FlyError as error:
                refused.append(f"{request.tool} did not count: {error}")
            else:
                if not outcome.accepted:
                    refused.append(f"{request.tool} did not count: {outcome.why_not or 'refused'}")
        done = len(asks) - len(refused)
        self._outcome = (f"{plural(done, 'request')} approved once", *refused)

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        words = f" {plural(len(self._asks), 'request')} to be approved once, each for this one call"
        rows = [line(span(words, Tone.STRONG))]
        if self._others:
            what = plural(len(self._others), "request")
            rows.append(line(span(f" {what} not in this batch, listed at its end", Tone.DIM)))
        return wrapped(rows, width, 1)

    def _body_lines(self, width: int) -> Sequence[StyledLine]:
        rows: list[StyledLine] = []
        must_read: set[int] = set()
        for place, ask in enumerate(self._asks, 1):
            title, cards = _entry_title(place, ask, width), _entry_cards(ask, width)
            first = len(rows) + len(title)
            must_read.update(first + at for at, card in enumerate(cards) if card.must_read)
            rows += [*title, *(_card_line(card) for card in cards), ()]
        self._must_read = frozenset(must_read)
        if not self._asks:
            rows += [line(span(" Nothing waits that can be approved in a batch.")), ()]
        if self._others:
            rows.append(line(span(" not in this batch", Tone.STRONG)))
        for ask, why in self._others:
            name = StyledText(strict_text(f"{ask.request.tool} · {ask.request.caller}"))
            rows += wrap(line(StyledText("   "), name, span(f"  {why}", Tone.WARN)), width, 5)
        return rows

    def _required_rows(self) -> frozenset[int]:
        return self._must_read

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        if self._outcome:
            first, *rest = self._outcome
            rows = [
                line(span(f" ✓ {first}", Tone.STRONG)),
                *(line(span(f" ✗ {text}", Tone.WARN)) for text in rest),
            ]
            return [*wrapped(rows, width, 3), *wrap(keys_line([("Esc", "back")]), width)]
        if self._sending:
            return [line(span(" sending the answers…", Tone.ACCENT))]
        pairs = [
            (self._state.keys.label("card.approve"), f"approve these {len(self._asks)} once"),
            ("↑↓ PgUp PgDn", "read"),
            ("Esc", "back"),
        ]
        return key_lines_with_state(self._readiness(), pairs if self._asks else pairs[1:], width)


def split_batch(asks: Sequence[Ask]) -> tuple[tuple[Ask, ...], tuple[tuple[Ask, str], ...]]:
    """The requests that a batch may hold, and the others, each with the reason why it may not."""
    reasons = [(ask, _exclusion_reason(ask.request)) for ask in asks]
    return tuple(ask for ask, why in reasons if not why), tuple((ask, why) for ask, why in reasons if why)


def _exclusion_reason(request: ApprovalRequest) -> str:
    if request.risk.at_least(Risk.HIGH):
        return f"{request.risk.value} risk is decided on its own card"
    if request.crop is not None:
        return "is about a place on the screen, which its own card shows"
    return "has masked fields, which its own card reveals" if request.masked else ""


def _entry_title(place: int, ask: Ask, width: int) -> list[StyledLine]:
    """The lines that name one request's tool and caller."""
    request = ask.request
    title = line(
        span(f" {place}  "), StyledText(strict_text(request.tool), Tone.STRONG), span(f"  {request.caller}")
    )
    rows = wrap(title, width, 4)
    if ask.count > 1:
        rows += wrap(line(span(f"    {ask.count} identical calls wait for this answer", Tone.WARN)), width, 4)
    return rows


def _entry_cards(ask: Ask, width: int) -> Sequence[CardLine]:
    """The lines of one request's effect, of its whole input, and of what the call could reach."""
    return _relevant_lines(render_card(ask.request, width - 3, whole_reach=True))


def _relevant_lines(cards: Sequence[CardLine]) -> Sequence[CardLine]:
    kept: list[CardLine] = []
    label = ""
    for card in cards:
        label = card.label or label
        if label not in _OMITTED_LABELS:
            kept.append(card)
    return kept


def _card_line(card: CardLine) -> StyledLine:
    label = padded((StyledText("  "), StyledText(card.label, Tone.DIM)), LABEL_CELLS + 2)
    return (*label, StyledText(card.text, TONES[card.style]))
