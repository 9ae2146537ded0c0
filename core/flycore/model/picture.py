"""A small picture as a value, of the size that a terminal can show."""

from __future__ import annotations

from flycore.model.base import Value

MOST_WIDTH = 320
MOST_HEIGHT = 200


class Picture(Value, frozen=True, kw_only=True):
    """Pixels, row by row from the top, three bytes each (red, green, blue). On the wire `rgb` is base64."""

    width: int
    height: int
    rgb: bytes

    def __post_init__(self) -> None:
        """Check the size. Raises ValueError where it is out of range or does not match the pixels."""
        if not (0 < self.width <= MOST_WIDTH and 0 < self.height <= MOST_HEIGHT):
            raise ValueError(f"a picture is at most {MOST_WIDTH}×{MOST_HEIGHT} pixels and at least one")
        if len(self.rgb) != self.width * self.height * 3:
            raise ValueError("a picture has three bytes a pixel")
