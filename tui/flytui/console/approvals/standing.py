"""Forms for what permits or refuses more than one call: fields, then a summary that arms like a new card.

The form itself decides nothing. The summary has no input field, has to be read to its end, and is closed
by `a` and the letter or code of the request's risk. What the kernel refuses stays open and says why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from flycore.model.approval import Answer, ApprovalRequest, Outcome
from flycore.model.enums import Risk
from flycore.model.errors import FlyError
from flycore.model.json import JsonObject
from flytui.console.approvals.drawing import readiness
from flytui.console.approvals.form import TermsForm, form_after_key, form_lines
from flytui.console.approvals.keys import ArmingState, KeyEffect
from flytui.console.desk import ConsoleState
from flytui.console.paint import StyledLine, StyledText, Tone, keys_line, line, span, wrapped
from flytui.console.screens.armed import ArmedScreen
from flytui.console.views import LineBar

SendAnswer = Callable[[Answer], Awaitable[Outcome]]
SendEditedInput = Callable[[JsonObject], Awaitable[Outcome]]


class TermsScreen(ArmedScreen[Answer], ModalScreen[Answer]):
    """Gives the answer that was approved on the summary and that the kernel took; None: back to the card."""

    closes_for_view = False
    TITLES: ClassVar[tuple[str, str]]
    """What the form and what the summary is called."""
    APPROVE_LABEL: ClassVar[str]
    """What `a` does on the summary."""

    def __init__(
        self, desk: ConsoleState, request: ApprovalRequest, form: TermsForm, send: SendAnswer
    ) -> None:
        super().__init__(desk, self.TITLES[0], _summary_arming(request), card_id="standing")
        self._request = request
        self._form = form
        self._send_answer = send
        self._on_summary = False
        self._problem = ""
        self._text_input = self.text_input()
        self._foot = LineBar(self._key_lines, id="standing-keys")

    def compose(self) -> ComposeResult:
        """One box; form and summary share it."""
        with Vertical(classes="box form"):
            yield self._card
            if self._text_input is not None:
                yield self._text_input
            yield self._foot

    def text_input(self) -> Input | None:
        """The form's one line of text, below its fields; it is not there on the summary."""
        return None

    @property
    def typing(self) -> bool:
        """Whether keys go to the line of text."""
        return self._text_input is not None and self._text_input.has_focus

    def answer(self) -> Answer:
        """What is chosen."""
        raise NotImplementedError

    def summary(self, width: int) -> Sequence[StyledLine]:
        """The same in plain words, whole."""
        raise NotImplementedError

    def missing(self) -> str:
        """What the form still needs before there is a summary; empty for nothing."""
        return ""

    def _belongs_to_field(self, key: str) -> bool:
        """Keys go to the line of text, but those that leave it."""
        filling = not self._on_summary and not self._sending
        return filling and self.typing and key not in ("up", "shift+tab", "tab", "escape")

    def _handle_key(self, key: str, now: float) -> None:
        """A key of the fields, or one that decides the summary."""
        if self._on_summary:
            self._decide(self._desk.keys.meant("card", key), now)
        elif self._move_input_focus(key):
            self._card.rebuild()
        else:
            self._choose(key)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in the line leads to the summary, as anywhere in the form, and decides nothing."""
        event.stop()
        self.to_summary()

    def on_descendant_focus(self) -> None:
        """A click may have put the cursor into the line."""
        self._card.rebuild()

    def on_descendant_blur(self) -> None:
        """The fields have the cursor again."""
        self._card.rebuild()

    def to_summary(self) -> None:
        """Ask: from the first line, unarmed. Where something is missing the form says so and stays."""
        self._problem = self.missing()
        if not self._problem:
            self._on_summary = True
            self._show_line(False)
            self._card.show_question(_summary_arming(self._request))
        self._card.rebuild()

    def to_form(self) -> None:
        """Back from the summary; nothing is decided."""
        self._on_summary = False
        self._show_line(True)
        self._card.rebuild()

    def _show_line(self, on: bool) -> None:
        if self._text_input is not None:
            self._text_input.display = on
            self.set_focus(None)

    def _move_input_focus(self, key: str) -> bool:
        """Up and shift-tab leave the line of text; tab, and down from the last field, enter it."""
        if self._text_input is None:
            return False
        if self.typing:
            if key == "escape":
                return False
            self.set_focus(None)
            return True
        if key == "tab" or (key == "down" and self._form.cursor == len(self._form.fields) - 1):
            self._text_input.focus()
            return True
        return False

    def _choose(self, key: str) -> None:
        if key == "escape":
            self.dismiss(None)
        elif key == "enter":
            self.to_summary()
        elif (form := form_after_key(self._form, key)) is not None:
            self._form, self._problem = form, ""
            self._card.rebuild()
            self._reveal_cursor()

    def _decide(self, key: str, now: float) -> None:
        was_open = self._card.arming.confirm_open(now)
        if self._card.press(key, now) is KeyEffect.APPROVED:
            self._start_sending(self._send(self.answer()))
        elif key == "escape" and not was_open:
            self.to_form()
        else:
            self._scroll(key)

    async def _send(self, answer: Answer) -> None:
        """What the kernel takes closes the form; what it refuses leaves it open."""
        try:
            outcome = await self._send_answer(answer)
        except FlyError as error:
            outcome = Outcome(accepted=False, why_not=str(error))
        if outcome.accepted:
            self.dismiss(answer)
            return
        self._problem = f"not done: {outcome.why_not or 'refused'}"
        self.to_form()

    def _reveal_cursor(self) -> None:
        """Scroll the field under the cursor on screen."""
        _, first, last = form_lines(self._form, self._card.built_for)
        head = len(self._form_heading(self._card.built_for))
        top, height = self._card.scroll_offset.y, self._card.scrollable_content_region.height
        if head + first < top:
            self._card.scroll_to(y=0 if self._form.cursor == 0 else head + first, animate=False)
        elif head + last >= top + height:
            self._card.scroll_to(y=head + last - height + 1, animate=False)

    def _form_heading(self, width: int) -> list[StyledLine]:
        return [*wrapped([line(span(self.TITLES[0], Tone.STRONG))], width), ()]

    def _body_lines(self, width: int) -> Sequence[StyledLine]:
        if not self._on_summary:
            return [*self._form_heading(width), *form_lines(self._form, width, active=not self.typing)[0]]
        return [*wrapped([line(span(self.TITLES[1], Tone.STRONG))], width), (), *self.summary(width)]

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        now, arming = self._desk.clock(), self._card.arming
        if self._sending:
            return [line(span("sending the answer…", Tone.ACCENT))]
        if not self._on_summary:
            pairs = [("↑↓", "field"), ("←→ PgUp PgDn space", "change"), ("Enter", "summary"), ("Esc", "back")]
            said = wrapped([line(span(self._problem, Tone.WARN))], width) if self._problem else []
            return [*said, *wrapped([keys_line(pairs)], width)]
        if arming.confirm_open(now):
            words = "type the code " if self._request.risk is Risk.CRITICAL else "confirm with "
            letter = span(f" {self._request.letter} ", Tone.ALARM)
            return [line(span(words, Tone.STRONG), letter, StyledText(f" {arming.typed}"))]
        pairs = [(self._desk.keys.label("card.approve"), self.APPROVE_LABEL), ("Esc", "back")]
        return wrapped([line(readiness(arming, now)), keys_line(pairs)], width)


def _summary_arming(request: ApprovalRequest) -> ArmingState:
    """A summary has to be read whole whatever the risk: it permits more than one call."""
    return ArmingState(request.risk, request.letter, read_whole=True)
