"""What is described around the root, kept true: read off the loop's thread, looked at again now and then.

Notices of a file system are not used: what is described lies in many small folders, some of them in the
person's home, and nothing runs because of it, so a moment later is soon enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio
import anyio.to_thread

from flycore.discovery.look import Stamps, scan, search_roots, stamps
from flycore.model.source import Described, Import, SourceKind
from flycore.registry.places import RootPaths

RESCAN_SECONDS = 1.0


class SourceWatcher:
    """`described` is replaced whole and may be read at any time."""

    def __init__(self, places: RootPaths, environ: Mapping[str, str]) -> None:
        self._grounds = search_roots(places, environ)
        self._seen: Stamps = ()
        self.described: tuple[Described, ...] = ()

    def read(self) -> bool:
        """Read what may have changed since the last time; whether it has."""
        seen = stamps(self._grounds)  # taken first, so that no change falls between
        if seen == self._seen and self.described:
            return False
        described = scan(self._grounds)
        changed = described != self.described
        self._seen, self.described = seen, described
        return changed

    async def find_import(self, path: str, name: str) -> Import | None:
        """What importing that server would write, by its file as it is at this moment."""
        await anyio.to_thread.run_sync(self.read)
        found = (item for item in self.described if item.kind is SourceKind.MCP_SERVER)
        return next((item.offer for item in found if (item.path, item.id) == (path, name)), None)

    async def watch(self, changed: Callable[[], None]) -> None:
        """Read it again for ever, and say when it is another."""
        while True:
            await anyio.sleep(RESCAN_SECONDS)
            if await anyio.to_thread.run_sync(self.read):
                changed()
