"""Pictures as kitty's protocol and as sixels, read again by a small decoder of each."""

from __future__ import annotations

import base64
import re
import zlib

from flycore.model.call import Picture
from flytui.text.half_blocks import picture_lines
from flytui.text.lines import PicturePlace
from flytui.text.pixel_graphics import (
    CHUNK,
    MAX_SIXEL_PIXELS,
    CellSize,
    kitty_picture,
    kitty_removal,
    sixel_picture,
)
from kits.tables import each_row

RED, BLUE, GREEN, WHITE = (255, 0, 0), (0, 0, 255), (0, 255, 0), (255, 255, 255)


def picture(*rows: tuple[tuple[int, int, int], ...]) -> Picture:
    return Picture(
        width=len(rows[0]), height=len(rows), rgb=bytes(part for row in rows for dot in row for part in dot)
    )


def noise(width: int, height: int) -> Picture:
    """A picture that does not compress."""
    value, parts = 1, bytearray()
    for _ in range(width * height * 3):
        value = value * 1_103_515_245 + 12_345 & 0x7FFFFFFF
        parts.append(value >> 16 & 255)
    return Picture(width=width, height=height, rgb=bytes(parts))


def place_of(what: Picture, columns: int, rows: int, cross: tuple[int, int] | None = None) -> PicturePlace:
    return PicturePlace(what, cross, columns, rows)


def kitty_parts(text: str) -> list[tuple[dict[str, str], str]]:
    """The keys and the data of each sequence; nothing else is in the text."""
    found = re.findall(r"\x1b_G([a-zA-Z0-9=,]*)(?:;([A-Za-z0-9+/=]*))?\x1b\\", text)
    whole = "".join(f"\x1b_G{keys};{data}\x1b\\" if data else f"\x1b_G{keys}\x1b\\" for keys, data in found)
    assert whole == text
    return [(dict(part.split("=") for part in keys.split(",")), data) for keys, data in found]


def drawn_by_sixels(text: str) -> dict[tuple[int, int], tuple[int, int, int]]:
    """The colour of each pixel that a terminal would draw, by column and row, after the manual of the
    VT330/VT340."""
    head = re.match(r'\x1bP0;1;0q"1;1;(\d+);(\d+)', text)
    assert head is not None
    assert text.endswith("\x1b\\")
    colours: dict[int, tuple[int, int, int]] = {}
    pixels: dict[tuple[int, int], tuple[int, int, int]] = {}
    x = y = colour = 0
    for number, rgb, count, sign in re.findall(
        r"#(\d+)(;2;\d+;\d+;\d+)?|!(\d+)(?=[?-~])|([?-~$-])", text[head.end() : -2]
    ):
        if number:
            colour = int(number)
            if rgb:
                red, green, blue = (round(int(part) * 255 / 100) for part in rgb[3:].split(";"))
                colours[colour] = red, green, blue
        elif count:
            repeat = int(count)
            continue
        elif sign == "$":
            x = 0
        elif sign == "-":
            x, y = 0, y + 6
        else:
            for column in range(x, x + repeat):
                for bit in range(6):
                    if ord(sign) - 63 >> bit & 1:
                        pixels[column, y + bit] = colours[colour]
            x += repeat
        repeat = 1
    assert {(column, row) for column, row in pixels} == {
        (column, row) for column in range(int(head[1])) for row in range(int(head[2]))
    }
    return pixels


def test_kitty_gets_exactly_the_pixels_in_chunks_and_is_asked_for_nothing() -> None:
    shown = noise(64, 64)
    parts = kitty_parts(kitty_picture(place_of(shown, 32, 16), 3))
    assert len(parts) > 2
    assert all(len(data) <= CHUNK for _, data in parts)
    assert [keys["m"] for keys, _ in parts] == ["1"] * (len(parts) - 1) + ["0"]
    assert all(keys["q"] == "2" for keys, _ in parts)
    first = parts[0][0]
    assert (first["a"], first["f"], first["s"], first["v"]) == ("T", "24", "64", "64")
    assert (first["c"], first["r"], first["C"]) == ("32", "16", "1")
    assert zlib.decompress(base64.b64decode("".join(data for _, data in parts))) == shown.rgb
    removed = kitty_parts(kitty_removal(3))[0][0]
    assert (removed["a"], removed["i"]) == ("d", first["i"])


def test_sixels_cover_every_pixel_of_the_cells_in_the_colours_of_the_picture() -> None:
    shown = picture((RED, RED, BLUE, BLUE), (RED, RED, BLUE, BLUE))
    pixels = drawn_by_sixels(sixel_picture(place_of(shown, 4, 1), CellSize(4, 8), 256))
    assert (pixels[0, 0], pixels[15, 7]) == (RED, BLUE)
    assert len(pixels) == 16 * 8
    # Bilinear scaling mixes only where the colours meet.
    assert {pixels[x, 3] for x in (0, 1, 2, 3, 4, 5)} == {RED}


@each_row("height", [1, 5, 6, 7, 13])
def test_a_height_that_is_no_multiple_of_six_draws_nothing_below(height: int) -> None:
    shown = picture((GREEN, WHITE), (GREEN, WHITE))
    pixels = drawn_by_sixels(sixel_picture(place_of(shown, 2, 1), CellSize(3, height), 256))
    assert max(row for _, row in pixels) == height - 1


def test_no_more_colours_are_used_than_the_terminal_has() -> None:
    text = sixel_picture(place_of(noise(40, 40), 10, 5), CellSize(8, 16), 16)
    assert len(set(re.findall(r"#(\d+);2;", text))) <= 16
    assert len(set(drawn_by_sixels(text).values())) <= 16


def test_a_picture_with_too_many_pixels_is_not_sent() -> None:
    cell = CellSize(64, 128)
    assert sixel_picture(place_of(noise(4, 4), MAX_SIXEL_PIXELS // 64, 1), cell, 16) == ""


def test_the_cross_is_drawn_into_the_pixels_and_ends_at_the_edge() -> None:
    for ground in (WHITE, (0, 0, 0), RED):
        shown = picture(*[(ground,) * 40] * 40)
        for cross in ((20, 20), (0, 0), (39, 39)):
            data = "".join(data for _, data in kitty_parts(kitty_picture(place_of(shown, 40, 20, cross), 0)))
            rgb = zlib.decompress(base64.b64decode(data))
            at = (cross[1] * 40 + cross[0]) * 3
            assert rgb[at : at + 3] == bytes(WHITE)
            assert len(rgb) == len(shown.rgb)
            assert b"\x00\x00\x00" in rgb


def test_half_blocks_say_where_their_picture_is() -> None:
    rows = picture_lines(noise(30, 20), 80, 40, (3, 4))
    assert rows[0][0].place == PicturePlace(noise(30, 20), (3, 4), 30, 10)
    assert all(part.place is None for row in rows[1:] for part in row)
    assert all(part.place is None for part in rows[0][1:])
