"""The base class of every screen on which a key decides, and the lines that the person has to read there.

`screens.arming.ArmingState` holds the rules as a value; this module applies them to the terminal, once for
every screen that decides:

- a key counts only after the lines were painted, taken by the terminal, and on screen for `VISIBLE_S`;
- only lines that the terminal has taken count as read;
- after a pause of the console or of its terminal the screen is armed from the start;
- a screen that was covered, suspended or resized is armed again from the start;
- pasted text is dropped, and counts as a key press for the quiet time before an approval;
- when a tool takes control of the desktop, the approve key is off before anything is fetched;
- while another window has the keyboard, the approve key is off;
- while an answer is being sent, no key decides and no key leaves: the person sees what became of the answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.screen import Screen, ScreenResultType

from flytui.console.approvals.card_lines import readiness
from flytui.console.screens.arming import ArmingState, KeyEffect
from flytui.console.screens.base import ScreenTraits, pass_key
from flytui.console.screens.header import header_lines
from flytui.console.state import ConsoleState, Topic
from flytui.console.terminal import (
    has_receipt,
    note_loop,
    request_receipt,
    request_receipt_if_due,
    watch_closely,
)
from flytui.console.widgets.lines import LineBar, LineBuilder, LineView
from flytui.text.lines import StyledLine, StyledText, keys_line, line, wrap

GO_ACTIONS = {
    **{
        f"main.{name}": f"view('{name}')"
        for name in ("catalog", "approvals", "activity", "grants", "audit", "packages", "doctor")
    },
    "catalog.filter": "filter",
    "catalog.jump": "jump",
    "app.root": "next_root",
}
"""The actions of the application that show another screen, by the id of their key."""
TICK_S = 0.1
"""Seconds between two checks of whether the keys are armed."""


def key_of(event: events.Key) -> str:
    """The character that was typed, or the key's name where the key types none."""
    return event.character if event.is_printable and event.character else event.key


class Frame(msgspec.Struct, frozen=True):
    """The part of the lines that was on screen when they were painted."""

    width: int
    top: int
    height: int


