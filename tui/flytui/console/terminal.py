"""Output to a terminal that may close or stop reading, without ever blocking the event loop; and the lending
of the terminal to another program.

Textual writes from a thread of its own, which has a short queue. If that thread ended with an error, or
waited for a stalled connection, the queue would fill and the next write would block the event loop and the
kernel that runs on it. Text that a terminal does not read is therefore buffered here up to `MAX_BUFFERED`,
then dropped, and the whole screen is drawn again once the terminal reads on.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TextIO, cast

from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

from flytui.console.state import ALL_TOPICS, ConsoleState, Topic

MAX_BUFFERED = 4 * 1024 * 1024
"""The most characters that are kept for a terminal that does not read."""
CLOSE_TIMEOUT_S = 2.0
"""Seconds that the application waits at its end for the terminal to read what was written last."""


class NonBlockingOutput:
    """A terminal's output stream whose `write` never raises and never blocks. A thread does the writing."""

    def __init__(self, inner: TextIO, on_resumed: Callable[[], None]) -> None:
        self._inner = inner
        self._on_resumed = on_resumed
        self._texts: deque[str] = deque()
        self._kept_characters = 0
        self._dropped = False
        self._writing = False
        self._changed = threading.Condition()
        threading.Thread(target=self._write_loop, name="flytui-terminal", daemon=True).start()

    @property
    def unread(self) -> bool:
        """Whether the terminal has not yet read everything that was drawn."""
        with self._changed:
            return self._writing or bool(self._texts) or self._dropped

    def write(self, text: str) -> int:
        """Buffer the text for the writing thread, or drop it where the buffer is full."""
        with self._changed:
            # After a gap, later text would be drawn over a screen that lacks a part. So all of it is dropped
            # until the buffer is empty and the whole screen is drawn again.
            self._dropped = self._dropped or self._kept_characters + len(text) > MAX_BUFFERED
            if not self._dropped:
                self._texts.append(text)
                self._kept_characters += len(text)
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes what is buffered."""

    def drain(self) -> None:
        """Wait at most `CLOSE_TIMEOUT_S` until the terminal has read what is buffered."""
        with self._changed:
            self._changed.wait_for(lambda: not self._texts and not self._writing, CLOSE_TIMEOUT_S)

    def _write_loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._texts))
                text = "".join(self._texts)
                self._texts.clear()
                self._writing = True
            # Outside the lock: `write`, called by the event loop, must never wait for a stalled terminal.
            self._write_out(text.encode("utf-8", "replace"))
            with self._changed:
                self._writing = False
                self._kept_characters = sum(map(len, self._texts))
                again, self._dropped = self._dropped and not self._texts, self._dropped and bool(self._texts)
                self._changed.notify_all()
            if again:
                self._on_resumed()

    def _write_out(self, data: bytes) -> None:
        """Write to the file descriptor. A terminal that is gone is not an error."""
        # Not to the stream: its buffer has a lock, which would be held for as long as the terminal stalls.
        try:
            while data:
                data = data[os.write(self._inner.fileno(), data) :]
        except (OSError, ValueError):
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class NonBlockingDriver(LinuxDriver):
    """Textual's Linux driver for a terminal that may close or stop reading."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._suspended = False
        self._output: NonBlockingOutput | None = None
        if self._file is not None:
            self._output = NonBlockingOutput(self._file, self._draw_again)
            self._file = cast(Any, self._output)

    @property
    def unread(self) -> bool:
        """Whether the terminal has not yet read everything that was drawn."""
        return self._output is not None and self._output.unread

    def close(self) -> None:
        """Close the driver, and wait at most `CLOSE_TIMEOUT_S` for the terminal to read what is left."""
        super().close()
        if self._output is not None:
            self._output.drain()

    def _draw_again(self) -> None:
        """Draw the whole screen, because a part of what was drawn never reached the terminal."""
        # Called by the writing thread, and possibly after the application has ended.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: self._app.refresh(layout=True))

    def suspend_application_mode(self) -> None:
        """Give the terminal back until `resume_application_mode`."""
        self._suspended = True
        super().suspend_application_mode()

    def resume_application_mode(self) -> None:
        """Take the terminal again, where it was given back."""
        # Textual calls this on SIGCONT, which also comes when a terminal closes. Without the check a second
        # thread would start to read the terminal, and nothing would ever end it.
        if self._suspended:
            self._suspended = False
            super().resume_application_mode()


def non_blocking_driver(found: type[Driver]) -> type[Driver]:
    """The driver class to use where Textual would use `found`."""
    return NonBlockingDriver if found is LinuxDriver else found


def has_undrawn_output(app: App[Any]) -> bool:
    """Whether the last frame has not reached the person's terminal, so that nobody can have seen it."""
    return isinstance(app._driver, NonBlockingDriver) and app._driver.unread


async def suspend_for(
    app: App[None],
    state: ConsoleState,
    run_program: Callable[[], Awaitable[None]],
    on_return: Callable[[frozenset[Topic]], Awaitable[None]],
) -> None:
    """Lend the terminal to `run_program` until it ends, then call `on_return` with all topics. Everything but
    drawing goes on meanwhile. Raises SuspendNotSupported where the terminal cannot be lent."""
    state.suspended = True
    try:
        with app.batch_update(), app.suspend():
            await run_program()
    finally:
        state.suspended = False
        # The person's last keys went to the other program, so nothing may open or be approved by the next
        # ones.
        state.last_key = state.clock()
    await on_return(ALL_TOPICS)
