"""The terminal that may go away, or not be read for a while: whoever draws is never held up by it.

Textual writes from a thread of its own, with a short queue before it. Were that thread to end with an error,
or to wait for a line that has stalled, the queue would fill and the next write would stop the event loop, the
kernel on it included. So what a terminal does not take is kept here up to a bound, then dropped, and the
whole screen is drawn again once the terminal reads on.
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
"""Characters kept for a terminal that does not read."""
CLOSE_TIMEOUT_S = 2.0
"""How long the end of the application waits for the terminal to take its last words."""


class NonBlockingOutput:
    """A terminal's output that never fails and never waits."""

    def __init__(self, inner: TextIO, caught_up: Callable[[], None]) -> None:
        self._inner = inner
        self._caught_up = caught_up
        self._texts: deque[str] = deque()
        self._kept = 0
        self._lost = False
        self._writing = False
        self._changed = threading.Condition()
        threading.Thread(target=self._write_loop, name="flytui-terminal", daemon=True).start()

    @property
    def unread(self) -> bool:
        """Whether the terminal has not yet taken everything that was drawn."""
        with self._changed:
            return self._writing or bool(self._texts) or self._lost

    def write(self, text: str) -> int:
        """Keep for writing; once too much is kept, drop until the terminal has taken it all."""
        with self._changed:
            self._lost = self._lost or self._kept + len(text) > MAX_BUFFERED
            if not self._lost:
                self._texts.append(text)
                self._kept += len(text)
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Nothing: what is kept is on its way."""

    def drain(self) -> None:
        """Give the terminal a moment to take what is kept."""
        with self._changed:
            self._changed.wait_for(lambda: not self._texts and not self._writing, CLOSE_TIMEOUT_S)

    def _write_loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._texts))
                text = "".join(self._texts)
                self._texts.clear()
                self._writing = True
            self._write_out(text.encode("utf-8", "replace"))
            with self._changed:
                self._writing = False
                self._kept = sum(map(len, self._texts))
                again, self._lost = self._lost and not self._texts, self._lost and bool(self._texts)
                self._changed.notify_all()
            if again:
                self._caught_up()

    def _write_out(self, data: bytes) -> None:
        """Past the stream's own buffer, whose lock would be held for as long as the terminal stalls."""
        try:
            while data:
                data = data[os.write(self._inner.fileno(), data) :]
        except (OSError, ValueError):
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class NonBlockingDriver(LinuxDriver):
    """Textual's driver for a terminal that may go away or stall."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._suspended = False
        self._output: NonBlockingOutput | None = None
        if self._file is not None:
            self._output = NonBlockingOutput(self._file, self._draw_again)
            self._file = cast(Any, self._output)

    @property
    def unread(self) -> bool:
        """Whether the terminal has not yet taken everything that was drawn."""
        return self._output is not None and self._output.unread

    def close(self) -> None:
        """Write the last words, for as long as the terminal takes them."""
        super().close()
        if self._output is not None:
            self._output.drain()

    def _draw_again(self) -> None:
        """Of what was drawn meanwhile something is missing on the terminal."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: self._app.refresh(layout=True))

    def suspend_application_mode(self) -> None:
        """Give the terminal back for a while."""
        self._suspended = True
        super().suspend_application_mode()

    def resume_application_mode(self) -> None:
        """Take the terminal again, after it was given back. CONT comes at other times, too: a terminal that
        closes sends it, and taken for a return it would start a second reader, which nobody ends."""
        if self._suspended:
            self._suspended = False
            super().resume_application_mode()


def non_blocking_driver(found: type[Driver]) -> type[Driver]:
    """The driver to use where Textual would use `found`."""
    return NonBlockingDriver if found is LinuxDriver else found


def has_undrawn_output(app: App[Any]) -> bool:
    """Whether what was drawn last has not reached the person's terminal: nothing of it has been seen."""
    return isinstance(app._driver, NonBlockingDriver) and app._driver.unread


# Lending the terminal to another program, and taking it back.


async def suspend_for(
    app: App[None],
    state: ConsoleState,
    play: Callable[[], Awaitable[None]],
    told: Callable[[frozenset[Topic]], Awaitable[None]],
) -> None:
    """Let `play` have the terminal to its end. Everything goes on meanwhile except drawing; what came up
    shows through `told` when the person is back, whose keys until then were the other program's."""
    state.suspended = True
    try:
        with app.batch_update(), app.suspend():
            await play()
    finally:
        state.suspended = False
        state.last_key = state.clock()
    await told(ALL_TOPICS)
