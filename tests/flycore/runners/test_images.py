"""Image bytes of tools: good ones become small pictures, everything else becomes none."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from PIL import Image, PngImagePlugin

from flycore.model.call import Picture
from flycore.runners.images import MAX_IMAGE_BYTES, decode_image
from kits.tables import each_row
from kits.values import pixel


def encoded(image: Image.Image, format: str, **more: object) -> bytes:
    out = io.BytesIO()
    image.save(out, format, **more)
    return out.getvalue()


def halves(size: tuple[int, int]) -> Image.Image:
    """Left half red, right half blue."""
    image = Image.new("RGB", size, (255, 0, 0))
    image.paste((0, 0, 255), (size[0] // 2, 0, size[0], size[1]))
    return image


def near(colour: tuple[int, int, int], wanted: tuple[int, int, int]) -> bool:
    return all(abs(one - two) <= 6 for one, two in zip(colour, wanted, strict=True))


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "WEBP"])
def test_each_format_is_scaled_down_with_its_colours_and_shape(format: str) -> None:
    picture = decode_image(encoded(halves((1600, 400)), format))
    assert picture is not None
    assert (picture.width, picture.height) == (320, 80)
    assert near(pixel(picture, 10, 40), (255, 0, 0))
    assert near(pixel(picture, 310, 40), (0, 0, 255))


def test_a_small_image_keeps_its_size_and_its_first_frame_counts() -> None:
    second = Image.new("RGB", (4, 2), (0, 255, 0))
    data = encoded(halves((4, 2)), "GIF", save_all=True, append_images=[second])
    picture = decode_image(data)
    assert picture is not None
    assert (picture.width, picture.height, pixel(picture, 0, 0)) == (4, 2, (255, 0, 0))


def test_what_is_transparent_lies_on_black_and_deep_grey_keeps_its_upper_bits() -> None:
    glass = decode_image(encoded(Image.new("RGBA", (2, 1), (200, 100, 50, 0)), "PNG"))
    assert glass is not None
    assert glass.rgb == bytes(6)
    grey = decode_image(encoded(Image.new("I;16", (2, 1), 0x8000), "PNG"))
    assert grey is not None
    assert near(pixel(grey, 0, 0), (128, 128, 128))


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int, height: int, packed: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def text_bomb() -> bytes:
    info = PngImagePlugin.PngInfo()
    info.add_text("note", "A" * 100_000_000, zip=True)
    return encoded(halves((4, 4)), "PNG", pnginfo=info)


HOSTILE = {
    "nothing": b"",
    "text": b"hello, I am image/png",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n",
    "bmp": encoded(halves((4, 4)), "BMP"),
    "tiff": encoded(halves((4, 4)), "TIFF"),
    "magic only": b"\x89PNG\r\n\x1a\n",
    "huge by its header": png(65_000, 65_000, zlib.compress(b"")),
    "over the pixels allowed": png(8_000, 6_000, zlib.compress(bytes(1_000_000))),
    "no pixels": png(0, 5, zlib.compress(b"")),
    "unpacks to nothing": png(50, 50, b"not deflate"),
    "too many bytes": encoded(halves((4, 4)), "PNG") + bytes(MAX_IMAGE_BYTES),
}


@each_row("name", HOSTILE)
def test_what_is_no_image_or_too_large_gives_none(name: str) -> None:
    assert decode_image(HOSTILE[name]) is None


def test_an_image_whose_text_unpacks_without_end_gives_none_or_its_pixels() -> None:
    picture = decode_image(text_bomb())
    assert picture is None or picture.width == 4


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "WEBP"])
def test_cut_and_damaged_images_never_raise(format: str) -> None:
    data = encoded(halves((40, 30)), format)
    for at in range(0, len(data), max(1, len(data) // 60)):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]):
            found = decode_image(damaged)
            assert found is None or found.width <= 320
    assert decode_image(data[: len(data) // 3]) is None


@pytest.mark.parametrize(("width", "height", "size"), [(0, 1, 0), (321, 1, 963), (1, 201, 603), (2, 2, 11)])
def test_a_picture_whose_numbers_do_not_fit_is_none(width: int, height: int, size: int) -> None:
    with pytest.raises(ValueError, match="a picture"):
        Picture(width=width, height=height, rgb=bytes(size))
