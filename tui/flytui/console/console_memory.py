"""What the console remembers for the person between two starts, whatever the root: the theme that they chose,
and how many of the first notes they have dismissed."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import msgspec

from flycore.store.json_store import Store

MAX_BYTES = 65_536
"""The most bytes of the file that are read."""
FIRST_NOTES = (
    "WHY says what is wrong and what to do; Enter shows more",
    "a risky call waits in 2 Approvals until you press a",
    "F does the fix that a row names, t calls a tool by hand",
    "? finds every key; q leaves and says first what would end",
)
"""The notes of the first start, one line each."""


class Remembered(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The contents of the file."""

    theme: str = ""
    """The theme that was chosen in the palette; empty for none."""
    theme_instead_of: str = ""
    """The theme of the person's settings at that time. Where they have set another one since, that counts."""
    notes: int = 0
    """How many of the first notes were dismissed."""


ALL_DISMISSED = Remembered(notes=len(FIRST_NOTES))


class ConsoleMemory:
    """The values of the file. Without a file nothing is kept, and no notes are shown."""

    def __init__(self, file: Path | None = None) -> None:
        # A file that something damaged counts as absent: the console begins anew.
        default = ALL_DISMISSED if file is None else Remembered()
        self._store = Store(file, Remembered, default, MAX_BYTES, fault=_fault)
        self._values = self._store.value

    def theme(self, of_settings: str) -> str:
        """The theme to begin with, given that of the person's settings."""
        values = self._values
        chosen = values.theme and values.theme_instead_of == of_settings
        return values.theme if chosen else of_settings

    @property
    def note(self) -> str:
        """The note to show, such as `1/4  …`; `""` where all were dismissed."""
        at = self._values.notes
        return f"{at + 1}/{len(FIRST_NOTES)}  {FIRST_NOTES[at]}" if 0 <= at < len(FIRST_NOTES) else ""

    def choose_theme(self, name: str, of_settings: str) -> None:
        """Remember a theme that the person chose. `save` keeps it."""
        self._values = msgspec.structs.replace(self._values, theme=name, theme_instead_of=of_settings)

    def dismiss_note(self) -> None:
        """Go to the next note. `save` keeps that."""
        self._values = msgspec.structs.replace(self._values, notes=self._values.notes + 1)

    async def save(self) -> str:
        """Write the file, in a thread. Return why that was not possible; `""` where it was."""
        why = await anyio.to_thread.run_sync(self._store.replace, self._values)
        return f"not kept for the next start: {why}" if why else ""


def _fault(values: Remembered) -> str:
    return "" if values.notes >= 0 else "its number of notes is negative"
