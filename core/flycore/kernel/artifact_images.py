"""Reads an image that a call made, for whoever may see the call."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import anyio.to_thread

from flycore.model.call import Activity, Artifact
from flycore.model.picture import Picture
from flycore.registry.paths import RootPaths
from flycore.runners.images import MAX_IMAGE_BYTES, decode_image
from flysafe.beneath import read_beneath


class ArtifactImages:
    """One image at a time is decoded, in a thread, so that many callers cannot fill the memory."""

    def __init__(self, places: RootPaths) -> None:
        self._places = places
        self._turn = anyio.Lock()

    async def read(self, call: Activity, index: int, owners: tuple[str, ...]) -> Picture | None:
        """See Client. `owners` are the calls whose folders it may lie in: its own, and those of its steps."""
        artifacts = call.result.artifacts if call.result is not None else ()
        if not 0 <= index < len(artifacts):
            return None
        async with self._turn:
            return await anyio.to_thread.run_sync(self._read, owners, artifacts[index])

    def _read(self, owners: tuple[str, ...], artifact: Artifact) -> Picture | None:
        data = self._bytes(owners, artifact.path)
        return decode_image(data) if data is not None else None

    def _bytes(self, owners: tuple[str, ...], path: str) -> bytes | None:
        """The file, opened below the folder of one of the calls or the project's and through no link: what
        was checked when the call ended may be another file now."""
        made = self._places.artifacts_dir
        for anchor, within in (*((made, owner) for owner in owners), (self._places.app_root, "")):
            start = os.path.realpath(anchor)
            if not path.startswith(os.path.join(start, within, "")):
                continue
            try:
                return read_beneath(Path(start), os.path.relpath(path, start), MAX_IMAGE_BYTES)
            except OSError:
                return None
        return None
