"""A card's pictures of the screen: how much room they get, and their lines. Pure."""

from __future__ import annotations

from flycore.approval.card import CardStyle
from flycore.model.approval import ApprovalRequest
from flytui.console.paint import StyledLine
from flytui.console.picture import picture_lines

LEAST_ROWS, MOST_ROWS = 5, 14
"""Lines of one picture, however little or much room there is."""


def crop_rows(request: ApprovalRequest, free: int) -> int:
    """Lines for each of the request's pictures where so many are free on the card."""
    count = sum(picture is not None for picture in (request.crop, request.crop_to))
    return min(MOST_ROWS, max(LEAST_ROWS, free // max(1, count)))


def crop_lines(
    request: ApprovalRequest, style: CardStyle, width: int, rows: int, *, colours: bool
) -> list[StyledLine]:
    """The picture that a line of that style speaks of, with its cross; none for other lines."""
    shown = {
        CardStyle.CROP: (request.crop, request.cross),
        CardStyle.CROP_TO: (request.crop_to, request.cross_to),
    }
    picture, cross = shown.get(style, (None, None))
    return [] if picture is None else picture_lines(picture, width, rows, cross, colours=colours)
