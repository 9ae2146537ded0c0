"""A screen whose keys decide, and the lines whose painting and reading arm those keys.

The rules of `approvals.keys.ArmingState` reach the terminal here, once for every screen that decides:

- a key counts only after the lines were painted, taken by the terminal, and on screen for a moment;
- a screen that was covered, suspended or resized is armed anew;
- pasted text is dropped, and counts as a key for the quiet before approving;
- when a tool takes the machine, approving is off before anything is fetched;
- while an answer is on its way, keys neither decide nor leave: the person sees what became of the answer.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen, ScreenResultType

from flytui.console.approvals.card_lines import readiness
from flytui.console.screens.arming import ArmingState, KeyEffect
from flytui.console.screens.base import ScreenTraits
from flytui.console.screens.header import header_lines
from flytui.console.state import ConsoleState, Topic
from flytui.console.terminal import has_undrawn_output
from flytui.console.widgets.lines import LineBar, LineBuilder, LineView
from flytui.text.lines import StyledLine, StyledText, keys_line, line, wrap

TICK_S = 0.1
"""Readiness is looked at and drawn so often."""


def key_of(event: events.Key) -> str:
    """The character that was typed, else the key's name."""
    return event.character if event.is_printable and event.character else event.key


class ArmedLines(LineView, can_focus=False):
    """A question's text. It takes no focus, no click and no key of its own: its screen hands keys in."""

    def __init__(self, state: ConsoleState, build: LineBuilder, arming: ArmingState, *, id: str) -> None:
        super().__init__(build, id=id)
        self._state = state
        self._read_at = 0
        self.arming = self._unarmed(arming)

    def _unarmed(self, arming: ArmingState) -> ArmingState:
        """That arming with keys as cold as the desk knows them."""
        state = self._state
        return replace(
            arming,
            last_key=state.last_key,
            desktop_controlled=state.desktop_controlled,
            viewer_reason=state.no_decision_reason,
        )

    def show_question(self, arming: ArmingState) -> None:
        """Show another question from its first line, unarmed."""
        self.arming = self._unarmed(arming)
        self.rebuild()
        self.scroll_to(y=0, animate=False)

    def note_painted(self) -> None:
        """Take note of what is on screen now. What has not been painted, is covered, or has not been taken by
        the terminal does not count."""
        self.arming = self.arming.with_viewer_reason(self._state.no_decision_reason, self._state.clock())
        if (
            not self.is_attached
            or not self.screen.is_current
            or not self.painted
            or has_undrawn_output(self.app)
        ):
            return
        if self.arming.shown_at is None:
            self.arming = self.arming.with_painted(self._state.clock()).with_key(self._state.last_key)
        if self._read_at != self.built_for:
            self._read_at = self.built_for
            self.arming = self.arming.with_read(end_seen=False)
        if self.bottom_visible and not self.arming.end_seen:
            self.arming = self.arming.with_read(end_seen=True)

    def cover(self) -> None:
        """Disarm what is covered or laid out anew. It is armed again once it has been painted again."""
        self.arming = self.arming.with_covered()
        self.repaint()

    def set_desktop_control(self, on: bool) -> None:
        """A tool took or released the machine."""
        self.arming = self.arming.with_desktop_control(on, self._state.clock())

    def press(self, key: str, now: float) -> KeyEffect:
        """A key, pressed at `now` on the desk's clock."""
        self.arming = self.arming.with_viewer_reason(self._state.no_decision_reason, now)
        self.arming, pressed = self.arming.press(key, now)
        return pressed

    def press_option(self, now: float) -> bool:
        """Whether a key counts that decides by itself, such as the letter of an option. It starts the quiet
        again like every key."""
        self.arming = self.arming.with_viewer_reason(self._state.no_decision_reason, now)
        counts = self.arming.belongs_to_card(now) and not self.arming.blocked_reason(now)
        self.note_key(now)
        return counts

    def note_key(self, now: float) -> None:
        """A key or a paste that decides nothing."""
        self.arming = self.arming.with_key(now)

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


