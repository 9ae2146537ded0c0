"""The watcher of what is described and never run: kits, skills, plugins and other clients' servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio
import anyio.to_thread

from flycore.discovery.scan import Stamps, scan, search_roots, stamps
from flycore.model.described import Described, Import, SourceKind
from flycore.registry.paths import RootPaths

RESCAN_SECONDS = 1.0
IDLE_RESCAN_SECONDS = 10.0
"""The time between two scans for kits, skills, plugins and other clients' servers, and that once nothing has
changed for `IDLE_AFTER_SECONDS`.

They lie in many small folders, some in the person's home, where watching each would cost more than a scan.
Nothing runs because of them, so a second is soon enough.
"""
IDLE_AFTER_SECONDS = 30.0


class SourceWatcher:
    """The watcher of kits, skills, plugins and other clients' servers.

    `described` is replaced as a whole and may be read at any time.
    """

    def __init__(self, places: RootPaths, environ: Mapping[str, str]) -> None:
        self._search_roots = search_roots(places, environ)
        self._stamps: Stamps = ()
        self.described: tuple[Described, ...] = ()

    def read(self) -> bool:
        """Scan again if files have changed. Return whether the result is another."""
        # Before the scan, so that a change during it is found next time.
        observed = stamps(self._search_roots)
        if observed == self._stamps and self.described:
            return False
        described = scan(self._search_roots)
        changed = described != self.described
        self._stamps, self.described = observed, described
        return changed

    async def find_import(self, path: str, name: str) -> Import | None:
        """Return what an import of that server would write, by its file as it is now; None if it is gone."""
        await anyio.to_thread.run_sync(self.read)
        found = (item for item in self.described if item.kind is SourceKind.MCP_SERVER)
        return next((item.offer for item in found if (item.path, item.id) == (path, name)), None)

    async def watch(self, changed: Callable[[], None]) -> None:
        """Scan until cancelled, and call `changed` when the result is another."""
        last_change = anyio.current_time()
        while True:
            idle = anyio.current_time() - last_change > IDLE_AFTER_SECONDS
            await anyio.sleep(IDLE_RESCAN_SECONDS if idle else RESCAN_SECONDS)
            if await anyio.to_thread.run_sync(self.read):
                last_change = anyio.current_time()
                changed()
