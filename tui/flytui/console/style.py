"""The styles of the console's tones, and its style sheet. Its colours are those of the themes in `themes.py`.

The style sheet is a string, because Textual looks a file up beside the class of the application, which in
tests is a subclass elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec
from rich.color import Color as RichColor
from rich.style import Style
from textual.color import Color

from flytui.text.lines import Tone


class ToneColours(msgspec.Struct, frozen=True):
    """How text in a tone is drawn: the names of the theme's colours, `""` for that of the widget."""

    text: str = ""
    ground: str = ""
    bold: bool = False


TONES: Mapping[Tone, ToneColours] = {
    Tone.PLAIN: ToneColours(),
    Tone.DIM: ToneColours("dim"),
    Tone.STRONG: ToneColours(bold=True),
    Tone.GOOD: ToneColours("success"),
    Tone.WARN: ToneColours("warning"),
    Tone.BAD: ToneColours("warning", bold=True),
    Tone.ACCENT: ToneColours("accent"),
    Tone.ALARM: ToneColours("background", "error", bold=True),
    Tone.KEY: ToneColours("accent", bold=True),
    Tone.HEAD: ToneColours("background", "accent", bold=True),
    Tone.FIRST_ROOT: ToneColours("accent", bold=True),
    Tone.SECOND_ROOT: ToneColours("success", bold=True),
    Tone.THIRD_ROOT: ToneColours("secondary", bold=True),
    Tone.FOURTH_ROOT: ToneColours("foreground", bold=True),
    Tone.QUOTE: ToneColours(ground="panel"),
}
"""A table and no rules of the style sheet: Textual applies each of those to every widget, seen or not, again
at every change of focus."""


def tone_style(tone: Tone, variables: Mapping[str, str]) -> Style:
    """The style of a tone in the theme with these `App.theme_variables`, to be added to the widget's own. The
    style of `Tone.DIM` has no colour yet, because that may depend on the ground."""
    colours = TONES[tone]
    text = "" if tone is Tone.DIM else colours.text
    return _style(variables.get(text, ""), variables.get(colours.ground, ""), colours.bold)


def dim_style(ground: Color, variables: Mapping[str, str]) -> Style:
    """The style of `Tone.DIM` on a widget with that ground. A theme names its colour, and behind a blank how
    much of it there is, in percent; the rest is the ground's."""
    colour, _, share = variables[TONES[Tone.DIM].text].partition(" ")
    text = Color.parse(colour)
    if share:
        text = text.multiply_alpha(float(share.removesuffix("%")) / 100)
    return Style.from_color((ground + text).rich_color)


def ground_style(name: str, variables: Mapping[str, str]) -> Style:
    """The style that replaces only the ground, by the theme's colour of that name."""
    return _style("", variables[name], bold=False)


@lru_cache(maxsize=256)
def _style(text: str, ground: str, bold: bool) -> Style:
    return Style(color=_colour(text), bgcolor=_colour(ground), bold=bold or None)


def _colour(value: str) -> RichColor | None:
    """The colour for Rich; None for none, and for one that lets everything shine through."""
    colour = Color.parse(value) if value else None
    return colour.rich_color if colour is not None and colour.a > 0 else None


CSS = """
Screen { background: $background; layout: vertical; }
LineBar { height: 1; width: 1fr; }
LineView, VirtualList {
    height: 1fr;
    background: $background;
    scrollbar-size-vertical: 1;
    scrollbar-background: $background;
    scrollbar-background-hover: $background;
    scrollbar-background-active: $background;
    scrollbar-color: $panel;
    scrollbar-color-hover: $accent;
    scrollbar-color-active: $accent;
}
#header { background: $surface; }
#alert { background: $surface; }
#keys, #card-keys { background: $surface; }
ContentSwitcher { height: 1fr; }
CatalogView, ApprovalsView, ActivityView, GrantsView, AuditView, PackagesView, DoctorView { height: 1fr; }
#list-side { width: 1fr; }
#ladder { border-left: vkey $panel; }
#call-below { height: 50%; border-top: hkey $panel; }
#call-views, #call-columns { background: $surface; }
#notes { margin-bottom: 0; }
#check-fix, #starter-entry { background: $surface; }
#filter, #audit-filter, #activity-filter,
#help-search { height: 1; border: none; padding: 0 1; background: $panel; }
#filter:focus, #audit-filter:focus, #activity-filter:focus, #help-search:focus { border: none; }
#card-title { background: $panel; }
#card { border-left: outer $accent; }

PressAgainScreen, EnterCodeScreen, PairingRequestScreen, JumpScreen, TextPromptScreen, LeaseScreen,
RuleScreen, EditInputScreen {
    align: center middle;
    background: $background 70%;
}
.box {
    width: 72;
    max-width: 96%;
    height: auto;
    max-height: 90%;
    background: $surface;
    border: round $accent;
    padding: 0 1;
}
.box LineView { height: auto; max-height: 16; min-height: 4; background: $surface; }
.box LineBar { background: $surface; }
.box VirtualList { height: 14; background: $surface; }
.form { width: 96; height: 90%; }
.form LineView { height: 1fr; max-height: 100%; }
#edit { height: 1fr; min-height: 3; border: none; padding: 0; background: $panel; }
#edit:focus { border: none; }
#because { border: none; height: 1; padding: 0 1; background: $panel; }
#because:focus { border: none; }
#jump { border: none; height: 1; padding: 0 1; background: $panel; }
#jump:focus { border: none; }
#reason { border: none; height: 1; padding: 0 1; margin: 1 0; background: $panel; }
#reason:focus { border: none; }
#code { border: none; height: 1; padding: 0 1; margin: 1 0; background: $panel; }
#code:focus { border: none; }
"""
