"""Reads an image that a call made, for whoever may see the call."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import anyio.to_thread

from flycore.model.call import Activity, Artifact
from flycore.model.picture import Picture
from flycore.registry.places import Places
from flycore.runners.pictures import MAX_IMAGE_BYTES, decode_picture
from flysafe.beneath import read_beneath


class Pictures:
    """One image at a time is decoded, in a thread, so that many callers cannot fill the memory."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._turn = anyio.Lock()

    async def of(self, call: Activity, index: int) -> Picture | None:
        """See Client."""
        artifacts = call.result.artifacts if call.result is not None else ()
        if not 0 <= index < len(artifacts):
            return None
        async with self._turn:
            return await anyio.to_thread.run_sync(self._read, call.call_id, artifacts[index])

    def _read(self, call_id: str, artifact: Artifact) -> Picture | None:
        data = self._bytes(call_id, artifact.path)
        return decode_picture(data) if data is not None else None

    def _bytes(self, call_id: str, path: str) -> bytes | None:
        """The file, opened below the call's own folder or the project's and through no link: what was
        checked when the call ended may be another file now."""
        for anchor, within in ((self._places.state_dir / "artifacts", call_id), (self._places.app_root, "")):
            start = os.path.realpath(anchor)
            if not path.startswith(os.path.join(start, within, "")):
                continue
            try:
                return read_beneath(Path(start), os.path.relpath(path, start), MAX_IMAGE_BYTES)
            except OSError:
                return None
        return None
