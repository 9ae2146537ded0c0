"""Small pictures of the images that a tool made. A tool can write any bytes, so their size is checked before
they are decoded, and damaged bytes give no picture."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from typing import TYPE_CHECKING

from flycore.model.call import MOST_HEIGHT, MOST_WIDTH, Picture

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_IMAGE_BYTES = 16 * 1024 * 1024
MAX_PIXELS = 40_000_000
"""An 8K screen has 33 million."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
_DECODING_FAILS = (OSError, SyntaxError, ValueError, ArithmeticError, LookupError, TypeError, EOFError)
"""What Pillow raises over damaged files, besides the errors of the libraries below it."""


def decode_image(data: bytes) -> Picture | None:
    """The image, or the first frame of an animation, scaled down to at most 320×200 pixels, on black. None
    where it is not a PNG, JPEG, GIF or WebP, is damaged, or has too many bytes or pixels. Decoding a large
    image blocks for most of a second."""
    if len(data) > MAX_IMAGE_BYTES:
        return None
    from PIL import Image

    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            warnings.simplefilter("ignore")
            # Opening reads only the header: a small file can hold an image of many gigabytes of pixels.
            if image.width * image.height > MAX_PIXELS:
                return None
            return _scaled(image)
    except (*_DECODING_FAILS, struct.error, zlib.error, MemoryError, Image.DecompressionBombError):
        return None


def _scaled(image: Image) -> Picture:
    """The first frame, scaled down to the largest picture's size, never up."""
    from PIL import Image

    scale = min(1.0, MOST_WIDTH / image.width, MOST_HEIGHT / image.height)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    image.draft("RGB", size)
    frame = image.convert("RGBA") if image.has_transparency_data else _opaque(image)
    small = frame.resize(size, Image.Resampling.BOX, reducing_gap=2.0)
    if small.mode == "RGBA":
        small = Image.alpha_composite(Image.new("RGBA", size, (0, 0, 0, 255)), small)
    return Picture(width=size[0], height=size[1], rgb=small.convert("RGB").tobytes())


def _opaque(image: Image) -> Image:
    """The image as RGB; 16-bit grey keeps its upper eight bits."""
    if image.mode.startswith("I"):
        image = image.point(lambda value: value / 256).convert("L")
    return image.convert("RGB")
