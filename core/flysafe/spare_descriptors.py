"""A few descriptors that are kept for what must not fail when the process has no other left.

A process that has none left cannot read /proc, and could neither see nor end the children that it answers
for. So it keeps some open, and gives them up for the moment of such a read.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

NONE_LEFT = (errno.EMFILE, errno.ENFILE)
"""What the system answers where this process, or the whole system, has no descriptor left."""
_KEPT = 2
"""To signal a process takes one that refers to it, and one to read its start time."""

_Result = TypeVar("_Result")

_spare: list[int] = []
_lock = threading.RLock()


def keep_spare_descriptors() -> None:
    """Keep some descriptors from now on, as far as there are any."""
    with _lock, suppress(OSError):
        while len(_spare) < _KEPT:
            _spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def with_spare_descriptors(work: Callable[[], _Result]) -> _Result:
    """Return what `work` returns. Where it raises OSError because no descriptor is left, it is run once more
    with those that were kept. It must leave none open."""
    try:
        return work()
    except OSError as error:
        if error.errno not in NONE_LEFT or not _spare:
            raise
    with _lock:
        while _spare:
            os.close(_spare.pop())
        try:
            return work()
        finally:
            keep_spare_descriptors()
