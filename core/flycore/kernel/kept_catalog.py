"""The writer of the catalog that the next console shows until its kernel has answered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import anyio
import anyio.to_thread

from flycore import __version__
from flycore.kernel.bus import Bus
from flycore.model.catalog import Catalog
from flycore.model.events import EventClass
from flycore.model.kept_catalog import MAX_KEPT_BYTES, encode_kept
from flycore.registry.paths import RootPaths
from flycore.registry.stamps import files_digest
from flysafe.atomic import private_folder, write_atomic

SETTLE_S = 1.5
"""Seconds without a change before the catalog is written. A changed file is read again sooner than that, so
that the catalog is the one of the files whose digest it gets."""


class KeptCatalogWriter:
    """Writes the catalog whenever it has changed and settled. `now` gives Unix seconds."""

    def __init__(self, places: RootPaths, catalog: Callable[[], Catalog], now: Callable[[], float]) -> None:
        self._places = places
        self._catalog = catalog
        self._now = now
        self._changed = anyio.Event()

    async def run(self, bus: Bus) -> None:
        """Write until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow, bus)
            while True:
                files = await self._settled()
                await anyio.to_thread.run_sync(self._write, self._catalog(), files)
                await self._changed.wait()

    async def _follow(self, bus: Bus) -> None:
        with bus.subscribe(frozenset((EventClass.CATALOG,))) as changes:
            async for _ in changes:
                self._changed.set()

    async def _settled(self) -> str:
        """Wait until neither the catalog nor the files have changed for a while. Return the files' digest."""
        while True:
            self._changed = anyio.Event()
            before = await anyio.to_thread.run_sync(files_digest, self._places)
            with anyio.move_on_after(SETTLE_S):
                await self._changed.wait()
            if self._changed.is_set():
                continue
            if await anyio.to_thread.run_sync(files_digest, self._places) == before:
                return before

    def _write(self, catalog: Catalog, files: str) -> None:
        data = encode_kept(catalog, __version__, files, self._now())
        if len(data) > MAX_KEPT_BYTES:
            return
        with suppress(OSError):  # the next console waits for its kernel, as without this file
            private_folder(self._places.state_dir)
            write_atomic(self._places.kept_catalog_file, data)
