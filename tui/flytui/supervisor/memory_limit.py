"""The limit on the console's memory: a console that takes too much is started again."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MEMORY_LIMIT = 1 << 30
"""Bytes of address space that the console may have."""
STACK_BYTES = 1 << 20
MAX_ARENAS = 2
_M_ARENA_MAX = -8
"""From glibc's malloc.h."""


def limit_memory() -> None:
    """Limit this process from now on. Threads are given small stacks, which count as address space."""
    threading.stack_size(STACK_BYTES)
    with suppress(OSError, AttributeError):
        import ctypes

        # glibc reserves 64 MiB of address space for each thread that allocates, up to eight a processor.
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MAX_ARENAS)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = MEMORY_LIMIT if hard == resource.RLIM_INFINITY else min(MEMORY_LIMIT, hard)
    # Only the soft limit, so that programs that a person starts from the console do not inherit it.
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


@contextmanager
def without_memory_limit() -> Iterator[None]:
    """Lift the limit while the block runs: a program that is started in it has none."""
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
