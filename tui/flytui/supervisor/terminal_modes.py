"""The state of the terminal: recorded before a console draws, restored where one died without doing so."""

from __future__ import annotations

import os
import select
import termios
from contextlib import suppress
from typing import Any

RESTORE = (
    # Terminals keep the key modes of kitty for each screen, so they are taken back before the screen is left.
    "\x1b[<u"
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse
    "\x1b[?2004l\x1b[?1004l\x1b[?2048l\x1b[?2026l"  # paste, focus, size in band, synchronised output
    "\x1b[?7h\x1b[0m"  # line wrap, colours
    "\x1b[?1049l\x1b[?25h"  # alternate screen, cursor
    "\x1b[23;2t"  # title
)
"""What Textual and the console switched on, taken back. A terminal ignores what it does not know."""
WRITE_TIMEOUT_MS = 1000


class TerminalModes:
    """The attributes of the terminal on standard input, as they were when this was made."""

    def __init__(self) -> None:
        self._attributes: list[Any] | None = None
        with suppress(termios.error):
            self._attributes = termios.tcgetattr(0)

    def restore(self) -> None:
        """Restore screen, mouse, key modes, cursor and echo, and drop the keys that nobody read.

        It never blocks for long, and a terminal that is gone is not an error.
        """
        poll = select.poll()
        poll.register(2, select.POLLOUT)
        with suppress(OSError):
            # A terminal that does not read must not hold up the supervisor.
            if any(events & select.POLLOUT for _, events in poll.poll(WRITE_TIMEOUT_MS)):
                os.write(2, RESTORE.encode("ascii"))
        if self._attributes is None:
            return
        with suppress(termios.error):
            # Without TCSADRAIN: it would wait for a terminal that does not read.
            termios.tcsetattr(0, termios.TCSANOW, self._attributes)
            # Keys that were meant for the console that died must not reach the next one, or a shell.
            termios.tcflush(0, termios.TCIFLUSH)
