"""The console's themes: a dark one and a light one, each with its own colours for every depth.

A colour that is worked out from another one, as toolkits do, cannot be trusted in 256 or 16 colours: the
nearest one that the terminal has may be the colour behind it. So every colour that text is drawn in, or on,
is named here. In 256 colours only 16 to 255 are used, since the others are the person's own.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from rich._palettes import EIGHT_BIT_PALETTE
from textual.theme import BUILTIN_THEMES, Theme

from flytui.console.colour_depth import ColourDepth


def indexed(index: int) -> str:
    """The colour of that number in xterm's table, as a theme names it. `line_filters` gives the terminal the
    number again."""
    return str(EIGHT_BIT_PALETTE[index].hex)


class ThemeColours(msgspec.Struct, frozen=True, kw_only=True):
    """The colours of a theme at one depth, each as `#rrggbb`; in 24 bit with an opacity where it has one."""

    text: str
    dim: str
    background: str
    surface: str
    """Behind bars and boxes."""
    panel: str
    """Behind text fields, quotes and the row under the cursor."""
    accent: str
    second: str
    good: str
    warning: str
    error: str
    """Behind what is urgent."""


DARK_NAME, LIGHT_NAME = "flytui", "flytui-light"
_DARK = {
    ColourDepth.TRUE: ThemeColours(
        text="#d5dae2",
        dim="#d5dae2 62%",
        background="#12161c",
        surface="#171c24",
        panel="#1f2630",
        accent="#6cb6c9",
        second="#8aa4c8",
        good="#7fc08a",
        warning="#e0b364",
        error="#e5736f",
    ),
    ColourDepth.INDEXED: ThemeColours(
        text=indexed(253),
        dim=indexed(247),
        background=indexed(233),
        surface=indexed(234),
        panel=indexed(236),
        accent=indexed(74),
        second=indexed(110),
        good=indexed(114),
        warning=indexed(179),
        error=indexed(167),
    ),
    ColourDepth.ANSI: ThemeColours(
        text=indexed(15),
        dim=indexed(7),
        background=indexed(0),
        surface=indexed(0),
        panel=indexed(4),
        accent=indexed(14),
        second=indexed(7),
        good=indexed(10),
        warning=indexed(11),
        error=indexed(1),
    ),
}
_LIGHT = {
    ColourDepth.TRUE: ThemeColours(
        text="#0e131a",
        dim="#0e131a 66%",
        background="#f7f8fa",
        surface="#edf0f4",
        panel="#dfe4eb",
        accent="#0b5f75",
        second="#3d5575",
        good="#1f6b31",
        warning="#7a4d00",
        error="#a3231f",
    ),
    ColourDepth.INDEXED: ThemeColours(
        text=indexed(233),
        dim=indexed(240),
        background=indexed(231),
        surface=indexed(255),
        panel=indexed(254),
        accent=indexed(24),
        second=indexed(60),
        good=indexed(22),
        warning=indexed(94),
        error=indexed(124),
    ),
    # Of the 16 colours only black, red and blue can be read on white everywhere.
    ColourDepth.ANSI: ThemeColours(
        text=indexed(0),
        dim=indexed(0),
        background=indexed(15),
        surface=indexed(15),
        panel=indexed(7),
        accent=indexed(4),
        second=indexed(4),
        good=indexed(0),
        warning=indexed(1),
        error=indexed(1),
    ),
}


def _theme(name: str, colours: ThemeColours, *, dark: bool) -> Theme:
    return Theme(
        name=name,
        primary=colours.accent,
        secondary=colours.second,
        accent=colours.accent,
        foreground=colours.text,
        background=colours.background,
        surface=colours.surface,
        panel=colours.panel,
        success=colours.good,
        warning=colours.warning,
        error=colours.error,
        dark=dark,
        variables=_variables(colours),
    )


def _variables(colours: ThemeColours) -> dict[str, str]:
    """What Textual's own widgets would work out from other colours."""
    return {
        "dim": colours.dim,
        "boost": colours.panel,
        "text": colours.text,
        "text-muted": colours.dim,
        "text-disabled": colours.dim,
        "foreground-muted": colours.dim,
        "foreground-disabled": colours.dim,
        "text-accent": colours.accent,
        "text-primary": colours.accent,
        "text-success": colours.good,
        "text-warning": colours.warning,
        "surface-active": colours.panel,
        "border-blurred": colours.panel,
        "block-cursor-foreground": colours.background,
        "block-cursor-background": colours.accent,
        "block-cursor-blurred-foreground": colours.text,
        "block-cursor-blurred-background": colours.panel,
        "block-hover-background": colours.panel,
        "input-cursor-foreground": colours.background,
        "input-cursor-background": colours.text,
        "input-selection-foreground": colours.background,
        "input-selection-background": colours.accent,
        "screen-selection-foreground": colours.background,
        "screen-selection-background": colours.accent,
        "scrollbar": colours.panel,
        "scrollbar-hover": colours.accent,
        "scrollbar-active": colours.accent,
        "scrollbar-background": colours.background,
        "footer-key-foreground": colours.accent,
    }


THEME = _theme(DARK_NAME, _DARK[ColourDepth.TRUE], dark=True)
LIGHT = _theme(LIGHT_NAME, _LIGHT[ColourDepth.TRUE], dark=False)


def themes(depth: ColourDepth) -> Iterator[Theme]:
    """Every theme that can be chosen at that depth. Textual's themes name 24-bit colours only: with fewer
    colours each of them is drawn in those of our theme that is as dark."""
    yield _theme(DARK_NAME, _DARK[depth], dark=True)
    yield _theme(LIGHT_NAME, _LIGHT[depth], dark=False)
    for name, theme in BUILTIN_THEMES.items():
        # Those that use the terminal's own colours do so at every depth.
        if depth is not ColourDepth.TRUE and not theme.ansi:
            yield _theme(name, (_DARK if theme.dark else _LIGHT)[depth], dark=theme.dark)


def theme_names() -> frozenset[str]:
    """The names of the console's two themes and of Textual's themes."""
    return frozenset((DARK_NAME, LIGHT_NAME, *BUILTIN_THEMES))
