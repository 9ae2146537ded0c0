"""The command palette: a command for everything that a key can do on the present screen; and the tools,
sidecars, calls and roots whose names contain what is written.

A name from outside is drawn as plain text, never as markup. The palette has no command that decides a
request, because it runs a command on Enter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Protocol, cast

from rich.text import Text
from textual.app import App, SystemCommand
from textual.command import CommandPalette, Hit, Hits, Provider
from textual.screen import Screen
from textual.worker import Worker

from flysafe.text import safe_text
from flytui.console.key_table import ENTRIES, SECTIONS
from flytui.console.screens.base import ScreenTraits, closes_for_view
from flytui.console.screens.main import MainScreen
from flytui.console.state import ConsoleState
from flytui.console.user_settings import KeyBindings

MAX_HITS = 20
"""The most tools, sidecars or calls, each, that the palette shows for what is written."""
_NAME_SCORE, _PART_SCORE = 0.9, 0.6
"""How well a name fits that begins with what is written, and one that contains all of its words."""


class Palette(ScreenTraits, CommandPalette):
    """Textual's palette, without three ways in which a key ends the application: two keys at once that both
    close the palette, one that closes it before its first search begins, and a page key while its list has no
    room on the screen."""

    def run_worker(self, *args: Any, **options: Any) -> Worker[Any]:
        """Start a search. It does not end the application where the palette has gone before it begins and
        there is no list for what it finds."""
        return super().run_worker(*args, **{**options, "exit_on_error": False})

    def _action_command_list(self, action: str) -> None:
        # For a page key Textual looks up a line of the list. It has none where the list has no room, and it
        # forgets them where the width changes while they are counted.
        with suppress(KeyError):
            super()._action_command_list(action)


class NamesProvider(Provider):
    """Finds tools, sidecars and calls of the root that is shown, and the other roots. Before anything is
    written it offers none of them."""

    async def search(self, query: str) -> Hits:
        """Yield the hits for what is written, tools first."""
        state = cast("PaletteApp", self.app).state
        words = query.casefold().split()
        catalog = state.catalog
        others = ((root.name, "") for root in state.shared.roots if root is not state)
        for hit in self._hits(words, "root", others) if words else ():
            yield hit
        if not words or catalog is None:
            return
        found = [
            *self._hits(words, "tool", ((view.capability.name, "") for view in catalog.capabilities)),
            *self._hits(words, "sidecar", ((view.id, "") for view in catalog.sidecars)),
        ]
        from flytui.text.call_facts import call_effect

        calls = {call.call_id: call for call in state.activity}
        names = ((call.call_id, call_effect(catalog, call)) for call in calls.values())
        for hit in [*found, *self._hits(words, "call", names)]:
            yield hit

    def _hits(self, words: Sequence[str], kind: str, names: Iterable[tuple[str, str]]) -> Iterator[Hit]:
        """The first hits among names of one kind, each with a text that is searched and shown, too."""
        matching = (
            (name, text)
            for name, text in names
            if all(word in f"{kind} {name} {text}".casefold() for word in words)
        )
        for name, text in islice(matching, MAX_HITS):
            score = _NAME_SCORE if name.casefold().startswith(words[0]) else _PART_SCORE
            shown = safe_text(f"{kind}  {name}{'  ' if text else ''}{text}")
            act = partial(cast("PaletteApp", self.app).open_found, kind, name)
            yield Hit(score, Text(shown), act, text=safe_text(name))


class PaletteApp(Protocol):
    """What the palette needs of the application."""

    @property
    def state(self) -> ConsoleState:
        """The state of the root that is shown."""
        ...

    async def open_found(self, kind: str, name: str) -> None:
        """Show a tool, a sidecar, a call or a root."""
        ...


def palette_commands(
    app: App[None],
    screen: Screen[object],
    keys: KeyBindings,
    *,
    stop: Callable[[], None],
    probe_all: Callable[[], None],
    show_notice: Callable[[str], None],
) -> Iterator[SystemCommand]:
    """The commands of that screen's keys, then those that can be run everywhere."""
    views = next(part.entries for part in SECTIONS if part.screen == "main")
    for entry in views:
        if entry.title:
            name = entry.id.partition(".")[2]
            yield SystemCommand(
                entry.title,
                f"{keys.label(entry.id)} · {entry.words}",
                partial(show_view, app, name, show_notice),
            )
    done = {entry.id for entry in views}
    for active in screen.active_bindings.values():
        found = ENTRIES.get(active.binding.id or "")
        if found is None or not found.title or found.id in done:
            continue
        done.add(found.id)
        act = partial(app.run_action, active.binding.action, active.node)
        yield SystemCommand(found.title, f"{keys.label(found.id)} · {found.words}", act)
    panic = keys.label("app.panic")
    yield SystemCommand("Stop everything", f"{panic} {panic} · calls and leases end", stop)
    yield SystemCommand("Probe everything again", "ask every sidecar whether it is well", probe_all)
    yield SystemCommand("Theme", "other colours; the ones you choose are kept", app.action_change_theme)


async def show_main(
    app: App[None], act: Callable[[MainScreen], Awaitable[None]], show_notice: Callable[[str], None]
) -> None:
    """Close the screens over the main screen, and do something there. A screen that may not be closed stays,
    and a notice says so."""
    while closes_for_view(app.screen):
        app.pop_screen()
    if isinstance(app.screen, MainScreen):
        await act(app.screen)
    else:
        show_notice("close this first")


async def show_view(app: App[None], name: str, show_notice: Callable[[str], None]) -> None:
    """Close the screens over the main screen, and show that view of it."""
    await show_main(app, lambda main: main.action_view(name), show_notice)
