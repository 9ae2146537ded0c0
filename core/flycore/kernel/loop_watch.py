"""The watchdog of the event loop: notes each time that the loop stood still, and where in the program.

Between two waits for events the loop runs what is ready. How long that took is measured where the loop waits.
A thread looks at the loop's stack meanwhile, which names the place. It sleeps while the loop has nothing to
do, so that an idle kernel stays idle.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec

LONG_PAUSE_SECONDS = 0.1
"""A pause that is noted."""
SAMPLE_SECONDS = 0.04
"""How often the stack is looked at, so that a pause that is noted was seen twice."""
DENSE_SECONDS = 0.02
"""Two turns of the loop that follow each other within this time mean that it is busy."""
MOST_PAUSES = 20
"""Pauses that are kept, the latest ones."""
NOT_SEEN = "a place that was not seen"
_OURS = ("flycore", "flysafe", "flytui")


class LoopPause(msgspec.Struct, frozen=True):
    """One time that the loop stood still."""

    at: float
    """Unix time in seconds, at its end."""
    milliseconds: int
    place: str
    """Module and function, such as `flycore.audit.log.append`."""


class LoopWatch:
    """The pauses of one event loop. Only the loop's own thread and the sampling thread write to it."""

    def __init__(self) -> None:
        self.count = 0
        """How many pauses there were."""
        self.longest_ms = 0
        self.pauses: deque[LoopPause] = deque(maxlen=MOST_PAUSES)
        self._thread = threading.get_ident()
        self._turn_began: float | None = None
        self._turn_ended = 0.0
        self._place = ""
        self._busy = threading.Event()
        self._ended = False

    @property
    def latest(self) -> str:
        """The latest pause in words; empty where there was none."""
        if not self.pauses:
            return ""
        pause = self.pauses[-1]
        return f"{pause.milliseconds} ms in {pause.place}"

    def begin_turn(self) -> None:
        """The loop begins to run what is ready."""
        now = time.monotonic()
        dense = self._turn_ended + DENSE_SECONDS > now
        self._place, self._turn_began = "", now
        if dense and not self._busy.is_set():
            self._busy.set()

    def end_turn(self) -> None:
        """The loop is about to wait for events."""
        began, self._turn_began = self._turn_began, None
        if began is None:
            return
        self._turn_ended = now = time.monotonic()
        if now - began >= LONG_PAUSE_SECONDS:
            milliseconds = round((now - began) * 1000)
            self.count += 1
            self.longest_ms = max(self.longest_ms, milliseconds)
            self.pauses.append(LoopPause(time.time(), milliseconds, self._place or NOT_SEEN))

    def run(self) -> None:
        """Sample the loop's stack until `end` is called. Runs in a thread of its own."""
        while not self._ended:
            self._busy.wait()
            time.sleep(SAMPLE_SECONDS)
            began = self._turn_began
            if began is None:
                if time.monotonic() - self._turn_ended > SAMPLE_SECONDS:
                    self._busy.clear()
            elif time.monotonic() - began >= SAMPLE_SECONDS:
                place = place_of(sys._current_frames().get(self._thread))
                # The turn may have ended meanwhile; then the place is that of another one.
                if self._turn_began == began:
                    self._place = place

    def end(self) -> None:
        """End the sampling thread."""
        self._ended = True
        self._busy.set()


def place_of(frame: FrameType | None) -> str:
    """Return the innermost function of this distribution in a stack, else the innermost of all."""
    innermost = frame
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in _OURS and module != __name__:
            return f"{module}.{frame.f_code.co_name}"
        frame = frame.f_back
    if innermost is None:
        return NOT_SEEN
    return f"{innermost.f_globals.get('__name__', '')}.{innermost.f_code.co_name}"


@contextmanager
def watch_loop() -> Iterator[LoopWatch]:
    """Watch the running event loop while the block runs."""
    watch = LoopWatch()
    # The loop's selector is where it waits. It is private to asyncio, and a loop of another kind has none:
    # such a loop is not watched.
    selector: Any = getattr(asyncio.get_running_loop(), "_selector", None)
    if selector is None:
        yield watch
        return
    before: Callable[[float | None], Any] = selector.select

    def select(timeout: float | None = None) -> Any:
        watch.end_turn()
        try:
            return before(timeout)
        finally:
            watch.begin_turn()

    selector.select = select
    thread = threading.Thread(target=watch.run, name="flytui loop watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.end()
        # Another watch may have come after this one; then this one goes with the loop.
        if selector.select is select:
            selector.select = before
        thread.join()
