"""The display of this process as a sidecar reads it: what is missing becomes the failure `unavailable`."""

from __future__ import annotations

from flysafe import x11_reader
from flysidecars.sdk import Unavailable


class Display(x11_reader.X11Reader):
    """The reader. Raises `Unavailable` on entering where there is no display that can be read."""

    def __enter__(self) -> Display:
        try:
            super().__enter__()
        except x11_reader.DisplayUnavailable as missing:
            raise Unavailable(missing.reason, missing.remedy) from missing
        return self


def display_name() -> str:
    """The display this process was given. Raises `Unavailable` where it was given none."""
    try:
        return x11_reader.display_name()
    except x11_reader.DisplayUnavailable as missing:
        raise Unavailable(missing.reason, missing.remedy) from missing
