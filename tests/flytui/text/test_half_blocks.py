"""Pictures in cells: colours, shape, the cross, and what is left without colours."""

from __future__ import annotations

from rich.style import Style

from flycore.model.call import Picture
from flytui.console.widgets.lines import to_strip
from flytui.text.half_blocks import picture_lines
from flytui.text.lines import CellColours, StyledLine, Tone, text_of, truncated, width_of, wrap

RED, BLUE, WHITE, BLACK = (255, 0, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)


def stripes(width: int, height: int, above: tuple[int, int, int], below: tuple[int, int, int]) -> Picture:
    """Upper half and lower half."""
    half = height // 2
    rgb = bytes(above) * (width * half) + bytes(below) * (width * (height - half))
    return Picture(width=width, height=height, rgb=rgb)


def inks(row: StyledLine) -> list[CellColours | None]:
    return [part.ink for part in row for _ in part.text]


def test_a_cell_is_two_pixels_one_over_the_other() -> None:
    rows = picture_lines(stripes(3, 2, RED, BLUE), 10, 10)
    assert [text_of(row) for row in rows] == ["▀▀▀"]
    assert inks(rows[0]) == [CellColours(RED, BLUE)] * 3


def test_the_shape_is_kept_in_any_room_and_nothing_is_enlarged() -> None:
    wide = stripes(320, 160, RED, BLUE)
    for width, height in ((80, 50), (100, 10), (320, 200), (7, 3), (1, 1)):
        rows = picture_lines(wide, width, height)
        assert len(rows) <= height
        assert {width_of(row) for row in rows} == {width_of(rows[0])}
        assert width_of(rows[0]) <= width
    assert (width_of(picture_lines(wide, 80, 50)[0]), len(picture_lines(wide, 80, 50))) == (80, 20)
    assert (width_of(picture_lines(wide, 100, 10)[0]), len(picture_lines(wide, 100, 10))) == (40, 10)
    assert len(picture_lines(stripes(2, 2, RED, BLUE), 80, 40)) == 1
    assert picture_lines(wide, 0, 5) == []
    assert picture_lines(wide, 5, 0) == []


def test_shrinking_takes_the_mean() -> None:
    checked = Picture(width=2, height=2, rgb=bytes((*BLACK, *WHITE, *WHITE, *BLACK)))
    cell = inks(picture_lines(checked, 1, 1)[0])[0]
    assert cell is not None
    assert set(cell.fore + cell.back) == {127}


def test_the_cross_stands_on_its_pixel_and_differs_from_what_lies_there() -> None:
    for ground in (WHITE, BLACK):
        rows = picture_lines(stripes(40, 40, ground, ground), 40, 20, cross=(10, 21))
        assert text_of(rows[10])[10] == "╋"
        assert text_of(rows[9])[10] == text_of(rows[11])[10] == "┃"
        mark = inks(rows[10])[10]
        assert mark is not None
        assert mark.back == ground
        assert mark.fore == (BLACK if ground == WHITE else WHITE)
    for corner in ((0, 0), (39, 39)):
        rows = picture_lines(stripes(40, 40, WHITE, WHITE), 20, 10, cross=corner)
        assert sum(text_of(row).count("╋") for row in rows) == 1


def test_without_colours_light_shows_as_characters() -> None:
    rows = picture_lines(stripes(8, 8, WHITE, BLACK), 8, 4, cross=(4, 7), colours=False)
    assert all(part.ink is None for row in rows for part in row)
    assert text_of(rows[0]) == "@" * 8
    assert text_of(rows[3])[4] == "╋"
    assert text_of(rows[3])[0] == " "


def test_ink_survives_cutting_and_breaking_and_reaches_the_screen() -> None:
    row = picture_lines(stripes(20, 2, RED, BLUE), 20, 1)[0]
    assert [part.ink for part in truncated(row, 5)] == [CellColours(RED, BLUE)]
    assert all(ink == CellColours(RED, BLUE) for piece in wrap(row, 8) for ink in inks(piece))
    styles = dict.fromkeys(Tone, Style.null())
    strip = to_strip(row, 20, styles, Style.parse("bold"))
    first = next(iter(strip))
    assert first.style is not None
    assert first.style.color is not None
    assert first.style.bgcolor is not None
    assert first.style.color.triplet == RED
    assert first.style.bgcolor.triplet == BLUE
