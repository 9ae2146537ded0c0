"""What the console has to do at once: stop everything at the second ctrl+x, and put questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import Input

from flycore.model.enums import QuestionKind
from flycore.model.errors import FlyError
from flycore.model.question import Question
from flytui.console.approvals.question import QuestionScreen
from flytui.console.approvals.view import ApprovalsView
from flytui.console.desk import Desk
from flytui.console.main import MainScreen
from flytui.console.pages import PageScreen
from flytui.console.screens.traits import decision_open
from flytui.console.views import Bar

IDLE_S = 2.0
"""A card or question opens by itself only after so long without a key."""
SECOND_PRESS_S = 1.0
NOTICE_S = 2.0
"""A notice on a screen that has no line for one."""


@dataclass(slots=True)
class TwoPresses:
    """A key that acts when it is pressed twice within `SECOND_PRESS_S`. Times are handed in."""

    first: float = float("-inf")

    def press(self, at: float) -> bool:
        """Whether this press is the second one."""
        second = 0 <= at - self.first <= SECOND_PRESS_S
        self.first = float("-inf") if second else at
        return second


class UrgentApp(App[None]):
    """The part of the application that must never wait for another one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+x", "stop", "Stop everything", show=False, priority=True, id="app.panic"),
    ]
    desk: Desk
    pressed_at = 0.0
    """When the latest key was pressed, on the desk's clock."""

    def __init__(self) -> None:
        super().__init__()
        self._stop_key = TwoPresses()
        self._known_questions: frozenset[str] = frozenset()

    def action_stop(self) -> None:
        """ctrl+x: the second one within a second stops everything, wherever the focus is."""
        if self._stop_key.press(self.pressed_at):
            self.stop_now()
        else:
            self._say(f"{self.desk.keys.shown('app.panic')} again within a second stops everything")

    def stop_now(self) -> None:
        """Stop everything; the header says so at once."""
        self.desk.stopping = True
        self._redraw_bars()
        self.run_worker(self._stop_everything(), group="panic")

    async def _stop_everything(self) -> None:
        try:
            await self.desk.client.panic()
            self.desk.status = await self.desk.client.status()
        except FlyError as error:
            self._say(f"not stopped: {error}")
        finally:
            self.desk.stopping = False
            self._redraw_bars()

    def _say(self, notice: str) -> None:
        """Answer a key, so that it does not seem dead."""
        self.desk.notice = notice
        bars = [*self.screen.query("#alert, #card-keys").results(Bar)]
        for bar in bars:
            bar.redraw()
        if not bars:
            self.notify(notice, timeout=NOTICE_S)

    def tell(self, notice: str) -> None:
        """A notice from beside the application."""
        self._say(notice)

    def _forget_notice(self) -> None:
        """A notice lasts until the next key."""
        if self.desk.notice:
            self.desk.notice = ""
            for bar in self.screen.query("#alert, #card-keys").results(Bar):
                bar.redraw()

    @on(ApprovalsView.OpenQuestion)
    def _question_wanted(self, event: ApprovalsView.OpenQuestion) -> None:
        self._put(event.question)

    def _redraw_bars(self) -> None:
        for bar in self.screen.query(Bar):
            bar.redraw()

    def _idle(self) -> bool:
        """Whether nobody is typing: no key lately, and no input holds text."""
        if self.desk.lent:
            return False
        quiet = self.desk.clock() - self.desk.last_key >= IDLE_S
        return quiet and not any(box.value for box in self.screen.query(Input) if box.display)

    def _free(self) -> bool:
        """Whether nothing that is decided lies on the screen already: they never stack up."""
        return not decision_open(self.screen_stack)

    def _put(self, question: Question) -> None:
        if self._free():
            self.push_screen(QuestionScreen(self.desk, question))

    def _greet_questions(self) -> None:
        """Ring for a caller that loops; open its question when nobody is busy. Trust has its own screen,
        and a stop stands in the header."""
        ids = frozenset(question.id for question in self.desk.questions)
        new = ids - self._known_questions
        self._known_questions = ids
        loops = [it for it in self.desk.questions if it.id in new and it.kind is QuestionKind.LOOP]
        if not loops:
            return
        self.bell()
        if self._idle() and isinstance(self.screen, (MainScreen, PageScreen)):
            self._put(loops[0])
