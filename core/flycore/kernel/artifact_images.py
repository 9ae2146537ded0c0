"""The reader of images that calls made, for clients that may see the call."""

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
    """The images among the artifacts of a root's calls."""

    def __init__(self, places: RootPaths) -> None:
        self._places = places
        # One image is decoded at a time, as a small file can become a large image: many readers at once could
        # fill the memory.
        self._turn = anyio.Lock()

    async def read(self, call: Activity, index: int, owners: tuple[str, ...]) -> Picture | None:
        """Read an artifact of the call as an image; None if it is not there or is no image.

        `owners` are the calls whose artifact folders it may lie in: the call and its steps.
        """
        artifacts = call.result.artifacts if call.result is not None else ()
        if not 0 <= index < len(artifacts):
            return None
        async with self._turn:
            return await anyio.to_thread.run_sync(self._read, owners, artifacts[index])

    def _read(self, owners: tuple[str, ...], artifact: Artifact) -> Picture | None:
        data = self._bytes(owners, artifact.path)
        return decode_image(data) if data is not None else None

    def _bytes(self, owners: tuple[str, ...], path: str) -> bytes | None:
        """Read the file, which must lie in the artifact folder of one of the calls or in the project."""
        artifacts_dir = self._places.artifacts_dir
        for anchor, within in (*((artifacts_dir, owner) for owner in owners), (self._places.app_root, "")):
            start = os.path.realpath(anchor)
            if not path.startswith(os.path.join(start, within, "")):
                continue
            # Checked again, and through no link: the path was valid when the call ended, not now.
            try:
                return read_beneath(Path(start), os.path.relpath(path, start), MAX_IMAGE_BYTES)
            except OSError:
                return None
        return None
