"""The terminal that may go away: writing to it never fails, so that whoever draws is never held up.

Textual writes from a thread of its own. Were that thread to end with an error, the queue before it would
fill, and the next write would stop the event loop for good, the kernel on it included.
"""

from __future__ import annotations

from typing import Any, TextIO, cast

from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver


class Lasting:
    """A terminal's output; what a terminal that is gone does not take is dropped."""

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner

    def write(self, text: str) -> int:
        """Write, or drop."""
        try:
            return self._inner.write(text)
        except (OSError, ValueError):
            return 0

    def flush(self) -> None:
        """Hand over what was written, or drop it."""
        try:
            self._inner.flush()
        except (OSError, ValueError):
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class LastingDriver(LinuxDriver):
    """Textual's driver for a terminal that may go away."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._away = False
        if self._file is not None:
            self._file = cast(Any, Lasting(self._file))

    def suspend_application_mode(self) -> None:
        """Give the terminal back for a while."""
        self._away = True
        super().suspend_application_mode()

    def resume_application_mode(self) -> None:
        """Take the terminal again, after it was given back. CONT comes at other times, too: a terminal that
        closes sends it, and taken for a return it would start a second reader, which nobody ends."""
        if self._away:
            self._away = False
            super().resume_application_mode()


def lasting(found: type[Driver]) -> type[Driver]:
    """The driver to use where Textual would use `found`."""
    return LastingDriver if found is LinuxDriver else found
