"""The shared parts of P16, how cost grows: the slope up to the largest size, as an exponent.

An exponent of 1 is linear: ten times as much takes ten times as long. Fixed costs make it smaller.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping
from statistics import median

from common import Row

MOST_EXPONENT = 1.15
"""Linear, with what a sort and the caches of the processor add."""
MOST_FLAT = 2.0
"""The ratio of the largest size to a small one, for what must not depend on the size."""
GOAL = "P16"


def timed(work: Callable[[], object], rounds: int) -> float:
    """The median of the processor time of this process for some runs, in seconds; the first one warms up.

    Processor time, because sizes that are measured minutes apart meet a machine that is busy otherwise.
    """
    work()
    return median(_processor_time(work) for _ in range(rounds))


def _processor_time(work: Callable[[], object]) -> float:
    # Without the collector, as in `common.seconds`: how often it looks at all objects depends on what else
    # the process holds. A kernel freezes what its start made.
    gc.collect()
    gc.disable()
    try:
        begun = time.process_time()
        work()
        return time.process_time() - begun
    finally:
        gc.enable()


def linear(name: str, seconds: Mapping[int, float]) -> Row:
    """The row of times by size; the exponent is that of the last ten-fold growth or more."""
    last = max(seconds)
    before = max((size for size in seconds if size <= last / 10), default=min(seconds))
    exponent = math.log(seconds[last] / seconds[before]) / math.log(last / before)
    return _row(name, seconds, exponent, f"exponent ≤ {MOST_EXPONENT:g}", met=exponent <= MOST_EXPONENT)


def flat(name: str, seconds: Mapping[int, float], since: int) -> Row:
    """The row of times that must not depend on the size, from the size `since` on."""
    ratio = seconds[max(seconds)] / seconds[since]
    target = f"≤ {MOST_FLAT:g} × that with {since:,}"
    return _row(name, seconds, ratio, target, met=ratio <= MOST_FLAT)


def _row(name: str, seconds: Mapping[int, float], ratio: float, target: str, *, met: bool) -> Row:
    note = ", ".join(f"{size:,}: {value * 1e3:.4g} ms" for size, value in sorted(seconds.items()))
    return Row(GOAL, name, seconds[max(seconds)] * 1e3, "ms", ratio, target, met, note)
