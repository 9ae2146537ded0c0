"""Worker threads in which work on large values is done, so that the event loop's thread stays free."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

THREADS = 2
"""Threads that work on large values at once. Each of them competes with the event loop for the interpreter,
so that more would only slow it down."""

ResultT = TypeVar("ResultT")
Ts = TypeVarTuple("Ts")

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("flycore.worker_threads")


async def run_aside(large: bool, function: Callable[[*Ts], ResultT], *args: *Ts) -> ResultT:
    """Return what the function returns. It runs in a worker thread where `large` says so, else right here.

    The function must not touch what belongs to the event loop's thread. A cancellation waits for its end.
    """
    if not large:
        return function(*args)
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(function, *args, limiter=limiter)
