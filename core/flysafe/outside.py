"""The one error that says a path left its anchor."""

from __future__ import annotations

import errno


class OutsideAnchor(OSError):
    """The path leads out of its anchor, or would have to in order to be resolved. `errno` is EXDEV."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EXDEV, "leads out of its folder", path)
