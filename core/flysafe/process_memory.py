"""The memory of this process: large blocks that go back to the system, and Python's cycle collector.

By itself glibc learns from the first large block that was freed, of up to 32 MiB, to take the next one from
its heap, and keeps there what is free at the end: after one message of 20 MB a process keeps that much for
ever. Each thread that allocates such a block may get a heap of its own, which does the same.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""The parameters of `mallopt`, from glibc's malloc.h."""
LARGE_BYTES = 1 << 20
"""From this size on, a block is mapped by itself. It is above the size of one read from a pipe, which would
otherwise be mapped anew each time."""
HEAPS = 1
"""Threads share one heap. Python's own values are not in it."""


def return_large_blocks() -> None:
    """Have this process give large blocks back to the system when they are freed. Without glibc nothing
    changes."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes  # takes some milliseconds, and a process that reads no catalog does without it

    with suppress(OSError, AttributeError):  # musl has no mallopt, and gives large blocks back anyway
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, 2 * LARGE_BYTES)
        mallopt(_ARENA_MAX, HEAPS)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Turn Python's cycle collector off while the block runs, and on again if it was on.

    For work that makes many values or imports many modules, all of which stay: the collector would look
    through them again and again, and find nothing. That took a third of the time to build a large registry.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
