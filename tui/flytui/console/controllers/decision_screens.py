"""Opens the screens on which a person decides: by a key, or when something new waits and nobody is typing.

Their modules are imported where they are used, because the first frame of the console does without them.
"""

from __future__ import annotations

from textual.app import App
from textual.widgets import Input

from flycore.model.question import ABOUT_PROGRAMS
from flytui.console.controllers.notifications import Notifications
from flytui.console.screens.base import PageScreen, decision_open
from flytui.console.screens.main import MainScreen
from flytui.console.state import (
    DECIDED_S,
    ConsoleState,
    QueuedQuestion,
    QueuedRequest,
    SharedState,
    Topic,
)

IDLE_S = 2.0
"""Seconds without a key before a screen opens without being asked for."""


WANTED_S = 2.0
"""A key that opens the next request also opens one that comes this soon after it."""


class DecisionScreens:
    """Opens the screens of requests, questions and trust, never one over another."""

    def __init__(self, app: App[None], shared: SharedState, notifications: Notifications) -> None:
        self._app = app
        self._shared = shared
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
        if self._shared.suspended:
            return False
        quiet = self._shared.shown.clock() - self._shared.last_key >= IDLE_S
        return quiet and not any(box.value for box in self._app.screen.query(Input) if box.display)

    @property
    def _has_just_decided(self) -> bool:
        """Whether the last key decided a request, so that one that comes now follows it."""
        decided = self._shared.decided
        if decided is None or self._shared.suspended:
            return False
        return self._shared.shown.clock() - decided.at < DECIDED_S and self._shared.last_key <= decided.at

    def open_request(self, queued: QueuedRequest) -> None:
        """Open the screen of that request, unless a decision is open already."""
        from flytui.console.approvals.request_screen import RequestScreen

        if self._none_open():
            self._app.push_screen(RequestScreen(queued))

    def open_question(self, queued: QueuedQuestion) -> None:
        """Open the screen of that question, unless a decision is open already."""
        from flytui.console.approvals.question_screen import QuestionScreen

        if self._none_open():
            self._app.push_screen(QuestionScreen(queued))

    def open_first(self) -> None:
        """Open the request that waits longest; where none does, the first question."""
        waiting, questions = self._shared.waiting, self._shared.questions
        if waiting:
            self.open_request(waiting[0])
        elif questions:
            self.open_question(questions[0])
        else:
            # A call's page can tell that it asks before the request itself has come.
            self._wanted_until = self._shared.shown.clock() + WANTED_S
            self._notifications.show("no request waits")

    def open_trust(self) -> None:
        """Open the screen of the entries of one root that wait for trust, or say why it cannot be opened. The
        root that is shown comes before the others."""
        root = next((root for root in self._shared.shown_first if root.trust), None)
        if root is None:
            self._notifications.show("nothing waits for trust")
        elif self.on_main_or_page:
            self._show_trust(root)

    def open_new(self, topics: frozenset[Topic]) -> None:
        """Ring for what is new among these topics, and open it where nobody is typing."""
        if Topic.ASKS in topics:
            self._open_new_request()
        if Topic.TRUST in topics:
            self._open_new_trust()
        if Topic.QUESTIONS in topics:
            self._open_new_question()

    def _open_new_request(self) -> None:
        waiting = self._shared.waiting
        keys = frozenset(queued.key for queued in waiting)
        new = keys - self._known_requests
        # Kept before the check for idle: a request that came while the person typed never opens by itself
        # later.
        self._known_requests = keys
        if not new:
            return
        self._notifications.ring_for_requests()
        wanted, self._wanted_until = self._shared.shown.clock() < self._wanted_until, 0.0
        if wanted or ((self.idle or self._has_just_decided) and self.on_main_or_page):
            self.open_request(next(queued for queued in waiting if queued.key in new))

    def _open_new_trust(self) -> None:
        """Open the trust screen once for every new value that waits."""
        for root in self._shared.shown_first:
            waiting = frozenset(root.key_of(item.digest) for item in root.trust)
            new = waiting - self._known_trust
            self._known_trust |= waiting
            if new and self.idle and isinstance(self._app.screen, MainScreen):
                self._show_trust(root)

    def _open_new_question(self) -> None:
        """Ring for a question that a program caused, and open it. Trust has a screen of its own, and the
        header shows the emergency stop."""
        questions = self._shared.questions
        keys = frozenset(queued.key for queued in questions)
        new = keys - self._known_questions
        self._known_questions = keys
        loops = [it for it in questions if it.key in new and it.question.kind in ABOUT_PROGRAMS]
        if not loops:
            return
        self._app.bell()
        if self.idle and self.on_main_or_page:
            self.open_question(loops[0])

    def _show_trust(self, root: ConsoleState) -> None:
        from flytui.console.screens.trust import TrustScreen

        self._app.push_screen(TrustScreen(root))

    def _none_open(self) -> bool:
        """Whether no screen that decides is open. Such screens are never stacked over each other."""
        return not decision_open(self._app.screen_stack)
