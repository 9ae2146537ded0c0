"""Waits of tests for what comes about by itself, in a process or in this one.

A test looks again and again until it is there. Each look costs: some start a program, some ask every process
of the machine. So the pauses between two looks grow with the wait: what comes soon is seen at once, what
takes longer is looked for less often, and a wait becomes only a fixed part longer than it has to be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

PATIENCE = 60.0
"""Longest wait for something that takes well under six seconds, in seconds."""
FIRST, LONGEST = 0.05, 0.25
"""Seconds of the first pauses and of the longest one between two looks by a process."""
PART = 0.2
"""How much longer a wait may become, as a part of it."""


def pauses(
    first: float = FIRST, longest: float = LONGEST, clock: Callable[[], float] = time.monotonic
) -> Iterator[float]:
    """The seconds from each look to the next one, without an end. A pause is part of the time that the wait
    has taken so far, at least `first` and at most `longest`."""
    begun = clock()
    while True:
        yield min(longest, max(first, PART * (clock() - begun)))


def until(what: str, found: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Wait until `found` returns a true value, and return it; fail with the name of what never came.

    It is looked at once more after the last pause, so that a machine that stood still meanwhile fails no
    test."""
    end = time.monotonic() + patience
    for pause in pauses():
        late = time.monotonic() >= end
        if value := found():
            return value
        if late:
            pytest.fail(f"never came: {what}")
        time.sleep(pause)
    raise AssertionError("pauses have no end")
