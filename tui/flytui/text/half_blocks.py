"""Pictures drawn in ordinary terminal cells: each cell is two pixels, one above the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from flycore.model.call import Picture
from flytui.text.lines import CellColours, PicturePlace, StyledLine, StyledText

Rgb = tuple[int, int, int]
_RAMP = " .:-=+*#%@"
"""Characters from dark to light, for terminals without colours."""
_ARMS = {(0, 0): "╋", (-1, 0): "━", (1, 0): "━", (-2, 0): "━", (2, 0): "━", (0, -1): "┃", (0, 1): "┃"}
"""The characters of the cross, by their place in cells from its middle."""


@lru_cache(maxsize=16)
def picture_lines(
    picture: Picture,
    width: int,
    height: int,
    cross: tuple[int, int] | None = None,
    *,
    colours: bool = True,
) -> list[StyledLine]:
    """The picture in at most `width`×`height` cells. Its proportions are kept, and it is never enlarged.
    `cross` marks a pixel of the picture. Without `colours`, brightness is drawn in characters."""
    columns, rows = _fitting(picture, width, height * 2)
    if columns <= 0 or rows <= 0:
        return []
    pixels = _averaged(picture, columns, rows + rows % 2)
    middle = _cell_of(cross, picture, columns, len(pixels)) if cross is not None else None
    drawn = []
    for top in range(0, len(pixels), 2):
        cells = zip(pixels[top], pixels[top + 1], strict=True)
        spans = [_coloured(*cell) if colours else _grey(*cell) for cell in cells]
        if middle is not None:
            _put_cross(spans, middle, top // 2)
        drawn.append(_merged_cells(spans))
    place = PicturePlace(picture, cross, columns, len(drawn))
    return [(drawn[0][0]._replace(place=place), *drawn[0][1:]), *drawn[1:]]


def _fitting(picture: Picture, width: int, height: int) -> tuple[int, int]:
    """The size in pixels that keeps the proportions within `width`×`height`."""
    scale = min(1.0, width / picture.width, height / picture.height)
    if width <= 0 or height <= 0:
        return 0, 0
    return max(1, round(picture.width * scale)), max(1, round(picture.height * scale))


def _averaged(picture: Picture, columns: int, rows: int) -> list[list[Rgb]]:
    """The picture scaled down. Each pixel is the mean of the pixels that it covers."""
    stride = picture.width * 3
    edges = [_span_of(at, columns, picture.width) for at in range(columns)]
    made: list[list[Rgb]] = []
    for row in range(rows):
        first, last = _span_of(row, rows, picture.height)
        sources = [picture.rgb[y * stride : (y + 1) * stride] for y in range(first, last)]
        made.append([_mean(sources, left, right) for left, right in edges])
    return made


def _span_of(at: int, count: int, size: int) -> tuple[int, int]:
    """The range of the `size` pixels that pixel `at` of `count` covers. It holds at least one pixel."""
    first = min(size - 1, at * size // count)
    return first, max(first + 1, (at + 1) * size // count)


def _mean(sources: Sequence[bytes], left: int, right: int) -> Rgb:
    count = (right - left) * len(sources)
    if count == 1:
        red, green, blue = sources[0][left * 3 : left * 3 + 3]
        return red, green, blue
    first, last = left * 3, right * 3
    red = sum(sum(row[first:last:3]) for row in sources)
    green = sum(sum(row[first + 1 : last : 3]) for row in sources)
    blue = sum(sum(row[first + 2 : last : 3]) for row in sources)
    return red // count, green // count, blue // count


def _coloured(above: Rgb, below: Rgb) -> StyledText:
    return StyledText("▀", ink=CellColours(above, below))


def _grey(above: Rgb, below: Rgb) -> StyledText:
    light = (_luminance(above) + _luminance(below)) / 2
    return StyledText(_RAMP[min(len(_RAMP) - 1, int(light * len(_RAMP) / 256))])


def _luminance(colour: Rgb) -> float:
    red, green, blue = colour
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _cell_of(cross: tuple[int, int], picture: Picture, columns: int, rows: int) -> tuple[int, int]:
    x, y = cross[0] * columns // picture.width, cross[1] * rows // picture.height // 2
    return max(0, min(columns - 1, x)), max(0, min(rows // 2 - 1, y))


def _put_cross(spans: list[StyledText], middle: tuple[int, int], row: int) -> None:
    """Draw the cross over the cells of this row, light on dark or dark on light."""
    for (right, down), glyph in _ARMS.items():
        at = middle[0] + right
        if middle[1] + down != row or not 0 <= at < len(spans):
            continue
        ink = spans[at].ink
        if ink is not None:
            red, green, blue = ((fore + back) // 2 for fore, back in zip(ink.fore, ink.back, strict=True))
            ground = red, green, blue
            ink = CellColours((0, 0, 0) if _luminance(ground) > 127 else (255, 255, 255), ground)
        spans[at] = StyledText(glyph, ink=ink)


def _merged_cells(spans: Sequence[StyledText]) -> StyledLine:
    """The cells with neighbours of the same colours joined, so that less is sent to the terminal."""
    merged: list[StyledText] = []
    for part in spans:
        if merged and merged[-1].ink == part.ink:
            merged[-1] = StyledText(merged[-1].text + part.text, ink=part.ink)
        else:
            merged.append(part)
    return tuple(merged)
