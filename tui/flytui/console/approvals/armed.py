"""Lines that arm keys: what has been on screen, since when, and at which width.

The card, the lease's summary and the trust question share this one widget, so the rules of `keys` hold
for each of them in the same way.
"""

from __future__ import annotations

from dataclasses import replace

from textual import events

from flytui.console.approvals.keys import Arming, Pressed
from flytui.console.desk import Desk
from flytui.console.terminal import unread
from flytui.console.views import Build, LinesView


def key_of(event: events.Key) -> str:
    """The character that was typed, else the key's name."""
    return event.character if event.is_printable and event.character else event.key


class ArmedLines(LinesView, can_focus=False):
    """A question's text. It takes no focus, no click and no key of its own: its screen hands keys in."""

    def __init__(self, desk: Desk, build: Build, arming: Arming, *, id: str) -> None:
        super().__init__(build, id=id)
        self._desk = desk
        self._read_at = 0
        self.arming = replace(arming, off=desk.cannot)

    def ask(self, arming: Arming) -> None:
        """Another question: from its first line, with keys as cold as the desk knows them."""
        desk = self._desk
        self.arming = replace(arming, last_key=desk.last_key, hands_on=desk.hands_on, off=desk.cannot)
        self.rebuild()
        self.scroll_to(y=0, animate=False)

    def look(self) -> None:
        """Take note of what is on screen now. What has not been painted, is covered, or has not been taken by
        the terminal does not count."""
        self.arming = self.arming.deciding(self._desk.cannot, self._desk.clock())
        if not self.is_attached or not self.screen.is_current or not self.painted or unread(self.app):
            return
        if self.arming.shown_at is None:
            self.arming = self.arming.shown(self._desk.clock()).noted(self._desk.last_key)
        if self._read_at != self.built_for:
            self._read_at = self.built_for
            self.arming = self.arming.reading(seen_all=False)
        if self.bottom_visible and not self.arming.seen_all:
            self.arming = self.arming.reading(seen_all=True)

    def cover(self) -> None:
        """Something lies over it: not armed, and armed anew once it is painted again."""
        self.arming = self.arming.hidden()
        self.repaint()

    def hands(self, on: bool) -> None:
        """A tool took or released the machine."""
        self.arming = self.arming.hands(on, self._desk.clock())

    def press(self, key: str, now: float) -> Pressed:
        """A key, pressed at `now` on the desk's clock."""
        self.arming = self.arming.deciding(self._desk.cannot, now)
        self.arming, pressed = self.arming.press(key, now)
        return pressed

    def note(self, now: float) -> None:
        """A key or a paste that decides nothing."""
        self.arming = self.arming.noted(now)

    def scroll_by(self, key: str) -> bool:
        """Scroll if it is a key that scrolls."""
        page = max(1, self.scrollable_content_region.height - 1)
        top = self.scroll_offset.y
        places = {
            "up": top - 1,
            "down": top + 1,
            "pageup": top - page,
            "pagedown": top + page,
            " ": top + page,
            "home": 0,
            "end": len(self.rows),
        }
        if key not in places:
            return False
        self.scroll_to(y=places[key], animate=False)
        return True
