"""The Approvals view: questions and requests that wait, oldest first; below them the requests that ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message

from flycore.model.approval import Ask
from flycore.model.enums import RequestState
from flycore.model.question import Question
from flytui.console.approvals.batch_screen import BatchScreen
from flytui.console.approvals.card_lines import CardView, body_of, card_line, outcome_of, why_lines
from flytui.console.approvals.question_screen import KIND_LABELS
from flytui.console.catalog.catalog_rows import Heading
from flytui.console.screens.base import PageScreen
from flytui.console.screens.header import root_spans
from flytui.console.state import ConsoleState, QueuedQuestion, QueuedRequest, Topic
from flytui.console.widgets.lines import LineBar, LineView
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.alike import alike_ask_key, ask_time, fold_alike, toggled_fold
from flytui.text.caller import caller_name
from flytui.text.card import effect_text, render_card
from flytui.text.labels import RISK_LABELS, age, duration, label_span, plural
from flytui.text.lines import (
    StyledLine,
    StyledText,
    Tone,
    line,
    padded,
    span,
    truncated,
    width_of,
    wrapped,
)

MIN_EFFECT_CELLS = 12
"""The cells that what a call does has at least, beside the root and the caller."""
TRY_TOOL = "mock.echo"
TRY_CALL = f"flytui call {TRY_TOOL} message=hello"
_STATE_LABELS: dict[RequestState, tuple[str, Tone]] = {
    RequestState.WAITING: ("▲ waiting", Tone.WARN),
    RequestState.APPROVED: ("✓ approved", Tone.GOOD),
    RequestState.DENIED: ("⊘ denied", Tone.WARN),
    RequestState.TIMED_OUT: ("◌ timed out", Tone.DIM),
    RequestState.WITHDRAWN: ("◌ withdrawn", Tone.DIM),
}
_EMPTY_TEXT = (
    "Nothing waits for you.",
    (
        "When an agent's call needs a person, it appears here as a card: who calls, what exactly would run,"
        " what it could reach. Until you decide, it does not run."
    ),
    "",
    "See one without any risk: ! plays the demo here, on a folder of its own; q brings you back.",
)
_TRY_TEXT = ("", "Or let one come here, from another terminal in this folder:", "", f"  {TRY_CALL}")


class RequestRow(msgspec.Struct, frozen=True):
    """A request in the list, or several alike ones of one root."""

    queued: QueuedRequest
    now: float
    group: tuple[str, ...] = ()
    """The keys of all requests that are alike; of more than one, the row may stand for all or for one."""
    count: int = 1
    """The number of calls that the row stands for."""

    @property
    def ask(self) -> Ask:
        """The request, or the one that stands for the others."""
        return self.queued.ask

    @property
    def key(self) -> str:
        """What identifies the request among those of all roots."""
        return self.queued.key

    def draw(self, width: int) -> StyledLine:
        """The row: state, risk, tool, time, number, effect, root and caller. A narrow row has no time."""
        request = self.ask.request
        # A narrow row keeps its room for the effect.
        narrow = width < 90
        cells: list[tuple[StyledText, int]] = [
            (label_span(_STATE_LABELS[self.ask.state]), 11 if narrow else 12),
            (label_span(RISK_LABELS[request.risk]), 4 if narrow else 5),
        ]
        cells += [(span(request.tool, Tone.STRONG), 17 if narrow else 24)]
        cells += [(span(self._when(), Tone.DIM), 10 if narrow else 12)] if width >= 70 else []
        row: StyledLine = ()
        for cell, size in cells:
            row = (*row, *padded((cell,), size), StyledText(" "))
        times = span(f"×{self.count} ", Tone.WARN) if self.count > 1 else StyledText("")
        effect, root = StyledText(effect_text(request)), root_spans(self.queued.root)
        caller = caller_name(request.caller)
        if not root:
            return truncated((*row, times, effect, StyledText(f"  {caller}", Tone.DIM)), width)
        # The root stays on screen, which tells whose the effect is; the caller may have half of the rest.
        who = (StyledText("  "), *root, StyledText(caller, Tone.DIM))
        left = width - width_of(row)
        room = max(MIN_EFFECT_CELLS, left - max(width_of(root) + 2, min(width_of(who), left // 2)))
        return truncated((*row, *truncated((times, effect), room), *who), width)

    def _when(self) -> str:
        if self.ask.state is RequestState.WAITING:
            return f"{duration(self.ask.request.expires_at - self.now)} left"
        return f"{age(self.now - (self.ask.decided_at or self.ask.request.asked_at))} ago"


class QuestionRow(msgspec.Struct, frozen=True):
    """A question in the list."""

    queued: QueuedQuestion
    now: float

    @property
    def question(self) -> Question:
        """The question."""
        return self.queued.question

    @property
    def key(self) -> str:
        """What identifies the question among those of all roots."""
        return self.queued.key

    def draw(self, width: int) -> StyledLine:
        """The row: kind, title, age."""
        row = (*padded((label_span(KIND_LABELS[self.question.kind]),), 12), StyledText(" "))
        title = span(self.question.title, Tone.STRONG)
        since = f"  asked {age(self.now - self.question.asked_at)} ago" if self.question.asked_at else ""
        return truncated((*row, *root_spans(self.queued.root), title, span(since, Tone.DIM)), width)


class ApprovalsView(Vertical):
    """The list of questions, waiting requests and recent requests."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("B", "batch", "Batch", show=False, id="approvals.batch"),
        Binding("space", "unfold", "Unfold", show=False, id="approvals.unfold"),
        Binding("exclamation_mark", "app.demo", "Demo", show=False, id="approvals.demo"),
    ]
    KEYS: ClassVar[list[tuple[str, str]]] = [
        ("list.open", "open the card"),
        ("app.card", "open the first"),
        ("approvals.batch", "batch"),
        ("approvals.unfold", "unfold"),
        ("approvals.demo", "demo"),
    ]

    class OpenCard(Message):
        """The person wants this request's card."""

        def __init__(self, queued: QueuedRequest) -> None:
            self.queued = queued
            super().__init__()

    class OpenQuestion(Message):
        """The person wants this question's screen."""

        def __init__(self, queued: QueuedQuestion) -> None:
            self.queued = queued
            super().__init__()

    def __init__(self, state: ConsoleState, *, id: str) -> None:
        super().__init__(id=id)
        self._state = state
        self._list = VirtualList(id="ask-rows")
        self._unfolded: frozenset[str] = frozenset()
        self._empty_lines_view = LineView(self._empty_lines, id="asks-empty")

    def compose(self) -> ComposeResult:
        """Yield the list, and the text that is shown while the list is empty."""
        yield self._list
        yield self._empty_lines_view

    def on_mount(self) -> None:
        """Show what is known."""
        self.changed(frozenset((Topic.ASKS,)))

    def changed(self, topics: frozenset[Topic]) -> None:
        """Show the requests and questions again where one of them changed."""
        if Topic.CATALOG in topics:
            self._empty_lines_view.rebuild()
        if not topics & {Topic.ASKS, Topic.QUESTIONS}:
            return
        requests, now = self._state.shared.requests, self._state.now()
        waits = RequestState.WAITING
        waiting = self._request_rows([it for it in requests if it.ask.state is waits], now)
        recent = self._request_rows([it for it in requests if it.ask.state is not waits], now)
        heading = [Heading("decided and ended")] if recent else []
        questions = [QuestionRow(question, now) for question in self._state.shared.questions]
        self._list.set_rows([*questions, *waiting, *heading, *recent])
        self._list.display = bool(requests or questions)
        self._empty_lines_view.display = not self._list.display
        self._empty_lines_view.rebuild()

    def _request_rows(self, requests: Sequence[QueuedRequest], now: float) -> list[RequestRow]:
        """A row for each group of alike requests of one root, or for each request of a group that is
        unfolded."""
        rows: list[RequestRow] = []
        alike = fold_alike(
            requests,
            lambda queued: (queued.root.place, *alike_ask_key(queued.ask)),
            lambda queued: ask_time(queued.ask),
        )
        for group in alike:
            keys = tuple(queued.key for queued in group)
            if len(group) > 1 and self._unfolded.isdisjoint(keys):
                rows.append(RequestRow(group[0], now, keys, sum(queued.ask.count for queued in group)))
            else:
                rows += [RequestRow(queued, now, keys, queued.ask.count) for queued in group]
        return rows

    def action_unfold(self) -> None:
        """Show each of the alike requests under the cursor in a row of its own, or all of them in one."""
        row = self._list.row
        if isinstance(row, RequestRow):
            self._unfolded = toggled_fold(self._unfolded, row.group)
            self.changed(frozenset((Topic.ASKS,)))

    def focus_here(self) -> None:
        """Give the list the focus."""
        self.screen.set_focus(self._list)

    def action_batch(self) -> None:
        """Open the table of requests below high risk, to approve each of them once."""
        if self._state.shared.waiting:
            self.app.push_screen(BatchScreen(self._state))
        else:
            self._state.shared.notice = "no request waits"
            self.post_message(LineBar.Stale())

    @on(VirtualList.Chosen)
    def _chosen(self, event: VirtualList.Chosen) -> None:
        event.stop()
        row = self._list.row
        if isinstance(row, QuestionRow):
            self.post_message(self.OpenQuestion(row.queued))
        if not isinstance(row, RequestRow):
            return
        if row.ask.state is RequestState.WAITING:
            self.post_message(self.OpenCard(row.queued))
            return
        ask, root = row.ask, row.queued.root

        def lines(width: int) -> Sequence[StyledLine]:
            return ended_request_lines(ask, root.now(), width, colours=not self.app.no_color)

        self.app.push_screen(PageScreen(root, ask.request.tool, lines))

    def tick(self) -> None:
        """Draw the times again that pass while something waits, or since it was decided."""
        if (self._state.shared.requests or self._state.shared.questions) and self.display:
            self.changed(frozenset((Topic.ASKS,)))

    def _empty_lines(self, width: int) -> Sequence[StyledLine]:
        texts = (*_EMPTY_TEXT, *(_TRY_TEXT if self._state.offers(TRY_TOOL) else ()))
        return [(), *wrapped([line(span(f" {text}")) for text in texts], width, 1)]


def ended_request_lines(ask: Ask, now: float, width: int, *, colours: bool = True) -> list[StyledLine]:
    """The lines of a request that has ended: its outcome, its card, and the rules that matched."""
    text, good = outcome_of(ask)
    when = f"  {age(now - ask.decided_at)} ago" if ask.decided_at else ""
    rows: list[StyledLine] = [
        line(StyledText(" "), span(text, Tone.GOOD if good else Tone.WARN), span(when, Tone.DIM))
    ]
    if ask.answer and ask.answer.reason:
        rows.append(line(span(" reason sent to the caller: "), span(ask.answer.reason, Tone.STRONG)))
    if ask.answer and ask.answer.lease:
        lease = ask.answer.lease
        time = plural(lease.minutes, "minute") if lease.minutes else "the time until the caller leaves"
        rows.append(line(span(f" lease for {time} and {plural(lease.calls, 'call')}")))
    rows = [
        *wrapped(rows, width, 1),
        (),
        *(card_line(card) for card in render_card(ask.request, width - 2) if card.pinned),
        *body_of(ask.request, width, CardView(unfolded=True), colours=colours).lines,
        (),
    ]
    return [*rows, *((StyledText(" "), *row) for row in why_lines(ask.request, width - 1))]
