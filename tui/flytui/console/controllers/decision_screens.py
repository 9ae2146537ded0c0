"""Opens the screens on which a person decides: by a key, or when something new waits and nobody is typing."""

from __future__ import annotations

from textual.app import App
from textual.widgets import Input

from flycore.model.approval import Ask
from flycore.model.question import ABOUT_PROGRAMS, Question
from flytui.console.approvals.question_screen import QuestionScreen
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.controllers.notifications import Notifications
from flytui.console.screens.base import PageScreen, decision_open
from flytui.console.screens.main import MainScreen
from flytui.console.screens.trust import TrustScreen
from flytui.console.state import DECIDED_S, ConsoleState, Topic

IDLE_S = 2.0
"""Seconds without a key before a screen opens without being asked for."""


WANTED_S = 2.0
"""A key that opens the next request also opens one that comes this soon after it."""


class DecisionScreens:
    """Opens the screens of requests, questions and trust, never one over another."""

    def __init__(self, app: App[None], state: ConsoleState, notifications: Notifications) -> None:
        self._app = app
        self._state = state
        self._notifications = notifications
        self._known_requests: frozenset[str] = frozenset()
        self._wanted_until = 0.0
        self._known_questions: frozenset[str] = frozenset()
        self._known_trust: frozenset[str] = frozenset()

    @property
    def on_main_or_page(self) -> bool:
        """Whether the screen on top is the main screen or a page, over which a decision may open."""
        return isinstance(self._app.screen, (MainScreen, PageScreen))

    @property
    def idle(self) -> bool:
        """Whether nobody is typing: no key came for `IDLE_S`, no text field holds text, and no other program
        has the terminal."""
        if self._state.suspended:
            return False
        quiet = self._state.clock() - self._state.last_key >= IDLE_S
        return quiet and not any(box.value for box in self._app.screen.query(Input) if box.display)

    @property
    def _has_just_decided(self) -> bool:
        """Whether the last key decided a request, so that one that comes now follows it."""
        decided = self._state.decided
        if decided is None or self._state.suspended:
            return False
        return self._state.clock() - decided.at < DECIDED_S and self._state.last_key <= decided.at

    def open_request(self, ask: Ask) -> None:
        """Open the screen of that request, unless a decision is open already."""
        if self._none_open():
            self._app.push_screen(RequestScreen(self._state, ask))

    def open_question(self, question: Question) -> None:
        """Open the screen of that question, unless a decision is open already."""
        if self._none_open():
            self._app.push_screen(QuestionScreen(self._state, question))

    def open_first(self) -> None:
        """Open the request that waits longest; where none does, the first question."""
        if self._state.waiting:
            self.open_request(self._state.waiting[0])
        elif self._state.questions:
            self.open_question(self._state.questions[0])
        else:
            # A call's page can tell that it asks before the request itself has come.
            self._wanted_until = self._state.clock() + WANTED_S
            self._notifications.show("no request waits")

    def open_trust(self) -> None:
        """Open the screen of the entries that wait for trust, or say why it cannot be opened."""
        if not self._state.trust:
            self._notifications.show("nothing waits for trust")
        elif self.on_main_or_page:
            self._app.push_screen(TrustScreen(self._state))

    def open_new(self, topics: frozenset[Topic]) -> None:
        """Ring for what is new among these topics, and open it where nobody is typing."""
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
        # Kept before the check for idle: a request that came while the person typed never opens by itself
        # later.
        self._known_requests = ids
        if not new:
            return
        self._notifications.ring_for_requests()
        wanted, self._wanted_until = self._state.clock() < self._wanted_until, 0.0
        if wanted or ((self.idle or self._has_just_decided) and self.on_main_or_page):
            self.open_request(next(ask for ask in waiting if ask.request.id in new))

    def _open_new_trust(self) -> None:
        """Open the trust screen once for every new value that waits."""
        waiting = frozenset(item.digest for item in self._state.trust)
        new = waiting - self._known_trust
        self._known_trust |= waiting
        if new and self.idle and isinstance(self._app.screen, MainScreen):
            self._app.push_screen(TrustScreen(self._state))

    def _open_new_question(self) -> None:
        """Ring for a question that a program caused, and open it. Trust has a screen of its own, and the
        header shows the emergency stop."""
        ids = frozenset(question.id for question in self._state.questions)
        new = ids - self._known_questions
        self._known_questions = ids
        loops = [it for it in self._state.questions if it.id in new and it.kind in ABOUT_PROGRAMS]
        if not loops:
            return
        self._app.bell()
        if self.idle and self.on_main_or_page:
            self.open_question(loops[0])

    def _none_open(self) -> bool:
        """Whether no screen that decides is open. Such screens are never stacked over each other."""
        return not decision_open(self._app.screen_stack)
