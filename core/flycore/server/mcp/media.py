"""The artifacts of a call that are handed on as such: reads them for the agent that made the call."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flycore.model.call import Artifact
from flycore.registry.paths import RootPaths
from flysafe.beneath import read_beneath

MAX_FILE_BYTES = 5 * 1024 * 1024
"""Largest file that is read; of a larger one the agent gets only the name."""
MAX_BYTES_IN_ALL = 4 * MAX_FILE_BYTES
"""Bytes of all files of one result together."""


class Media(NamedTuple):
    """A file in the form of an MCP content block."""

    data: str
    """Base64."""
    mime_type: str
    """The type of an image or a sound by its first bytes; empty for anything else."""


ReadMedia = Callable[[Artifact, int], Media | None]
"""Reads one artifact of at most that many bytes, and blocks. Returns None where the artifact is too large, no
longer exists, or lies outside the folders that may be read."""


def media_reader(places: RootPaths) -> ReadMedia:
    """Return a function that reads artifacts below the artifacts' and the project's folder."""
    # The kernel checked each artifact when the call ended, but another file may have its name by now.
    # So the path is resolved again below these anchors, and no link is followed.
    anchors = (os.path.realpath(places.artifacts_dir), os.path.realpath(places.app_root))

    def read_media(artifact: Artifact, limit: int) -> Media | None:
        data = _read(anchors, artifact.path, min(limit, MAX_FILE_BYTES))
        if data is None:
            return None
        # The first bytes decide what the file is; the type that the tool reports is not trusted.
        return Media(base64.b64encode(data).decode("ascii"), media_type(data) or "")

    return read_media


def media_type(data: bytes) -> str | None:
    """Return the MIME type of an image or a sound by its first bytes; None for anything else.

    These are the types that the APIs of models accept.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return "audio/wav"
    if data.startswith((b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")):
        return "audio/mpeg"
    if data.startswith(b"OggS"):
        return "audio/ogg"
    return None


def _read(anchors: tuple[str, ...], path: str, limit: int) -> bytes | None:
    for anchor in anchors:
        if not path.startswith(os.path.join(anchor, "")):
            continue
        try:
            return read_beneath(Path(anchor), os.path.relpath(path, anchor), limit)
        except OSError:
            return None
    return None
