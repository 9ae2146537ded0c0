"""What the person is told beside the screen: bell, title, notices; and the card that opens by itself."""

from __future__ import annotations

from textual.notifications import SeverityLevel

from flycore.model.approval import Ask
from flycore.model.events import Event
from flysafe.text import safe_text
from flytui.console.approvals.card import CardScreen
from flytui.console.main import MainScreen
from flytui.console.pages import PageScreen
from flytui.console.title import away_sequence, title_sequence
from flytui.console.urgent import UrgentApp

TOKEN_S = 30.0
"""How long a notice about a token stays."""


class TellingApp(UrgentApp):
    """The part of the application that calls the person."""

    def __init__(self) -> None:
        super().__init__()
        self._known: frozenset[str] = frozenset()
        self._title_told = self._notify_told = ""

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """A toast without markup, whatever the caller wished."""
        super().notify(
            safe_text(message), title=safe_text(title), severity=severity, timeout=timeout, markup=False
        )

    def copy_to_clipboard(self, text: str) -> None:
        """To the terminal's clipboard; half a character, which no terminal can be sent, becomes `?`."""
        super().copy_to_clipboard(text.encode("utf-8", "replace").decode())

    def _tell_title(self) -> None:
        """How many wait stands in the terminal's title, too."""
        sequence = title_sequence(self.desk)
        if sequence != self._title_told and not self.desk.lent:
            self._title_told = sequence
            self._write(sequence)

    def _tell_notify(self) -> None:
        """The person's own program for notices did not do its work: said once, until it fails anew."""
        problem = self.desk.status.notify_problem if self.desk.status else ""
        if problem != self._notify_told:
            self._notify_told = problem
            if problem:
                self._say(problem)

    def _token(self, event: Event) -> None:
        """Who comes in over TCP and HTTP is another; the token itself is in no event."""
        name, by = event.payload.get("name"), event.payload.get("by")
        words = "made: who has it comes in as" if event.payload.get("decision") == "made" else "revoked:"
        self.notify(f"token {words} {name} ({by})", severity="warning", timeout=TOKEN_S)

    def _write(self, sequence: str) -> None:
        """To the terminal itself, past the screen."""
        if self._driver is not None and not self.is_headless and not self.desk.lent:
            self._driver.write(sequence)

    def bell(self) -> None:
        """Ring, while the terminal is ours."""
        if not self.desk.lent:
            super().bell()

    def _greet(self) -> None:
        """Ring for requests that were not there before; open the first when nobody is busy."""
        waiting = self.desk.waiting
        ids = frozenset(ask.request.id for ask in waiting)
        new = ids - self._known
        self._known = ids
        if not new:
            return
        self.bell()
        if not self.app_focus:
            self._write(away_sequence(self.desk))
        if self._idle() and isinstance(self.screen, (MainScreen, PageScreen)):
            self._open(next(ask for ask in waiting if ask.request.id in new))

    def _open(self, ask: Ask) -> None:
        """One card screen at a time: requests never stack up over each other."""
        if self._free():
            self.push_screen(CardScreen(self.desk, ask))
