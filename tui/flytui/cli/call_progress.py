"""How far a call is, on standard error: one line written anew on a terminal, else lines now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from flycore.model.call import Progress
from flycore.model.enums import Phase
from flysafe.text import safe_text
from flytui.cli.call_text import bar, elapsed_text, share_of
from flytui.cli.output import discard, dumb, print_error
from flytui.text.wrap import cell_width

TICK_S = 0.5
"""Between two looks at the clock."""
PACE_S = 5.0
"""Between two lines about a running call where lines stay: a log must not be filled."""
WAIT_PACE_S = 30.0
"""Between two lines that say that it still waits."""
REWRITE_S = 0.1
QUIET_S = 1.0
"""A call that is over sooner shows nothing."""
WAITING = {
    Phase.WAITING_APPROVAL: "waiting for approval in the console",
    Phase.WAITING_GROUP: "waiting until another call leaves",
}
NO_CONSOLE = "waiting for a console to open (flytui)"
ERASE = "\r\x1b[2K"
Clock = Callable[[], float]
"""Seconds, monotonic."""


class CallState:
    """Where a call stands, and since when. `for_console`: it may wait for a console to open."""

    def __init__(self, tool: str, *, for_console: bool, clock: Clock) -> None:
        self.tool = tool
        self.progress = Progress(call_id="", phase=Phase.CHECKING)
        self.waits = False
        """Whether it waits for somebody or something else."""
        self._for_console = for_console
        self._clock = clock
        self._since = clock()

    def take(self, progress: Progress) -> bool:
        """The newest step; whether it is another phase."""
        another = progress.phase is not self.progress.phase
        if another:
            self._since = self._clock()
        self.progress = progress
        self.waits = progress.phase in WAITING
        return another

    @property
    def seconds_in_phase(self) -> float:
        """Seconds in this phase."""
        return self._clock() - self._since

    def waiting_for(self) -> str:
        """What it waits for; empty where it does not."""
        known = WAITING.get(self.progress.phase, "")
        opens = (
            self._for_console and self.progress.phase is Phase.CHECKING and self.seconds_in_phase >= QUIET_S
        )
        return known or (NO_CONSOLE if opens else "")


class ProgressLine:
    """One line of the terminal, drawn anew; gone when the call has ended."""

    def __init__(self, stand: CallState, width: Callable[[], int], clock: Clock) -> None:
        self._stand, self._width, self._clock = stand, width, clock
        self._drawn_at, self._begun, self._drawn = float("-inf"), clock(), False

    def show(self, progress: Progress) -> None:
        """A step has come."""
        another = self._stand.take(progress)
        if another or self._clock() - self._drawn_at >= REWRITE_S:
            self.tick()

    def tick(self) -> None:
        """Draw, now that time has passed."""
        if not self._stand.waits and self._clock() - self._begun < QUIET_S:
            return
        self._drawn_at, self._drawn = self._clock(), True
        _write(ERASE + cut(line_of(self._stand), self._width() - 1))

    def end(self) -> None:
        """Take the line away."""
        if self._drawn:
            _write(ERASE)


class ProgressLog:
    """Lines that stay: what it waits for at once and every WAIT_PACE_S, how far it is every PACE_S."""

    def __init__(self, stand: CallState, clock: Clock) -> None:
        self._stand, self._clock = stand, clock
        self._last, self._told_at = "", clock()
        self._waited = False

    def show(self, progress: Progress) -> None:
        """A step has come."""
        another = self._stand.take(progress)
        if another and self._waited and progress.phase is Phase.RUNNING:
            self._print_once("running")
        if another and self._stand.waits:
            self._waited = True
            self._print_once(self._stand.waiting_for())
        elif not self._stand.waits and self._clock() - self._told_at >= PACE_S:
            self._print_once(progress_text(progress))

    def tick(self) -> None:
        """Time has passed."""
        waiting_for = self._stand.waiting_for()
        if not waiting_for:
            return
        first = not self._stand.waits and not self._waited
        if first or self._clock() - self._told_at >= WAIT_PACE_S:
            self._waited = True
            self._print_once(
                f"{waiting_for}, {self._stand.seconds_in_phase:.0f} s" if not first else waiting_for
            )

    def end(self) -> None:
        """Nothing of it is taken away."""

    def _print_once(self, text: str) -> None:
        if text and text != self._last:
            self._last, self._told_at = text, self._clock()
            print_error(f"{self._stand.tool}: {text}")


ProgressDisplay = ProgressLine | ProgressLog


def progress_display(tool: str, *, plain: bool, for_console: bool) -> ProgressDisplay:
    """The one that fits standard error: a line is written anew only where the cursor can be moved."""
    stand = CallState(tool, for_console=for_console, clock=time.monotonic)
    if plain or dumb() or not sys.stderr.isatty():
        return ProgressLog(stand, time.monotonic)
    return ProgressLine(stand, _width, time.monotonic)


@asynccontextmanager
async def show_progress(told: ProgressDisplay) -> AsyncIterator[Callable[[Progress], None]]:
    """Tell while the block runs; gives what takes the call's steps."""
    import anyio

    async def ticking() -> None:
        while True:
            await anyio.sleep(TICK_S)
            told.tick()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(ticking)
            yield told.show
            group.cancel_scope.cancel()
    finally:
        told.end()


def progress_text(progress: Progress) -> str:
    """Share and message; empty where the tool says neither."""
    share = share_of(progress)
    return " ".join(part for part in ("" if share is None else f"{share:.0%}", progress.message) if part)


def line_of(stand: CallState) -> str:
    """The line of a terminal: what it waits for, or bar, share and message; how long, behind it."""
    waiting_for = stand.waiting_for()
    if waiting_for:
        return safe_text(f"{stand.tool}: {waiting_for}, {stand.seconds_in_phase:.0f} s")
    share = share_of(stand.progress)
    drawn = "" if share is None else f"{bar(share)} "
    doing = progress_text(stand.progress) or stand.progress.phase.value
    return safe_text(f"{stand.tool}: {elapsed_text(stand.seconds_in_phase)} {drawn}{doing}")


def cut(text: str, room: int) -> str:
    """At most `room` cells of a safe text: a line that wraps could not be taken away again."""
    if cell_width(text) <= room:
        return text
    kept = ""
    for character in text:
        if cell_width(kept + character) > room - 1:
            break
        kept += character
    return f"{kept}…"


def _write(text: str) -> None:
    """A terminal that is gone takes nothing, and ends no call by that."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def _width() -> int:
    """Cells of the terminal on standard error."""
    import os

    try:
        return max(os.get_terminal_size(sys.stderr.fileno()).columns, 20)
    except OSError:
        return 80
