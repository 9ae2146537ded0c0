"""Waits until something changes right in a folder.

On Linux the event loop itself waits, by inotify, and nothing wakes it meanwhile. watchfiles, which other
systems use, looks every few milliseconds whether its own thread has seen something, as long as it waits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path

import anyio

RECHECK_S = 15.0
"""Seconds after which a wait ends without a notice: some file systems send none."""
FALLBACK_RECHECK_S = 0.7
"""The same where each folder's notices come late or not at all."""
_GATHER_S = 0.05
"""Seconds that a wait goes on after the first notice: an editor causes several at once."""
_MASK = 0x02 | 0x04 | 0x08 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""IN_MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF and MOVE_SELF."""
_READ_BYTES = 65_536


class FolderNotices:
    """The notices of some folders from now on."""

    def __init__(self, folders: Sequence[Path], descriptor: int) -> None:
        self._folders = folders
        self._descriptor = descriptor
        """An inotify instance that watches the folders; -1 where there is none."""

    async def wait(self, stop: anyio.Event) -> None:
        """Wait until something has changed, `stop` is set, or it is time to look without a notice."""
        if self._descriptor < 0:
            await self._wait_elsewhere(stop)
            return
        with anyio.move_on_after(RECHECK_S):
            async with anyio.create_task_group() as group:

                async def stopped() -> None:
                    await stop.wait()
                    group.cancel_scope.cancel()

                group.start_soon(stopped)
                await anyio.wait_readable(self._descriptor)
                await anyio.sleep(_GATHER_S)
                group.cancel_scope.cancel()
        with suppress(BlockingIOError):
            while os.read(self._descriptor, _READ_BYTES):
                pass

    async def _wait_elsewhere(self, stop: anyio.Event) -> None:
        from watchfiles import awatch

        notices = awatch(
            *self._folders,
            watch_filter=None,
            debounce=200,
            step=50,
            stop_event=stop,
            rust_timeout=int(FALLBACK_RECHECK_S * 1000),
            yield_on_timeout=True,
            recursive=False,
            ignore_permission_denied=True,
        )
        async with aclosing(notices):
            async for _ in notices:
                return


@contextmanager
def folder_notices(folders: Sequence[Path]) -> Iterator[FolderNotices]:
    """Watch these folders while the block runs. One that cannot be watched sends no notices."""
    descriptor = _inotify(folders)
    try:
        yield FolderNotices(folders, descriptor)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _inotify(folders: Sequence[Path]) -> int:
    """Return an inotify instance that watches the folders; -1 where the system has none, or no more of
    them."""
    if not sys.platform.startswith("linux"):
        return -1
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if descriptor >= 0:
        for folder in folders:
            libc.inotify_add_watch(descriptor, os.fsencode(folder), ctypes.c_uint32(_MASK))
    return descriptor
