"""Large values: what counts as large, and the worker threads in which work on them is done.

Whatever takes longer than some milliseconds on the event loop holds up every other caller. A value is large
by its text or by the number of its parts, since a small text can hold many values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from flycore.model.json_pieces import weight

if TYPE_CHECKING:
    import anyio
    from anyio.lowlevel import RunVar

LARGE_BYTES = 65_536
"""Bytes of text, or characters of all strings together, from which on a value is large."""
LARGE_VALUES = 5_000
"""Parts of a value from which on it is large: its strings, numbers, objects, arrays, and keys."""
THREADS = 2
"""Threads that work on large values at once. Each of them competes with the event loop for the interpreter,
so that more would only slow it down."""

ResultT = TypeVar("ResultT")
Ts = TypeVarTuple("Ts")


def is_large_text(data: bytes) -> bool:
    """Whether a JSON text is large, or may hold many values. It is not parsed: each comma and bracket counts,
    those in strings as well."""
    return len(data) >= LARGE_BYTES or (
        len(data) >= LARGE_VALUES and sum(map(data.count, (b",", b"[", b"{"))) >= LARGE_VALUES
    )


def is_large(value: object) -> bool:
    """Whether a JSON value is large. It is walked through only as far as it is small."""
    return weight(value, LARGE_VALUES, LARGE_BYTES // LARGE_VALUES) >= LARGE_VALUES


async def run_aside(large: bool, function: Callable[[*Ts], ResultT], *args: *Ts) -> ResultT:
    """Return what the function returns. It runs in a worker thread where `large` says so, else right here.

    The function must not touch what belongs to the event loop's thread. A cancellation waits for its end.
    """
    if not large:
        return function(*args)
    # Only now: commands without an event loop ask what is large, and need not wait for this import.
    import anyio.to_thread

    limiter = _limiter().get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(THREADS)
        _limiter().set(limiter)
    return await anyio.to_thread.run_sync(function, *args, limiter=limiter)


@cache
def _limiter() -> RunVar[anyio.CapacityLimiter]:
    """The limiter of the running event loop."""
    from anyio.lowlevel import RunVar

    return RunVar("flycore.large_values")
