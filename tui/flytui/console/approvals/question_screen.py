"""The screen of a question that is not about one call. It is armed like a card, and each option has a letter;
Enter never answers."""

from __future__ import annotations

from collections.abc import Sequence

from flycore.model.enums import QuestionKind, Risk
from flycore.model.errors import FlyError
from flycore.model.json import JsonObject
from flycore.model.question import Question
from flysafe.text import strict_text
from flytui.console.approvals.answer_form import AnswerFormScreen
from flytui.console.screens.armed import ArmedScreen
from flytui.console.screens.arming import ArmingState
from flytui.console.screens.header import root_spans
from flytui.console.screens.text_prompt import TextPromptScreen
from flytui.console.state import QueuedQuestion, Topic
from flytui.text.labels import age
from flytui.text.lines import StyledLine, StyledText, Tone, keys_line, line, span, wrap, wrapped

REPLY_KEY = "w"
_RESERVED_KEYS = frozenset("wnp")
_ARMING = ArmingState(Risk.MEDIUM, read_whole=True)
_UNUSUAL: dict[QuestionKind, tuple[str, ...]] = {
    QuestionKind.PACKAGE: ("why ", "reach    +", "risk ", "- tool ", "note ")
}
"""How lines begin that are in the warning colour, because they say what is unusual."""
KIND_LABELS: dict[QuestionKind, tuple[str, Tone]] = {
    QuestionKind.PANIC: ("■ stopped", Tone.ALARM),
    QuestionKind.LOOP: ("↻ loop", Tone.WARN),
    QuestionKind.NESTED: ("▲ root", Tone.WARN),
    QuestionKind.TRUST: ("± new", Tone.WARN),
    QuestionKind.DRIFT: ("± changed", Tone.WARN),
    QuestionKind.POLICY: ("± policy", Tone.WARN),
    QuestionKind.PACKAGE: ("± package", Tone.WARN),
    QuestionKind.SERVER: ("? server", Tone.WARN),
}


def option_keys(question: Question) -> dict[str, str]:
    """The key of each option, with the option's id: the first letter of the id that is still free."""
    keys: dict[str, str] = {}
    for option in question.options:
        letters = (*option.id, *"abcdefghijklmnopqrstuvxyz")
        free = next(key for key in letters if key.isalpha() and key not in keys and key not in _RESERVED_KEYS)
        keys[free] = option.id
    return keys


