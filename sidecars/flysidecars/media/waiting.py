"""Progress while another program works."""

from __future__ import annotations

import time

from flysidecars.sdk import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_S = 2.0


def heartbeat(call: Call, words: str) -> Callable[[], None]:
    """What to ask while waiting: it says every 2 s for how many seconds the work goes on, and raises
    `Cancelled` where nobody waits for it any more."""
    began = told = time.monotonic()

    def beat() -> None:
        nonlocal told
        call.raise_if_cancelled()
        now = time.monotonic()
        if now - told >= EVERY_S:
            told = now
            call.progress(int(now - began), message=words)

    return beat
