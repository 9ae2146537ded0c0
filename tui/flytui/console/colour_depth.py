"""How many colours the terminal draws, and the palettes of terminals that draw sixteen. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

import msgspec

Rgb = tuple[int, int, int]


class ColourDepth(StrEnum):
    """How many colours are sent to the terminal."""

    TRUE = "24-bit"
    """Every colour, as red, green and blue."""
    INDEXED = "256"
    """The colours 16 to 255 of xterm, which are the same in every terminal. The first 16 are the person's."""
    ANSI = "16"
    """The 16 colours that every terminal and every person has chosen otherwise."""


_TRUE_COLOUR_TERMS = frozenset(
    ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "foot-extra", "wezterm", "contour")
)
"""Values of TERM whose terminals all draw 24-bit colour. Over ssh, COLORTERM is usually missing."""


def colour_depth(environ: Mapping[str, str], setting: str = "") -> ColourDepth:
    """The depth that the setting forces, or the one that the terminal's variables promise. Whether there are
    colours at all is for NO_COLOR to say."""
    if setting in tuple(ColourDepth):
        return ColourDepth(setting)
    term = environ.get("TERM", "").strip().lower()
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return ColourDepth.TRUE
    if term in _TRUE_COLOUR_TERMS or term.endswith("-direct"):
        return ColourDepth.TRUE
    return ColourDepth.INDEXED if "256color" in term else ColourDepth.ANSI


def _parsed(colours: str) -> tuple[Rgb, ...]:
    triples = (bytes.fromhex(colour) for colour in colours.split())
    return tuple((red, green, blue) for red, green, blue in triples)


class AnsiPalette(msgspec.Struct, frozen=True):
    """What one kind of terminal draws for the 16 colours."""

    name: str
    colours: tuple[Rgb, ...]
    bold_is_bright: bool
    """Whether bold text in one of the first eight colours is drawn in the bright one."""
    bright_grounds: bool = True
    """Whether a background can have one of the last eight colours."""

    def text(self, index: int, *, bold: bool) -> Rgb:
        """The colour of text."""
        return self.colours[index + 8 if bold and index < 8 and self.bold_is_bright else index]

    def ground(self, index: int) -> Rgb:
        """The colour behind text."""
        return self.colours[index if self.bright_grounds else index % 8]


XTERM = AnsiPalette(
    "xterm",
    _parsed(
        "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5"
        " 7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
    ),
    bold_is_bright=True,
)
"""The defaults of xterm, from its resource `boldColors` and its table of colours."""
LINUX_CONSOLE = AnsiPalette(
    "the Linux console",
    _parsed(
        "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa"
        " 555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff"
    ),
    bold_is_bright=True,
    bright_grounds=False,
)
"""The colours of VGA. console_codes(4) says that it draws 100 to 107 as 40 to 47."""
TANGO = AnsiPalette(
    "a light terminal with the palette Tango",
    _parsed(
        "2e3436 cc0000 4e9a06 c4a000 3465a4 75507b 06989a d3d7cf"
        " 555753 ef2929 8ae234 fce94f 729fcf ad7fa8 34e2e2 eeeeec"
    ),
    bold_is_bright=False,
)
"""The palette of GNOME's terminals, usual with black on white."""


def usual_palettes(environ: Mapping[str, str]) -> tuple[AnsiPalette, ...]:
    """The palettes that this terminal may have."""
    return (LINUX_CONSOLE,) if environ.get("TERM", "").startswith("linux") else (XTERM, TANGO)


LEAST_CONTRAST = 4.5
"""The contrast that WCAG asks of text at level AA."""


def luminance(colour: Rgb) -> float:
    """WCAG's relative luminance, from 0 to 1."""
    parts = [part / 255 for part in colour]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4) for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Rgb, other: Rgb) -> float:
    """WCAG's contrast, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@lru_cache(maxsize=1024)
def readable_text(text: int, ground: int, bold: bool, palettes: tuple[AnsiPalette, ...]) -> tuple[int, bool]:
    """The colour of text on that ground, and whether it may be bold, so that it can be read with each of the
    palettes. It is the wanted colour where that can be read, and otherwise white or black."""

    def least(found: tuple[int, bool]) -> float:
        return min(contrast(one.text(found[0], bold=found[1]), one.ground(ground)) for one in palettes)

    wanted = ((text, bold), (text, False), (15, bold), (0, False), (15, False))
    readable = (found for found in wanted if least(found) >= LEAST_CONTRAST)
    return next(readable, max(wanted, key=least))
