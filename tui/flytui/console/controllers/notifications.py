"""Notices, the bell, the terminal's title and its own notices: what calls the person beside the screens."""

from __future__ import annotations

from textual.app import App

from flycore.model.events import Event
from flytui.console.controllers.terminal_title import notice_sequence, title_sequence
from flytui.console.state import SharedState
from flytui.console.widgets.lines import LineBar

NOTICE_S = 2.0
"""How long a notice stays on a screen that has no line for one."""
TOKEN_S = 30.0
"""How long a notice about a token stays."""
_NOTICE_BARS = "#alert, #card-keys"


class Notifications:
    """Shows notices, rings the bell, and keeps the terminal's title up to date."""

    def __init__(self, app: App[None], shared: SharedState) -> None:
        self._app = app
        self._shared = shared
        self._title = self._notify_problem = ""

    def show(self, notice: str) -> None:
        """Show a sentence until the next key, for example why a key did nothing."""
        self._shared.notice = notice
        bars = list(self._app.screen.query(_NOTICE_BARS).results(LineBar))
        for bar in bars:
            bar.redraw()
        if not bars:
            self._app.notify(notice, timeout=NOTICE_S)

    def clear(self) -> None:
        """Remove the notice, because another key came."""
        if self._shared.notice:
            self._shared.notice = ""
            for bar in self._app.screen.query(_NOTICE_BARS).results(LineBar):
                bar.redraw()

    def redraw_bars(self) -> None:
        """Draw header, alerts and key line of the screen on top again."""
        for bar in self._app.screen.query(LineBar):
            bar.redraw()

    def show_token_change(self, event: Event) -> None:
        """Show which caller a token that was made or revoked admits, and who did it. No event holds the
        token."""
        name, by = event.payload.get("name"), event.payload.get("by")
        words = "made: its holder is admitted as" if event.payload.get("decision") == "made" else "revoked:"
        self._app.notify(f"token {words} {name} ({by})", severity="warning", timeout=TOKEN_S)

    def show_login_change(self, event: Event) -> None:
        """Show at which server somebody logged in or out, and who did it. No event holds a token."""
        name, by = event.payload.get("name"), event.payload.get("by")
        words = "logged in" if event.payload.get("decision") == "logged-in" else "logged out"
        self._app.notify(f"{words} at {name} ({by})", severity="warning", timeout=TOKEN_S)

    def update(self) -> None:
        """Write the terminal's title where it changed. Where the person's own program for notices failed,
        show that once; show it again only when it fails in another way."""
        sequence = title_sequence(self._shared)
        if sequence != self._title and not self._shared.suspended:
            self._title = sequence
            self._write(sequence)
        found = (root.status.notify_problem for root in self._shared.roots if root.status is not None)
        problem = next(filter(None, found), "")
        if problem != self._notify_problem:
            self._notify_problem = problem
            if problem:
                self.show(problem)

    def write_title(self) -> None:
        """Write the title again, because another program had the terminal."""
        self._title = ""
        self.update()

    def ring_for_requests(self) -> None:
        """Ring for new requests. Where the terminal does not have the keyboard, send it a notice, too."""
        self._app.bell()
        if self._shared.keyboard_elsewhere:
            self._write(notice_sequence(self._shared))

    def _write(self, sequence: str) -> None:
        """Write to the terminal directly, outside of what Textual draws."""
        driver = self._app._driver
        # Another program draws on a terminal that is lent: a sequence of ours would land in its output.
        if driver is not None and not self._app.is_headless and not self._shared.suspended:
            driver.write(sequence)
