"""Pictures as the pixels that a terminal draws: in kitty's graphics protocol and as sixels. Pure.

Every byte that is sent is made here from the checked pixels of a `Picture`. Nothing of the file that a tool
wrote reaches the terminal.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from flycore.model.call import Picture
from flytui.text.lines import PicturePlace

CHUNK = 4096
"""The most characters of data in one sequence of kitty's protocol, which sets this limit."""
IMAGE_ID = 0x666C7900
"""The id of our first image. Images of other programs on the same terminal hardly have it."""
KITTY_REMOVE_ALL = "\x1b_Ga=d,d=A,q=2\x1b\\"
"""Takes every picture off the screen and out of the terminal's memory."""
MAX_SIXEL_PIXELS = 2_000_000
"""The most pixels that are drawn as sixels; more of them take long over a slow line."""
MAX_COLOURS = 64
"""The most colours of a picture in sixels. More cost time and can hardly be told apart."""
_CROSS_ARM = 9
"""The length of each arm of the cross, in pixels of the picture."""


class CellSize(msgspec.Struct, frozen=True):
    """The pixels of one cell of the terminal."""

    width: int
    height: int


def kitty_picture(place: PicturePlace, number: int) -> str:
    """The sequences that draw the picture from the cursor's cell on, over the cells of its place. They leave
    the cursor where it is, and ask for no answer. `number` tells the pictures on screen apart."""
    picture = place.picture
    data = base64.standard_b64encode(zlib.compress(_with_cross(place), 6)).decode("ascii")
    keys = (
        f"a=T,q=2,t=d,f=24,o=z,s={picture.width},v={picture.height},i={IMAGE_ID + number},p=1,"
        f"c={place.columns},r={place.rows},C=1"
    )
    return "".join(_chunks(keys, data))


def _chunks(keys: str, data: str) -> Iterator[str]:
    for start in range(0, len(data), CHUNK):
        more = int(start + CHUNK < len(data))
        yield f"\x1b_G{keys if not start else 'q=2'},m={more};{data[start : start + CHUNK]}\x1b\\"


def kitty_removal(number: int) -> str:
    """The sequence that takes the picture of that number off the screen and out of the terminal's memory."""
    return f"\x1b_Ga=d,d=I,q=2,i={IMAGE_ID + number}\x1b\\"


def sixel_picture(place: PicturePlace, cell: CellSize, colours: int) -> str:
    """The sequence that draws the picture from the cursor's cell on, over the cells of its place, in at most
    `colours` colours; `""` where it would have too many pixels."""
    from PIL import Image

    width, height = place.columns * cell.width, place.rows * cell.height
    if width * height > MAX_SIXEL_PIXELS:
        return ""
    picture = place.picture
    image = Image.frombytes("RGB", (picture.width, picture.height), _with_cross(place))
    scaled = image.resize((width, height), Image.Resampling.BILINEAR)
    drawn = scaled.quantize(max(2, min(MAX_COLOURS, colours)), Image.Quantize.MEDIANCUT)
    palette = drawn.getpalette("RGB") or []
    registers = "".join(
        f"#{number};2;" + ";".join(str(round(part * 100 / 255)) for part in palette[at : at + 3])
        for number, at in enumerate(range(0, len(palette), 3))
    )
    bands = "-".join(_bands(drawn.tobytes(), width, height))
    return f'\x1bP0;1;0q"1;1;{width};{height}{registers}{bands}\x1b\\'


def _bands(pixels: bytes, width: int, height: int) -> Iterator[str]:
    """The bands of six rows each. In a band, each colour is a row of sixels over those before it."""
    for top in range(0, height, 6):
        rows = [pixels[y * width : (y + 1) * width] for y in range(top, min(top + 6, height))]
        yield "$".join(f"#{colour}{_sixels(rows, colour, width)}" for colour in sorted(set(b"".join(rows))))


def _sixels(rows: list[bytes], colour: int, width: int) -> str:
    """One colour of a band: a character for each column, with a bit for each of the rows."""
    total = 0
    for bit, row in enumerate(rows):
        if colour in row:
            # The rows are added as whole numbers: a loop over each pixel would take seconds.
            total |= int.from_bytes(row.translate(_bit_of(colour, bit)), "big")
    return _RUN.sub(_repeated, total.to_bytes(width, "big").translate(_SIGNS).decode("ascii"))


@lru_cache(maxsize=6 * 256)
def _bit_of(colour: int, bit: int) -> bytes:
    """The table that turns that colour into that bit, and every other one into nothing."""
    return bytes(colour) + bytes((1 << bit,)) + bytes(255 - colour)


_SIGNS = bytes(63 + value if value < 64 else 63 for value in range(256))
_RUN = re.compile(r"(.)\1{3,}")


def _repeated(run: re.Match[str]) -> str:
    return f"!{len(run[0])}{run[1]}"


def _with_cross(place: PicturePlace) -> bytes:
    """The picture's pixels, with the cross in white between black, so that it shows on any ground."""
    picture = place.picture
    if place.cross is None:
        return picture.rgb
    rgb, (x, y) = bytearray(picture.rgb), place.cross
    for width, colour in ((1, b"\x00\x00\x00"), (0, b"\xff\xff\xff")):
        for along in range(-_CROSS_ARM, _CROSS_ARM + 1):
            for beside in range(-width, width + 1):
                _put(rgb, picture, x + along, y + beside, colour)
                _put(rgb, picture, x + beside, y + along, colour)
    return bytes(rgb)


def _put(rgb: bytearray, picture: Picture, x: int, y: int, colour: bytes) -> None:
    if 0 <= x < picture.width and 0 <= y < picture.height:
        at = (y * picture.width + x) * 3
        rgb[at : at + 3] = colour
