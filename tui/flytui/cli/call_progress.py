"""Shows the progress of a call on standard error.

On a terminal one line is drawn again and again. Elsewhere a line is printed from time to time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from flycore.model.call import Progress
from flycore.model.enums import Phase
from flysafe.text import safe_text
from flytui.cli.call_text import bar, share_of
from flytui.cli.output import discard, print_error
from flytui.supervisor.console_arguments import is_dumb_terminal
from flytui.text.labels import duration
from flytui.text.wrap import cell_width

TICK_S = 0.5
"""Seconds between two looks at the clock."""
PACE_S = 5.0
"""Seconds between two lines about a running call where lines stay, so that a log is not filled."""
WAIT_PACE_S = 30.0
"""Seconds between two lines that the call still waits."""
REWRITE_S = 0.1
"""Seconds between two drawings of the line within one phase."""
QUIET_S = 1.0
"""Seconds. A call that ends sooner shows nothing."""
WAITING = {
    Phase.WAITING_APPROVAL: "waiting for approval in the console",
    Phase.WAITING_GROUP: "waiting until another call leaves",
}
NO_CONSOLE = "waiting for a console to open (flytui)"
ERASE = "\r\x1b[2K"
"""Moves to the beginning of the line and erases it."""
Clock = Callable[[], float]
"""Seconds, monotonic."""


class CallState:
    """The latest progress of a call, and how long it has been in its phase. `for_console` says that the call
    may wait for a console to open."""

    def __init__(self, tool: str, *, for_console: bool, clock: Clock) -> None:
        self.tool = tool
        self.progress = Progress(call_id="", phase=Phase.CHECKING)
        self.waits = False
        """Whether the call waits for a person or for another call."""
        self._for_console = for_console
        self._clock = clock
        self._since = clock()

    def update(self, progress: Progress) -> bool:
        """Keep the newest progress. Returns whether the phase changed."""
        another = progress.phase is not self.progress.phase
        if another:
            self._since = self._clock()
        self.progress = progress
        self.waits = progress.phase in WAITING
        return another

    @property
    def seconds_in_phase(self) -> float:
        """Seconds since the current phase began."""
        return self._clock() - self._since

    def waiting_for(self) -> str:
        """What the call waits for; empty where it does not wait."""
        known = WAITING.get(self.progress.phase, "")
        # Nothing tells that no console is open. A check that takes so long is one that waits for it.
        no_console = (
            self._for_console and self.progress.phase is Phase.CHECKING and self.seconds_in_phase >= QUIET_S
        )
        return known or (NO_CONSOLE if no_console else "")


class ProgressLine:
    """Draws the progress on one line of the terminal, and erases it when the call has ended."""

    def __init__(
        self, call: CallState, width: Callable[[], int], clock: Clock, begun: float | None = None
    ) -> None:
        self._call, self._width, self._clock = call, width, clock
        self._started_at = clock() if begun is None else begun
        self._drawn_at, self._drawn = float("-inf"), False

    def show(self, progress: Progress) -> None:
        """Show a new progress. It is drawn at once where the phase changed, otherwise not too often."""
        another = self._call.update(progress)
        if another or self._clock() - self._drawn_at >= REWRITE_S:
            self.tick()

    def tick(self) -> None:
        """Draw the line again, since time has passed."""
        if not self._call.waits and self._clock() - self._started_at < QUIET_S:
            return
        self._drawn_at, self._drawn = self._clock(), True
        _write(ERASE + cut_to_width(call_state_line(self._call), self._width() - 1))

    def end(self) -> None:
        """Erase the line."""
        if self._drawn:
            _write(ERASE)


class ProgressLog:
    """Prints lines that stay: what the call waits for at once and every WAIT_PACE_S, its progress every
    PACE_S."""

    def __init__(self, call: CallState, clock: Clock) -> None:
        self._call, self._clock = call, clock
        self._last, self._printed_at = "", clock()
        self._waited = False

    def show(self, progress: Progress) -> None:
        """Print a new progress where the phase changed or enough time has passed."""
        another = self._call.update(progress)
        if another and self._waited and progress.phase is Phase.RUNNING:
            self._print_once("running")
        if another and self._call.waits:
            self._waited = True
            self._print_once(self._call.waiting_for())
        elif not self._call.waits and self._clock() - self._printed_at >= PACE_S:
            self._print_once(progress_text(progress))

    def tick(self) -> None:
        """Print that the call still waits, where enough time has passed."""
        waiting_for = self._call.waiting_for()
        if not waiting_for:
            return
        first = not self._call.waits and not self._waited
        if first or self._clock() - self._printed_at >= WAIT_PACE_S:
            self._waited = True
            self._print_once(
                f"{waiting_for}, {self._call.seconds_in_phase:.0f} s" if not first else waiting_for
            )

    def end(self) -> None:
        """Leave the printed lines as they are."""

    def _print_once(self, text: str) -> None:
        if text and text != self._last:
            self._last, self._printed_at = text, self._clock()
            print_error(f"{self._call.tool}: {text}")


ProgressDisplay = ProgressLine | ProgressLog


def progress_display(
    tool: str, *, plain: bool, for_console: bool, begun: float | None = None
) -> ProgressDisplay:
    """The display that fits standard error: one line where the cursor can be moved, otherwise lines that
    stay. `begun` is when the call began, on the monotonic clock, where that was before."""
    call = CallState(tool, for_console=for_console, clock=time.monotonic)
    if plain or is_dumb_terminal() or not sys.stderr.isatty():
        return ProgressLog(call, time.monotonic)
    return ProgressLine(call, _width, time.monotonic, begun)


@asynccontextmanager
async def show_progress(display: ProgressDisplay) -> AsyncIterator[Callable[[Progress], None]]:
    """Show the progress while the block runs. Yields the function that takes each progress."""

    async def tick_forever() -> None:
        while True:
            await anyio.sleep(TICK_S)
            display.tick()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(tick_forever)
            yield display.show
            group.cancel_scope.cancel()
    finally:
        display.end()


def progress_text(progress: Progress) -> str:
    """The share done and the message; empty where the tool reports neither."""
    share = share_of(progress)
    return " ".join(part for part in ("" if share is None else f"{share:.0%}", progress.message) if part)


def call_state_line(call: CallState) -> str:
    """The line for a terminal: what the call waits for and for how long, or its time, bar, share and
    message."""
    waiting_for = call.waiting_for()
    if waiting_for:
        return safe_text(f"{call.tool}: {waiting_for}, {call.seconds_in_phase:.0f} s")
    share = share_of(call.progress)
    drawn = "" if share is None else f"{bar(share)} "
    doing = progress_text(call.progress) or call.progress.phase.value
    return safe_text(f"{call.tool}: {duration(call.seconds_in_phase)} {drawn}{doing}")


def cut_to_width(text: str, room: int) -> str:
    """At most `room` cells of a safe text."""
    # ERASE erases one row. A line that wraps to a second one would leave the first one behind.
    if cell_width(text) <= room:
        return text
    kept = ""
    for character in text:
        if cell_width(kept + character) > room - 1:
            break
        kept += character
    return f"{kept}…"


def _write(text: str) -> None:
    """Write to standard error. A terminal that was closed does not end the call."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def _width() -> int:
    """The width of the terminal on standard error, in cells."""
    try:
        return max(os.get_terminal_size(sys.stderr.fileno()).columns, 20)
    except OSError:
        return 80