class ArmedLines(LineView, can_focus=False):
    """The text of a question, with its arming. It takes no focus, no click and no key: the screen passes keys
    to it."""

    def __init__(
        self,
        state: ConsoleState,
        build: LineBuilder,
        arming: ArmingState,
        required: Callable[[], frozenset[int]],
        *,
        id: str,
    ) -> None:
        """`required` gives the indexes of the lines that have to be read before an approval, at the present
        width."""
        super().__init__(build, id=id)
        self._state = state
        self._required = required
        self._read_at = 0
        self._read_rows: set[int] = set()
        """The lines that have been on screen since they were built."""
        self._frames: deque[tuple[int, int, Frame]] = deque()
        """Frames that were painted, each with its receipt and the count of pauses before it, until the
        terminal has taken them."""
        self._pauses = 0
        self._last_frame: Frame | None = None
        self.arming = self._unarmed(arming)

    def _unarmed(self, arming: ArmingState) -> ArmingState:
        """The arming with the last key press, desktop control, keyboard and viewer reason that the console
        knows now."""
        state = self._state
        return msgspec.structs.replace(
            arming,
            last_key=state.shared.last_key,
            desktop_controlled=state.shared.desktop_controlled,
            keyboard_elsewhere=state.shared.keyboard_elsewhere,
            viewer_reason=state.no_decision_reason,
        )

    def use_root(self, state: ConsoleState) -> None:
        """Ask what comes next of a person at that root."""
        self._state = state

    def show_question(self, arming: ArmingState) -> None:
        """Show another question from its first line, unarmed."""
        self.arming = self._unarmed(arming)
        self.rebuild()
        self.scroll_to(y=0, animate=False)

    @property
    def read_rows(self) -> frozenset[int]:
        """The indexes of the lines that have been on screen since they were built."""
        return frozenset(self._read_rows)

    def note_painted(self) -> None:
        """Record what is on screen now. Lines that were not painted, are covered, or were not taken by the
        terminal do not count."""
        self.note_console(self._state.clock())
        region = self.scrollable_content_region
        # Between a resize and the rebuild, the lines are those of another width.
        if (
            not self.is_attached
            or self.app.screen is not self.screen
            or not self.painted
            or not region.height
            or region.width != self.built_for
        ):
            return
        request_receipt_if_due(self.app)
        frame = Frame(region.width, self.scroll_offset.y, region.height)
        if frame != self._last_frame:
            self._last_frame = frame
            self._frames.append((request_receipt(self.app), self._pauses, frame))
        # Painting is not showing: a terminal that stalled has the lines in a buffer, where nobody reads them.
        while self._frames and has_receipt(self.app, self._frames[0][0]):
            _, pauses, taken = self._frames.popleft()
            self._note_taken(taken, before_pause=pauses != self._pauses)

    def _note_taken(self, frame: Frame, *, before_pause: bool) -> None:
        """Record that the terminal shows the frame. One from before a pause was read, and arms nothing."""
        if self.arming.shown_at is None and not before_pause:
            # A key that was pressed for the screen before this one counts for the quiet time, too.
            self.arming = self.arming.with_painted(self._state.clock()).with_key(self._state.shared.last_key)
        # At another width the lines wrap in other places, so what was the end is no longer the end.
        if self._read_at != frame.width:
            self._read_at = frame.width
            self._read_rows.clear()
            self.arming = self.arming.with_read(end_seen=False)
        bottom = frame.top + frame.height
        self._read_rows.update(range(frame.top, bottom))
        left = pages_of(self._required() - self._read_rows, frame.height)
        self.arming = self.arming.with_read(
            end_seen=self.arming.end_seen or bottom >= len(self.rows), pages_left=left
        )

    def rebuild(self) -> None:
        """Build the lines again. None of them has been read."""
        self._read_rows.clear()
        super().rebuild()
        height = max(1, self.scrollable_content_region.height)
        self.arming = self.arming.with_read(pages_left=pages_of(self._required(), height))

    def mark_read(self, rows: frozenset[int]) -> None:
        """Count lines as read that were on screen before the last rebuild, with the same text at the same
        width."""
        self._read_rows |= rows
        height = max(1, self.scrollable_content_region.height)
        self.arming = self.arming.with_read(pages_left=pages_of(self._required() - self._read_rows, height))

    def repaint(self) -> None:
        """Draw the same lines again. What was painted before does not count as on screen."""
        self._frames.clear()
        self._last_frame = None
        super().repaint()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Scroll. Other lines are on screen only once they have been painted."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.painted = False

    def cover(self) -> None:
        """Disarm lines that are covered or laid out again. They are armed once they have been painted
        again."""
        self.arming = self.arming.with_covered()
        self.repaint()

    def rearm(self) -> None:
        """Disarm the lines after a pause, during which nobody knows what was on screen."""
        self.arming = self.arming.with_pause()
        self._pauses += 1
        self._last_frame = None
        super().repaint()

    def set_desktop_control(self, on: bool) -> None:
        """Record that a tool took control of the desktop, or released it."""
        self.arming = self.arming.with_desktop_control(on, self._state.clock())

    def note_console(self, now: float) -> None:
        """Record whether this console may decide, and whether its window has the keyboard, as it is at
        `now`."""
        state = self._state
        arming = self.arming.with_viewer_reason(state.no_decision_reason, now)
        self.arming = arming.with_keyboard_elsewhere(state.shared.keyboard_elsewhere, now)

    def press(self, key: str, now: float) -> KeyEffect:
        """Press a key at `now`, in seconds on the console's clock, and return what it did."""
        self.note_console(now)
        self.arming, pressed = self.arming.press(key, now)
        return pressed

    def press_option(self, now: float) -> bool:
        """Whether a key counts that decides by itself, such as the letter of an option. Like every key it
        starts the quiet time again."""
        self.note_console(now)
        # This order matters: `note_key` starts the quiet time again, and after it no key would count.
        counts = self.arming.belongs_to_card(now) and not self.arming.blocked_reason(now)
        self.note_key(now)
        return counts

    def note_key(self, now: float) -> None:
        """Record a key or a paste that decides nothing, at `now` on the console's clock."""
        self.arming = self.arming.with_key(now)

    def scroll_by(self, key: str) -> bool:
        """Scroll where `key` is one that scrolls, and return whether it is."""
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
    """A screen on which a key decides. A subclass defines what is shown (`_title_lines`, `_body_lines`,
    `_key_lines`) and what the approve key does (`_approval`).

    A subclass defines no handler of its own for an event that is handled here. Textual calls the handlers of
    every class, so such a handler would run beside these rules and not instead of them.
    """

    AUTO_FOCUS: ClassVar[str | None] = ""
    ALLOW_SELECT = False
    decides = True
    of_one_kernel = True
    closes_for_view = True

    def __init__(
        self, state: ConsoleState, heading: str, arming: ArmingState, *, card_id: str = "card"
    ) -> None:
        """Build the screen. `heading` is its name in the header. `arming` holds what the first question
        demands; the last key press, desktop control and the viewer reason are added from `state`."""
        super().__init__()
        self._state = state
        self._heading = heading
        self._sending = False
        self._drawn_at = 0
        """The second, in Unix time, in which the times were drawn last."""
        self._drawn_keys: tuple[object, ...] = ()
        """What time has made of the keys, as they were drawn last."""
        self._card = ArmedLines(state, self._body_lines, arming, self._required_rows, id=card_id)

    def compose(self) -> ComposeResult:
        """Yield the header, the title, the armed lines and the key line. Only the armed lines scroll."""
        yield LineBar(lambda width: header_lines(self._state, self._heading, width), id="header")
        yield LineBar(self._title_lines, id="card-title")
        yield self._card
        yield LineBar(self._key_lines, id="card-keys")

    def on_mount(self) -> None:
        """Start the timer that arms the keys and draws their state."""
        watch_closely(self.app)
        self.set_interval(TICK_S, self._tick)
        self.call_after_refresh(self._tick)

    def changed(self, topics: frozenset[Topic]) -> None:
        """Draw header and keys again. The question that would be decided stays the one on screen."""
        self._redraw()

    def set_desktop_controlled(self, on: bool) -> None:
        """Disarm at once when a tool takes control of the desktop; arm from the start when it is released."""
        self._card.set_desktop_control(on)
        self._redraw()

    def note_keyboard(self) -> None:
        """Disarm at once when another window gets the keyboard; arm from the start when this one has it."""
        self._card.note_console(self._state.clock())
        self._redraw()

    def rearm(self) -> None:
        """Arm the screen anew, because the console or its terminal stood still."""
        self._card.rearm()
        self._redraw()
        self.call_after_refresh(self._tick)

    def on_screen_suspend(self) -> None:
        """Disarm, because another screen covers this one and the question cannot be read."""
        self._card.cover()

    def on_screen_resume(self) -> None:
        """Paint the lines again, so that the screen is armed like a new one."""
        self._card.repaint()
        self.call_after_refresh(self._tick)

    def on_resize(self) -> None:
        """Disarm, because other lines may be on screen at the new size."""
        # Until the next tick the lines would count as read at the old size; a key in between must not
        # approve.
        self._card.cover()
        self.call_after_refresh(self._tick)

    def on_paste(self, event: events.Paste) -> None:
        """Drop pasted text, and count it as a key press for the quiet time before an approval."""
        event.stop()
        if not self._passed_on(event):
            self._card.note_key(self._state.press_time(event))

    def on_key(self, event: events.Key) -> None:
        """Handle every key but those of a text field. No key bubbles up to the screen below or to the app."""
        key = key_of(event)
        if self._belongs_to_field(key):
            return
        event.stop()
        event.prevent_default()
        if self._passed_on(event):
            return
        note_loop(self.app)
        # The time of the press, not of its handling: a busy loop must not make a fast key look like a late
        # one.
        now = self._state.press_time(event)
        if self._sending:
            self._card.note_key(now)
        elif action := self._elsewhere(key):
            self._card.note_key(now)
            self.app.call_later(self.app.run_action, action)
        else:
            self._handle_key(key, now)
        self._redraw()

    def _elsewhere(self, key: str) -> str:
        """The action of the application that shows another screen at this key; `""` where there is none. The
        question is left as it is."""
        if self.has_fields or key in self._own_keys():
            return ""
        return next(
            (action for name, action in GO_ACTIONS.items() if key in self._state.keys.keys_for(name)), ""
        )

    def _own_keys(self) -> frozenset[str]:
        """The keys that a person has given to the actions of a card."""
        keys = self._state.keys
        return frozenset(
            key for name in keys.overrides if name.startswith("card.") for key in keys.keys_for(name)
        )

    def _passed_on(self, event: events.Key | events.Paste) -> bool:
        """Whether another screen is on top, which then gets the key where it was typed for that screen."""
        # A busy loop hands several keys to this screen before it handles the first, which may open a form.
        top = self.app.screen
        if top is self:
            return False
        if isinstance(top, ScreenTraits) and top.takes_typeahead:
            pass_key(top, event)
        return True

    def _belongs_to_field(self, key: str) -> bool:
        """Whether the key goes to a text field of this screen. A screen without one has no such key."""
        return False

    def _handle_key(self, key: str, now: float) -> None:
        """Handle a key that was pressed at `now`, on the console's clock, while no answer is being sent."""
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
        """Scroll where `key` is one that scrolls, and record what comes on screen without waiting for the
        timer. Return whether it scrolled."""
        scrolled = self._card.scroll_by(key)
        if scrolled:
            self.call_after_refresh(self._tick)
        return scrolled

    def _approval(self) -> Coroutine[Any, Any, None] | None:
        """The coroutine that sends the approval of all that is shown; None where nothing can be approved."""
        raise NotImplementedError

    def _start_sending(self, sending: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine that sends an answer. Keys do nothing until it has ended."""
        # Set before the worker starts: a second key in the same turn of the loop must not start another one.
        self._sending = True
        self.run_worker(self._finish_sending(sending), group="decide")
        self._redraw()

    async def _finish_sending(self, sending: Coroutine[Any, Any, None]) -> None:
        try:
            await sending
        finally:
            self._sending = False
        self._redraw()

    def _use_root(self, state: ConsoleState) -> None:
        """Be about that root from now on: its header, and whether this console may decide there."""
        self._state = state
        self._card.use_root(state)

    def _show_question(self, arming: ArmingState) -> None:
        """Show another question, which has to be read and is armed from the start."""
        self._card.show_question(arming)
        self._redraw()
        self.call_after_refresh(self._tick)

    def _tick(self) -> None:
        self._card.note_painted()
        if self._passing() != self._drawn_keys:
            self._redraw()
        elif int(self._state.now()) != self._drawn_at:
            self._redraw("#header, #card-title")

    def _passing(self) -> tuple[object, ...]:
        """Everything about the keys that changes by the passing of time alone."""
        now, arming = self._state.clock(), self._card.arming
        return arming, arming.blocked_reason(now), arming.confirm_open(now)

    def _redraw(self, bars: str = "LineBar") -> None:
        self._drawn_at, self._drawn_keys = int(self._state.now()), self._passing()
        for bar in self.query(bars).results(LineBar):
            bar.redraw()

    def _title_lines(self, width: int) -> Sequence[StyledLine]:
        """The lines above the question that say what it is about."""
        raise NotImplementedError

    def _body_lines(self, width: int) -> Sequence[StyledLine]:
        """The lines that a person has to read before the decision."""
        raise NotImplementedError

    def _required_rows(self) -> frozenset[int]:
        """The indexes of the lines that have to be read before an approval, at the width that they were last
        built for. A screen without an input has none."""
        return frozenset()

    def _key_lines(self, width: int) -> Sequence[StyledLine]:
        """The lines that say whether the keys are armed, and what each key does."""
        raise NotImplementedError

    def _readiness(self) -> StyledText:
        """Text that says whether the approve key is armed, or why it is not."""
        return readiness(self._card.arming, self._state.clock(), margin=1)


def pages_of(rows: frozenset[int], height: int) -> int:
    """How many pages of `height` lines show all of these lines."""
    pages, shown_to = 0, -1
    for row in sorted(rows):
        if row > shown_to:
            pages, shown_to = pages + 1, row + height - 1
    return pages


def key_lines_with_state(state: StyledText, pairs: Sequence[tuple[str, str]], width: int) -> list[StyledLine]:
    """The state as wrapped lines and, below it, the keys with what each does."""
    return [*wrap(line(state), width, 1), *wrap(keys_line(pairs), width, 1)]
