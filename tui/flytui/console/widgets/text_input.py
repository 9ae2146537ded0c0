"""The line in which words of a filter or a jump are written."""

from __future__ import annotations

from typing import TypeVar

from textual import events
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input

from flysafe.text import safe_text


class FilterInput(Input):
    """An Input whose text is its own `safe_text`: what is pasted and not drawn stands as tokens."""

    def replace(self, text: str, start: int, end: int) -> None:
        """Every way in which text is put in ends here."""
        super().replace(safe_text(text), start, end)


# Screens to write on that lose no key: what is typed before the field has the focus goes into it, in order.
#
# A screen is on top at once, its widgets exist a moment later. Textual hands keys of that moment to the
# screen, where they would end; here they are kept and handed on.


T = TypeVar("T")


class OrderedKeys(Widget):
    """A field whose own keys act where its letters do, in the order they were pressed. Otherwise Textual
    lets a key such as backspace wander up to the app first, and letters typed after it overtake it."""

    async def on_key(self, event: events.Key) -> None:
        """Letters go on to the field itself."""
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            event.stop()
            event.prevent_default()
            await self.run_action(binding.action)


class TypeaheadScreen(ModalScreen[T]):
    """A modal screen with one field to write in. Its priority bindings act at once, as everywhere."""

    AUTO_FOCUS = ""

    def __init__(self, field: Widget) -> None:
        super().__init__()
        self._field = field
        self._kept_events: list[events.Key | events.Paste] = []

    def on_mount(self) -> None:
        """The field gets the focus once nothing typed earlier is on its way here."""
        self.call_later(self._focus_field)

    def on_key(self, event: events.Key) -> None:
        """Only keys that came before the field had the focus, and those it has no use for."""
        if self.focused is None:
            event.stop()
            self._kept_events.append(events.Key(event.key, event.character))

    def on_paste(self, event: events.Paste) -> None:
        """As for keys."""
        if self.focused is None:
            event.stop()
            self._kept_events.append(events.Paste(event.text))

    def _focus_field(self) -> None:
        """What was kept goes to the field before anything that is typed from now on."""
        if self.message_queue_size:
            self.call_later(self._focus_field)
            return
        self.set_focus(self._field)
        for event in self._kept_events:
            self._field._forward_event(event)
        self._kept_events.clear()
