"""A question that is not about one call, armed like a card: a letter for each of its options, never Enter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from flycore.model.enums import QuestionKind, Risk
from flycore.model.errors import FlyError
from flycore.model.question import Question
from flysafe.text import strict_text
from flytui.console.approvals.armed import ArmedLines, key_of
from flytui.console.approvals.keys import Arming
from flytui.console.approvals.reason import WordsScreen
from flytui.console.desk import Desk, Topic
from flytui.console.header import header_lines
from flytui.console.paint import Line, Span, Tone, keys_line, line, span, wrap, wrapped
from flytui.console.views import Bar
from flytui.console.words import age

TICK_S = 0.1
WORDS_KEY = "w"
_OWN_KEYS = frozenset("wnp")
KINDS: dict[QuestionKind, tuple[str, Tone]] = {
    QuestionKind.PANIC: ("■ stopped", Tone.ALARM),
    QuestionKind.LOOP: ("↻ loop", Tone.WARN),
    QuestionKind.TRUST: ("± new", Tone.WARN),
    QuestionKind.DRIFT: ("± changed", Tone.WARN),
}


def option_keys(question: Question) -> dict[str, str]:
    """Key to option id: the first letter of each id that is still free."""
    keys: dict[str, str] = {}
    for option in question.options:
        letters = (*option.id, *"abcdefghijklmnopqrstuvxyz")
        free = next(key for key in letters if key.isalpha() and key not in keys and key not in _OWN_KEYS)
        keys[free] = option.id
    return keys


class QuestionScreen(Screen[None]):
    """Shows one question, then the next that waits. Escape, and every accident, leaves it waiting."""

    AUTO_FOCUS: ClassVar[str | None] = ""
    ALLOW_SELECT = False

    def __init__(self, desk: Desk, question: Question) -> None:
        super().__init__()
        self._desk = desk
        self._question = question
        self._words = ""
        self._outcome = ""
        self._over = False
        self._sending = False
        self._card = ArmedLines(desk, self._body, self._fresh(), id="card")

    def compose(self) -> ComposeResult:
        """Header, what it is about, its lines, the keys."""
        yield Bar(lambda width: header_lines(self._desk, "Question", width), id="header")
        yield Bar(self._top, id="card-title")
        yield self._card
        yield Bar(self._keys, id="card-keys")

    def on_mount(self) -> None:
        """Readiness is drawn as it changes."""
        self.set_interval(TICK_S, self._tick)
        self.call_after_refresh(self._tick)

    def changed(self, topics: frozenset[Topic]) -> None:
        """What waits has changed: a question that says something else now is read and armed anew."""
        if Topic.QUESTIONS in topics and not self._sending:
            now = next((item for item in self._desk.questions if item.id == self._question.id), None)
            if now is None:
                self._outcome, self._over = self._outcome or "it no longer waits", True
            elif now != self._question:
                self._take(now)
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
        now, key = self._desk.pressed_at(event), key_of(event)
        armed = self._card.arming.accepts(now) and not self._blocked(now)
        self._card.note(now)
        option = option_keys(self._question).get(key)
        if key == "escape":
            self.dismiss()
        elif key in ("n", "p"):
            self._step(1 if key == "n" else -1)
        elif key == WORDS_KEY and self._question.free_text and not self._over:
            self.app.push_screen(_words_screen(), self._say)
        elif option is not None and armed and not self._sending and not self._over:
            self._sending = True
            self.run_worker(self._send(self._question, option, self._words), group="decide")
        elif self._card.scroll_by(key):
            self.call_after_refresh(self._tick)
        self._redraw()

    def _say(self, words: str | None) -> None:
        self._words = self._words if words is None else words
        self._redraw()

    async def _send(self, question: Question, option: str, words: str) -> None:
        """Answer the question that was on screen."""
        try:
            outcome = await self._desk.approver.answer(question.id, option, words)
        except FlyError as error:
            self._outcome = f"the answer did not count: {error}"
        else:
            if outcome.accepted:
                self._desk.notice = f"answered: {option} · {question.title}"
                self._next(question)
            else:
                self._outcome = f"the answer did not count: {outcome.why_not or 'refused'}"
        self._sending = False
        self._redraw()

    def _next(self, answered: Question) -> None:
        others = [item for item in self._desk.questions if item.id != answered.id]
        loops = [item for item in others if item.kind not in (QuestionKind.TRUST, QuestionKind.DRIFT)]
        same = [item for item in others if item.kind is answered.kind]
        if following := (loops or same):
            self._take(following[0])
        else:
            self.dismiss()

    def _step(self, step: int) -> None:
        waiting = self._desk.questions
        place = next((at for at, item in enumerate(waiting) if item.id == self._question.id), -step)
        if waiting and waiting[(place + step) % len(waiting)].id != self._question.id:
            self._take(waiting[(place + step) % len(waiting)])

    def _take(self, question: Question) -> None:
        self._question, self._words, self._outcome, self._over = question, "", "", False
        self._card.ask(self._fresh())
        self._redraw()
        self.call_after_refresh(self._tick)

    def _fresh(self) -> Arming:
        return Arming(Risk.MEDIUM, last_key=self._desk.last_key, hands_on=self._desk.hands_on)

    def _blocked(self, now: float) -> str:
        """Why no option counts now; `""` when they do."""
        if not self._card.arming.seen_all:
            return "read to the last line first ↓"
        return self._card.arming.blocked(now)

    def _tick(self) -> None:
        self._card.look()
        self._redraw()

    def _redraw(self) -> None:
        for bar in self.query(Bar):
            bar.redraw()

    def _top(self, width: int) -> Sequence[Line]:
        word, tone = KINDS[self._question.kind]
        since = age(self._desk.now() - self._question.asked_at) if self._question.asked_at else ""
        waits = span(f"  for {since}" if since else "", Tone.DIM)
        title = Span(strict_text(self._question.title), Tone.STRONG)
        return wrap(line(span(f" {word} ", tone), Span(" "), title, waits), width, 1)

    def _body(self, width: int) -> Sequence[Line]:
        rows: list[Line] = []
        for text in self._question.lines:
            rows += wrap(line(Span(" "), Span(strict_text(text))), width, 9)
        return rows

    def _keys(self, width: int) -> Sequence[Line]:
        if self._over or self._outcome:
            state = span(f" {self._outcome}", Tone.WARN)
        elif self._sending:
            state = span(" sending the answer…", Tone.ACCENT)
        elif blocked := self._blocked(self._desk.clock()):
            state = span(f" {blocked} ○", Tone.DIM)
        else:
            state = span(" keys ready ●", Tone.GOOD)
        rows = [line(state)]
        if self._words:
            rows.append(line(span(" your words: ", Tone.DIM), Span(strict_text(self._words), Tone.STRONG)))
        rows += [] if self._over else [keys_line([pair]) for pair in self._options()]
        further = [(WORDS_KEY, "write words to the caller")] if self._question.free_text else []
        more = [("n p", "next, previous")] if len(self._desk.questions) > 1 else []
        rows.append(keys_line([*([] if self._over else further), *more, ("Esc", "leave it waiting")]))
        return wrapped(rows, width, 1)

    def _options(self) -> list[tuple[str, str]]:
        """Each option's key and words; which is recommended, where there is a choice."""
        options = {option.id: option for option in self._question.options}
        choice = len(options) > 1
        return [
            (key, options[name].words + (" (recommended)" if choice and options[name].recommended else ""))
            for key, name in option_keys(self._question).items()
        ]


def _words_screen() -> WordsScreen:
    note = "The caller is told them with your answer, which you give afterwards."
    return WordsScreen("Words to the caller", note, "keep them", "back to the question")
