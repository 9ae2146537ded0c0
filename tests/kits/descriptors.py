"""A test process that has no descriptor left."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress


@contextmanager
def none_left() -> Iterator[None]:
    """Take every descriptor that this process may have, until the block ends."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        with suppress(OSError):
            while True:
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield
