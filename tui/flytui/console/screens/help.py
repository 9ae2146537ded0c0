"""The help page: the keys that are in force, those of the focused pane first, and what the states mean."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App
from textual.screen import Screen

from flytui.console.key_table import SECTIONS
from flytui.console.screens.base import PageScreen
from flytui.console.state import ConsoleState
from flytui.console.user_settings import KeyBindings, key_label
from flytui.text.lines import StyledLine, StyledText, Tone, line, padded, span, wrap

_STATES = (
    ("● available", Tone.GOOD, "works, as far as the last probe and calls show"),
    ("◐ degraded", Tone.WARN, "works with a limit that the ladder names"),
    ("○ unavailable", Tone.BAD, "does not work; the list gives reason and remedy"),
    ("⊘ disabled", Tone.DIM, "switched off in the registry"),
    ("± changed", Tone.WARN, "its entry changed: the trusted value runs on, the new one waits for trust"),
)
_ARMING = (
    "A card opens by itself only when no key came for two seconds and no input holds text. Its approve keys"
    " arm 0.8 s after it was drawn and 0.5 s after the last key; earlier keys and pasted text are dropped."
    " Enter and the mouse never approve. High risk has to be read to its last line first. While a tool has"
    " its hands on keyboard and mouse, approving is off."
)


def help_screen(state: ConsoleState, here: Sequence[str]) -> PageScreen:
    """The page that the help key opens. `here` names the key sections of the pane that had the focus."""
    return PageScreen(state, "Help", lambda width: help_lines(state.keys, here, width))


def active_sections(screen: Screen[object]) -> tuple[str, ...]:
    """The sections of the key table that are in force on that screen, the nearest to the focus first. The
    keys of all lists come last."""
    chain = screen.focused.ancestors_with_self if screen.focused is not None else [screen]
    # The application binds some keys of the catalog, which work everywhere.
    nodes = [node for node in chain if not isinstance(node, App)]
    found = [
        (binding.id or "").partition(".")[0]
        for node in nodes
        for bindings in node._bindings.key_to_bindings.values()
        for binding in bindings
    ]
    here = [name for name in dict.fromkeys(found) if name and name not in ("app", "main", "list")]
    return (*here, *(["list"] if "list" in found else []))


def help_lines(keys: KeyBindings, here: Sequence[str], width: int) -> list[StyledLine]:
    """The lines of the help: the sections `here`, then the keys that work everywhere, then all others."""
    by_name = {part.screen: part for part in SECTIONS}
    first = [by_name[name] for name in here if name in by_name]
    everywhere = [by_name["app"], by_name["main"]]
    rest = [part for part in SECTIONS if part not in first and part not in everywhere]
    rows: list[StyledLine] = []
    for part in (*first, *everywhere, *rest):
        rows += [(), line(StyledText(" "), span(part.title, Tone.STRONG), _here_mark(part in first))]
        for entry in part.entries:
            pressed = keys.keys_for(entry.id) if entry.id else entry.default_keys
            drawn = span(" ".join(key_label(key) for key in pressed), Tone.KEY)
            rows += wrap((*padded((StyledText("   "), drawn), 14), span(entry.words)), width, 14)
        rows += _words(part.screen, width)
    return rows[1:]


def _here_mark(here: bool) -> StyledText:
    return span(" · here" if here else "", Tone.DIM)


def _words(screen: str, width: int) -> list[StyledLine]:
    """Lines that explain the words of a screen; none where they need no explanation."""
    if screen == "card":
        return [(), *wrap(line(StyledText("   "), span(_ARMING)), width, 3)]
    if screen != "catalog":
        return []
    rows: list[StyledLine] = [()]
    for word, tone, what in _STATES:
        rows += wrap((*padded((StyledText("   "), span(word, tone)), 18), span(what)), width, 18)
    return rows
