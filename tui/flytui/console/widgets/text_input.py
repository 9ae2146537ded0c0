"""Text fields that keep every key in order, and the modal screen that holds such a field."""

from __future__ import annotations

from typing import TypeVar

from textual import events
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input

from flysafe.text import safe_text
from flytui.console.screens.base import ScreenTraits, copy_of

LOOK_AGAIN_S = 0.01
"""Seconds until a new screen looks again whether the screens below it have handled their events."""
MARKS_BEFORE = 4
"""How many characters before a change are looked at: more than one letter may have combining marks."""
FULL_LETTER = "e\u0301\u0302"
"""A letter with as many marks as it may have. The end of a token stands for one: it may be a mark's."""


class FilterInput(Input):
    """A text field for a filter or a jump. Characters that cannot be seen are replaced by visible tokens."""

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a part of the text by safe text. Textual inserts typed and pasted text only through
        this."""
        # Pasted text may arrive character by character, and of combining marks only the number on one letter
        # makes them unsafe: the new text is judged together with what stands before it.
        before = self.value[max(0, min(start, end) - MARKS_BEFORE) : min(start, end)]
        before = FULL_LETTER if before.endswith("⟧") else before
        kept, whole = safe_text(before), safe_text(before + text)
        safe = whole[len(kept) :] if whole.startswith(kept) else safe_text(text)
        super().replace(safe, start, end)
        # Textual does not follow the cursor at the first change of a field, so that the end of a long paste
        # would stay out of sight. A move of the cursor is followed.
        position, self.cursor_position = self.cursor_position, 0
        self.cursor_position = position

    def on_paste(self, event: events.Paste) -> None:
        """Insert the first line that has text. Textual takes the very first one, which is often empty."""
        event.prevent_default()
        event.stop()
        line = next((line for line in event.text.splitlines() if line.strip()), "")
        self.replace(line, *self.selection)


T = TypeVar("T")


class OrderedKeys(Widget):
    """A text field that handles its own keys in the order in which they were pressed."""

    async def on_key(self, event: events.Key) -> None:
        """Run the field's own binding of the key; the field itself handles letters."""
        # Without this, Textual passes a key such as backspace up to the app first, and letters that were
        # typed after it reach the field before it.
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            event.stop()
            event.prevent_default()
            await self.run_action(binding.action)


class TypeaheadScreen(ScreenTraits, ModalScreen[T]):
    """A modal screen with one text field, which gets all keys from the moment the screen is on top. Priority
    bindings act at once, as everywhere.

    Textual mounts the widgets of a new screen a moment after the screen is on top. It sends the keys of that
    moment to the screen, where they would be lost; this class keeps them and passes them to the field. Keys
    that were typed at once after the one that opened the screen may have reached the screen below, which
    passes them here.
    """

    AUTO_FOCUS = ""
    takes_typeahead = True
    has_fields = True

    def __init__(self, field: Widget) -> None:
        super().__init__()
        self._field = field
        self._kept_events: list[events.Key | events.Paste] = []

    def on_mount(self) -> None:
        """Give the field the focus, after every event that is already on its way to the screen."""
        self.call_later(self._focus_field)

    def on_key(self, event: events.Key) -> None:
        """Keep keys that came before the field had the focus."""
        if self.focused is None:
            event.stop()
            self._kept_events.append(copy_of(event))

    def on_paste(self, event: events.Paste) -> None:
        """Keep a paste that came before the field had the focus."""
        if self.focused is None:
            event.stop()
            self._kept_events.append(copy_of(event))

    def _focus_field(self) -> None:
        """Give the field the focus, and pass it the kept events."""
        # Events that wait in the queue, here or at a screen below, were typed before those that will go to
        # the field directly.
        if any(screen.message_queue_size for screen in self.app.screen_stack):
            # By a timer and not at once: this screen takes its messages without a pause while it has any, so
            # that a callback which comes back by itself would keep the screens below from handling theirs.
            self.set_timer(LOOK_AGAIN_S, self._focus_field)
            return
        self.set_focus(self._field)
        for event in sorted(self._kept_events, key=lambda event: event.time):
            self._field._forward_event(event)
        self._kept_events.clear()
