"""Python's cycle collector, kept from looking through a large world again and again while that is built."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Around work of bounded length whose many values stay: a third of its time is the collector's, which
    finds nothing. Where it is off already, it stays so."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
