"""Reads the images that a call made, so that an agent can look at them."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flycore.model.call import Artifact
from flycore.registry.paths import RootPaths
from flysafe.beneath import read_beneath

MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""Of one image; a larger one is only named."""
MAX_BYTES_IN_ALL = 4 * MAX_IMAGE_BYTES
"""Of all images of one result."""


class Image(NamedTuple):
    """An image as MCP carries it."""

    data: str
    """Base64."""
    mime_type: str


ReadImage = Callable[[Artifact, int], Image | None]
"""Reads one artifact of at most that many bytes; None where it is no image, too large, gone, or lies where
it may not. Blocks."""


def image_reader(places: RootPaths) -> ReadImage:
    """Looks below the folder of artifacts and the project's, through no link: what the kernel checked when
    the call ended may be another file now. What an image is, its first bytes say, not the tool."""
    anchors = (os.path.realpath(places.artifacts_dir), os.path.realpath(places.app_root))

    def look(artifact: Artifact, limit: int) -> Image | None:
        data = _read(anchors, artifact.path, min(limit, MAX_IMAGE_BYTES))
        mime_type = None if data is None else image_type(data)
        if data is None or mime_type is None:
            return None
        return Image(base64.b64encode(data).decode("ascii"), mime_type)

    return look


def image_type(data: bytes) -> str | None:
    """PNG, JPEG, GIF or WebP by its first bytes: what model APIs take."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
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