class ArmedScreen(ScreenTraits, Screen[ScreenResultType]):
    """A screen on which a key decides. A subclass says what is shown (`_top`, `_body`, `_keys`) and what the
    approve key does (`_approve`).

    A subclass defines no handler of its own for an event that is handled here: Textual calls the handlers of
    every class, so it would add to these rules and not replace them.
    """

    AUTO_FOCUS: ClassVar[str | None] = ""
    ALLOW_SELECT = False
    decides = True
    of_one_kernel = True
    closes_for_view = True

    def __init__(
        self, state: ConsoleState, heading: str, arming: ArmingState, *, card_id: str = "card"
    ) -> None:
        """`heading` names the screen in the header. `arming` is what the first question demands; the desk
        adds what it knows: last key, hands on the machine, viewer."""
        super().__init__()
        self._state = state
        self._heading = heading
        self._sending = False
        self._card = ArmedLines(state, self._body_lines, arming, id=card_id)

    def compose(self) -> ComposeResult:
        """Header, what it is about, the armed lines, the keys: only the lines scroll."""
        yield LineBar(lambda width: header_lines(self._state, self._heading, width), id="header")
        yield LineBar(self._title_lines, id="card-title")
        yield self._card
        yield LineBar(self._key_lines, id="card-keys")

    def on_mount(self) -> None:
        """Readiness is drawn as it changes."""
        self.set_interval(TICK_S, self._tick)
        self.call_after_refresh(self._tick)

    def changed(self, topics: frozenset[Topic]) -> None:
        """The header follows; what would be decided stays what is shown."""
        self._redraw()

    def set_desktop_controlled(self, on: bool) -> None:
        """A tool took or released the machine: approving is off at once, or armed anew."""
        self._card.set_desktop_control(on)
        self._redraw()

    def on_screen_suspend(self) -> None:
        """Something covers the screen: what is not seen is not armed."""
        self._card.cover()

    def on_screen_resume(self) -> None:
        """The screen is visible again: it is armed like a new one."""
        self._card.repaint()
        self.call_after_refresh(self._tick)

    def on_resize(self) -> None:
        """Other lines may be on screen now: the screen is armed anew."""
        # Until the next tick the lines count as read at the old size; a key in between must not approve.
        self._card.cover()
        self.call_after_refresh(self._tick)

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text is dropped; it counts as a key for the quiet before approving."""
        event.stop()
        self._card.note_key(self._state.press_time(event))

    def on_key(self, event: events.Key) -> None:
        """All keys end here, but those of a field that is written in: nothing bubbles to what lies below."""
        key = key_of(event)
        if self._belongs_to_field(key):
            return
        event.stop()
        event.prevent_default()
        now = self._state.press_time(event)
        if self._sending:
            self._card.note_key(now)
        else:
            self._handle_key(key, now)
        self._redraw()

    def _belongs_to_field(self, key: str) -> bool:
        """Whether the key belongs to a field that the person writes in."""
        return False

    def _handle_key(self, key: str, now: float) -> None:
        """Handle a key that was pressed at `now` on the desk's clock while no answer is on its way."""
        key = self._state.keys.meant("card", key)
        if self._card.press(key, now) is KeyEffect.APPROVED:
            sending = self._approval()
            if sending is not None:
                self._start_sending(sending)
        elif key == "escape":
            self.dismiss()
        else:
            self._scroll(key)

    def _scroll(self, key: str) -> bool:
        """Scroll if it is a key that scrolls, and note what comes into sight without waiting for the tick."""
        scrolled = self._card.scroll_by(key)
        if scrolled:
            self.call_after_refresh(self._tick)
        return scrolled

    def _approval(self) -> Coroutine[Any, Any, None] | None:
        """What sends the approval of all that is shown; None where there is nothing to approve."""
        raise NotImplementedError

    def _start_sending(self, sending: Coroutine[Any, Any, None]) -> None:
        """Run what sends an answer. Keys do nothing until it has ended, so that no second one starts."""
        self._sending = True
        self.run_worker(self._finish_sending(sending), group="decide")

    async def _finish_sending(self, sending: Coroutine[Any, Any, None]) -> None:
        try:
            await sending
        finally:
            self._sending = False
        self._redraw()

    def _show_question(self, arming: ArmingState) -> None:
        """Show another question: read and armed anew."""
        self._card.show_question(arming)
        self._redraw()
        self.call_after_refresh(self._tick)

    def _tick(self) -> None:
        self._card.note_painted()
        self._redraw()

    def _redraw(self) -> None:
        for bar in self.query(LineBar):
            bar.redraw()

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        """What it is about."""
        raise NotImplementedError

    def _body_lines(self, width: int) -> Sequence[StyledLine]:
        """What has to be read before it is decided."""
        raise NotImplementedError

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        """Whether the keys are armed, and what each does."""
        raise NotImplementedError

    def _readiness(self) -> StyledText:
        """Whether the approve key is armed, or why not."""
        return readiness(self._card.arming, self._state.clock(), margin=1)


def key_lines_with_state(state: StyledText, pairs: Sequence[tuple[str, str]], width: int) -> list[StyledLine]:
    """The state and, below it, keys with what each does."""
    return [*wrap(line(state), width, 1), *wrap(keys_line(pairs), width, 1)]