class QuestionScreen(ArmedScreen[None]):
    """One question, then the next that waits. Escape, and every accident, leaves it waiting."""

    def __init__(self, queued: QueuedQuestion) -> None:
        super().__init__(queued.root, "Question", _ARMING)
        self._queued = queued
        self._reply = ""
        self._outcome = ""
        self._ended = False

    @property
    def _question(self) -> Question:
        return self._queued.question

    def changed(self, topics: frozenset[Topic]) -> None:
        """Follow the questions that wait. One whose text changed has to be read and is armed from the
        start."""
        if Topic.QUESTIONS in topics and not self._sending:
            now = next((item for item in self._state.questions if item.id == self._question.id), None)
            if now is None:
                self._outcome, self._ended = self._outcome or "it no longer waits", True
            elif now != self._question:
                self._show(QueuedQuestion(self._state, now))
        self._redraw()

    def _handle_key(self, key: str, now: float) -> None:
        """Answer with the option whose letter is pressed. The person's own keys of the card do not count
        here."""
        # Called for every key, because every key starts the quiet time again.
        armed = self._card.press_option(now)
        option = option_keys(self._question).get(key)
        if key == "escape":
            self.dismiss()
        elif key in ("n", "p"):
            self._step(1 if key == "n" else -1)
        elif key == REPLY_KEY and self._question.free_text and not self._ended:
            self.app.push_screen(_reply_prompt(), self._set_reply)
        elif option is not None and armed and not self._ended:
            self._choose(option)
        else:
            self._scroll(key)

    def _choose(self, option: str) -> None:
        """Send the answer, or open the form whose values it brings. The question stays on this screen
        meanwhile, and going back from the form sends nothing."""
        queued = self._queued
        if not any(item.fills for item in queued.question.options if item.id == option):
            self._start_sending(self._send(queued, option, self._reply))
            return

        def send(values: JsonObject | None) -> None:
            if values is not None:
                self._start_sending(self._send(queued, option, "", values))

        self.app.push_screen(AnswerFormScreen(queued.root, queued.question), send)

    def _set_reply(self, words: str | None) -> None:
        self._reply = self._reply if words is None else words
        self._redraw()

    async def _send(
        self, queued: QueuedQuestion, option: str, words: str, values: JsonObject | None = None
    ) -> None:
        """Send an answer to the question that was on screen when the key was pressed."""
        try:
            if obstacle := await queued.root.shared.approval_obstacle():
                self._outcome = f"the answer did not count: {obstacle}"
                return
            outcome = await queued.answer(option, words, values)
        except FlyError as error:
            self._outcome = f"the answer did not count: {error}"
        else:
            if outcome.accepted:
                noted = f": {outcome.why_not}" if outcome.why_not else ""
                self._state.shared.notice = f"answered: {option} · {queued.question.title}{noted}"
                self._next(queued)
            else:
                self._outcome = f"the answer did not count: {outcome.why_not or 'refused'}"

    def _next(self, answered: QueuedQuestion) -> None:
        others = [item for item in self._state.shared.questions if item.key != answered.key]
        loops = [
            item for item in others if item.question.kind not in (QuestionKind.TRUST, QuestionKind.DRIFT)
        ]
        same = [item for item in others if item.question.kind is answered.question.kind]
        if following := (loops or same):
            self._show(following[0])
        else:
            self.dismiss()

    def _step(self, step: int) -> None:
        waiting = self._state.shared.questions
        place = next((at for at, item in enumerate(waiting) if item.key == self._queued.key), -step)
        if waiting and waiting[(place + step) % len(waiting)].key != self._queued.key:
            self._show(waiting[(place + step) % len(waiting)])

    def _show(self, queued: QueuedQuestion) -> None:
        self._queued, self._reply, self._outcome, self._ended = queued, "", "", False
        self._use_root(queued.root)
        self._show_question(_ARMING)

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        word, tone = KIND_LABELS[self._question.kind]
        since = age(self._state.now() - self._question.asked_at) if self._question.asked_at else ""
        waits = span(f"  for {since}" if since else "", Tone.DIM)
        title = StyledText(strict_text(self._question.title), Tone.STRONG)
        return wrap(
            line(span(f" {word} ", tone), StyledText(" "), *root_spans(self._state), title, waits), width, 1
        )

    def _body_lines(self, width: int) -> Sequence[StyledLine]:
        rows: list[StyledLine] = []
        for text in self._question.lines:
            tone = Tone.WARN if text.startswith(_UNUSUAL.get(self._question.kind, ())) else Tone.PLAIN
            rows += wrap(line(StyledText(" "), StyledText(strict_text(text), tone)), width, 9)
        return rows

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        if self._ended or self._outcome:
            state = span(f" {self._outcome}", Tone.WARN)
        elif self._sending:
            state = span(" sending the answer…", Tone.ACCENT)
        else:
            state = self._readiness()
        rows = [line(state)]
        if self._reply:
            rows.append(
                line(span(" your words: ", Tone.DIM), StyledText(strict_text(self._reply), Tone.STRONG))
            )
        rows += [] if self._ended else [keys_line([pair]) for pair in self._options()]
        further = [(REPLY_KEY, "write words to the caller")] if self._question.free_text else []
        more = [("n p", "next, previous")] if len(self._state.shared.questions) > 1 else []
        rows.append(keys_line([*([] if self._ended else further), *more, ("Esc", "leave it waiting")]))
        return wrapped(rows, width, 1)

    def _options(self) -> list[tuple[str, str]]:
        """Each option's key and words; where there is a choice, the words say which one is recommended."""
        options = {option.id: option for option in self._question.options}
        choice = len(options) > 1
        return [
            (key, options[name].words + (" (recommended)" if choice and options[name].recommended else ""))
            for key, name in option_keys(self._question).items()
        ]


def _reply_prompt() -> TextPromptScreen:
    note = "The caller gets them together with your answer, which you give afterwards."
    return TextPromptScreen("Words to the caller", note, "keep them", "back to the question")
