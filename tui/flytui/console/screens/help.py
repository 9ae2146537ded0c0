"""The help page: the keys that are in force, those of the focused pane first, and what the states mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from flytui.console.key_table import SECTIONS, KeySection
from flytui.console.screens.base import PageScreen
from flytui.console.state import ConsoleState
from flytui.console.user_settings import KeyBindings, key_label
from flytui.console.widgets.text_input import FilterInput
from flytui.text.labels import STATE_MEANINGS
from flytui.text.lines import StyledLine, StyledText, Tone, keys_fitting, line, padded, span, wrap

_ARMING = (
    "A card opens by itself only when no key came for two seconds and no input holds text. Its approve keys"
    " arm 0.8 s after it was drawn and 0.5 s after the last key; earlier keys and pasted text are dropped."
    " Enter and the mouse never approve. High risk has to be read to its last line first. While a tool has"
    " its hands on keyboard and mouse, approving is off."
)


_GROUPS = (
    ("EVERYWHERE", ("app", "main")),
    (
        "LOOKING",
        (
            "list",
            "page",
            "help",
            "catalog",
            "sources",
            "starter",
            "jump",
            "activity",
            "call",
            "grants",
            "audit",
            "packages",
            "doctor",
        ),
    ),
    ("DECIDING", ("approvals", "card", "batch", "trust", "question", "pair", "pairing")),
    ("WRITING", ("words", "form", "pick", "edit")),
)
"""The groups of the help after the keys that work here, each with the sections of the key table in order."""


_ONLY_WITH_SEVERAL_ROOTS = frozenset(("app.root",))


class HelpScreen(PageScreen):
    """The keys in groups. The help key, pressed again, opens a line in which a person looks for a key by its
    words."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "search", "Search", show=False, id="help.search"),
    ]

    def __init__(self, state: ConsoleState, here: Sequence[str]) -> None:
        """Build the page. `here` names the key sections of the pane that had the focus."""
        super().__init__(state, "Help", self._lines)
        self._here = here
        self._search = FilterInput(id="help-search", placeholder="a key or words · Enter keeps · Esc clears")
        self._search.display = False

    def compose(self) -> ComposeResult:
        """Place the line to write in above the page."""
        header, *rest = super().compose()
        yield header
        yield self._search
        yield from rest

    def on_mount(self) -> None:
        """Give the keys to the page, not to the line that is hidden."""
        self.set_focus(self._page)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a person writes, letters are text."""
        return not (self.focused is self._search and action in ("search", "copy", "scroll"))

    def action_search(self) -> None:
        """Open the line to write in."""
        self._search.display = True
        self._focus(self._search)

    def action_close(self) -> None:
        """Clear the search where there is one; close the page where there is none."""
        if not self._search.display:
            self.dismiss()
            return
        self._search.value, self._search.display = "", False
        self._focus(self._page)

    @on(Input.Changed, "#help-search")
    def _on_search_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._page.rebuild()
        self._page.scroll_to(y=0, animate=False)

    @on(Input.Submitted, "#help-search")
    def _on_search_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._focus(self._page)

    def _focus(self, widget: Widget) -> None:
        """Give the keys to that widget, and show which ones it has."""
        self.set_focus(widget)
        self.changed(frozenset())

    def _lines(self, width: int) -> list[StyledLine]:
        left_out = frozenset() if self._state.shared.several else _ONLY_WITH_SEVERAL_ROOTS
        return help_lines(self._state.keys, self._here, width, self._search.value, left_out)

    def _keys(self, width: int) -> Sequence[StyledLine]:
        if self.focused is self._search:
            pairs = [("Enter", "keep the search"), ("page.close", "clear it")]
            return [keys_fitting(self._state.keys.hints(pairs), width)]
        pairs = [("help.search", "search"), ("↑↓ PgUp PgDn", "scroll"), ("page.close", "back")]
        return [keys_fitting(self._state.keys.hints(pairs), width)]


def help_screen(state: ConsoleState, here: Sequence[str]) -> HelpScreen:
    """The page that the help key opens. `here` names the key sections of the pane that had the focus."""
    return HelpScreen(state, here)


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


def help_lines(
    keys: KeyBindings,
    here: Sequence[str],
    width: int,
    search: str = "",
    left_out: frozenset[str] = frozenset(),
) -> list[StyledLine]:
    """The lines of the help in groups: the sections `here`, then those that work everywhere, then all others.
    With `search`, only the keys whose label, words or section contain all of its words. The keys of the
    actions `left_out` do nothing here."""
    first = [part for name in here for part in SECTIONS if part.screen == name]
    rows: list[StyledLine] = []
    for title, names in (("HERE", ()), *_GROUPS):
        parts = [part for name in names for part in SECTIONS if part.screen == name and part not in first]
        group: list[StyledLine] = []
        for part in parts if names else first:
            group += _section_lines(keys, part, width, search, left_out)
        if group:
            rows += [(), line(StyledText(" "), span(title, Tone.HEAD)), *group[1:]]
    return rows[1:] or [(), line(span(" No key has these words. Esc clears the search.", Tone.DIM))]


def _section_lines(
    keys: KeyBindings, part: KeySection, width: int, search: str, left_out: frozenset[str]
) -> list[StyledLine]:
    """The lines of one section, with an empty one before it; none where the search finds nothing in it."""
    rows: list[StyledLine] = []
    for entry in part.entries:
        if entry.id in left_out:
            continue
        pressed = keys.keys_for(entry.id) if entry.id else entry.default_keys
        label = " ".join(key_label(key) for key in pressed)
        text = f"{label} {entry.title} {entry.words} {part.title}".casefold()
        if all(word in text for word in search.casefold().split()):
            shown = (*padded((StyledText("   "), span(label, Tone.KEY)), 14), span(entry.words))
            rows += wrap(shown, width, 14)
    if not rows:
        return []
    words = [] if search else _words(part.screen, width)
    return [(), line(StyledText(" "), span(part.title, Tone.STRONG)), *rows, *words]


def _words(screen: str, width: int) -> list[StyledLine]:
    """Lines that explain the words of a screen; none where they need no explanation."""
    if screen == "card":
        return [(), *wrap(line(StyledText("   "), span(_ARMING)), width, 3)]
    if screen != "catalog":
        return []
    rows: list[StyledLine] = [()]
    for word, tone, what in STATE_MEANINGS:
        rows += wrap((*padded((StyledText("   "), span(word, tone)), 18), span(what)), width, 18)
    return rows
