"""The command palette: a command for everything that a key can do on the present screen.

Titles and descriptions come from the key table alone, so no name from outside enters the palette. It has no
command that decides a request, because the palette runs a command on Enter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from textual.app import App, SystemCommand
from textual.screen import Screen

from flytui.console.key_table import ENTRIES, SECTIONS
from flytui.console.screens.base import closes_for_view
from flytui.console.screens.main import MainScreen
from flytui.console.user_settings import KeyBindings


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


def show_main(app: App[None], act: Callable[[MainScreen], None], show_notice: Callable[[str], None]) -> None:
    """Close the screens over the main screen, and do something there. A screen that may not be closed stays,
    and a notice says so."""
    while closes_for_view(app.screen):
        app.pop_screen()
    if isinstance(app.screen, MainScreen):
        act(app.screen)
    else:
        show_notice("close this first")


def show_view(app: App[None], name: str, show_notice: Callable[[str], None]) -> None:
    """Close the screens over the main screen, and show that view of it."""
    show_main(app, lambda main: main.action_view(name), show_notice)
