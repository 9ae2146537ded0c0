"""The screens on which a person decides: opened by a key, or by themselves when something new waits."""

from __future__ import annotations

from textual.app import App
from textual.widgets import Input

from flycore.model.approval import Ask
from flycore.model.enums import QuestionKind
from flycore.model.question import Question
from flytui.console.approvals.question_screen import QuestionScreen
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.controllers.notifications import Notifications
from flytui.console.screens.base import PageScreen, decision_open
from flytui.console.screens.main import MainScreen
from flytui.console.screens.trust import TrustScreen
from flytui.console.state import ConsoleState, Topic

IDLE_S = 2.0
"""A screen opens by itself only after so long without a key."""


class DecisionScreens:
    """Opens requests, questions and trust, never one over another."""

    def __init__(self, app: App[None], state: ConsoleState, notifications: Notifications) -> None:
        self._app = app
        self._state = state
        self._notifications = notifications
        self._known_requests: frozenset[str] = frozenset()
        self._known_questions: frozenset[str] = frozenset()
        self._known_trust: frozenset[str] = frozenset()

    @property
    def on_main_or_page(self) -> bool:
        """Whether the screen on top is one that another may open over."""
        return isinstance(self._app.screen, (MainScreen, PageScreen))

    @property
    def idle(self) -> bool:
        """Whether nobody is typing: no key came lately, no input holds text, and the terminal is ours."""
        if self._state.suspended:
            return False
        quiet = self._state.clock() - self._state.last_key >= IDLE_S
        return quiet and not any(box.value for box in self._app.screen.query(Input) if box.display)

    def open_request(self, ask: Ask) -> None:
        """Open the card of that request, unless a decision is on the screen already."""
        if self._none_open():
            self._app.push_screen(RequestScreen(self._state, ask))

    def open_question(self, question: Question) -> None:
        """Open that question, unless a decision is on the screen already."""
        if self._none_open():
            self._app.push_screen(QuestionScreen(self._state, question))

    def open_first(self) -> None:
        """Open the request that waits longest; where none does, the first question."""
        if self._state.waiting:
            self.open_request(self._state.waiting[0])
        elif self._state.questions:
            self.open_question(self._state.questions[0])
        else:
            self._notifications.show("no request waits")

    def open_trust(self) -> None:
        """Open what waits for trust."""
        if not self._state.trust:
            self._notifications.show("nothing waits for trust")
        elif self.on_main_or_page:
            self._app.push_screen(TrustScreen(self._state))

    def open_new(self, topics: frozenset[Topic]) -> None:
        """Call the person for what is new among these topics, and open it when nobody is busy."""
        if Topic.ASKS in topics:
            self._open_new_request()
        if Topic.TRUST in topics:
            self._open_new_trust()
        if Topic.QUESTIONS in topics:
            self._open_new_question()

    def _open_new_request(self) -> None:
        waiting = self._state.waiting
        ids = frozenset(ask.request.id for ask in waiting)
        new = ids - self._known_requests
        self._known_requests = ids
        if not new:
            return
        self._notifications.ring_for_requests()
        if self.idle and self.on_main_or_page:
            self.open_request(next(ask for ask in waiting if ask.request.id in new))

    def _open_new_trust(self) -> None:
        """Open the trust question once for every value that waits."""
        waiting = frozenset(item.digest for item in self._state.trust)
        new = waiting - self._known_trust
        self._known_trust |= waiting
        if new and self.idle and isinstance(self._app.screen, MainScreen):
            self._app.push_screen(TrustScreen(self._state))

    def _open_new_question(self) -> None:
        """Ring for a caller that loops, and open its question. Trust has a screen of its own, and the header
        shows a stop."""
        ids = frozenset(question.id for question in self._state.questions)
        new = ids - self._known_questions
        self._known_questions = ids
        loops = [it for it in self._state.questions if it.id in new and it.kind is QuestionKind.LOOP]
        if not loops:
            return
        self._app.bell()
        if self.idle and self.on_main_or_page:
            self.open_question(loops[0])

    def _none_open(self) -> bool:
        """Whether no decision is on the screen already: requests never stack up over each other."""
        return not decision_open(self._app.screen_stack)
