"""The help: keys in groups, those of the pane with the focus first, and the search among them."""

from __future__ import annotations

import pytest

from flytui.console.key_table import SECTIONS
from flytui.console.screens.help import HelpScreen, help_lines
from flytui.console.screens.main import MainScreen
from flytui.console.user_settings import KeyBindings
from flytui.text.lines import text_of, width_of
from kits.console import HandClock, console, drawn, press, until
from kits.fake_kernel import world

pytestmark = pytest.mark.anyio
GROUPS = ("HERE", "EVERYWHERE", "LOOKING", "DECIDING", "WRITING")


def lines(search: str = "", width: int = 100) -> list[str]:
    return [text_of(row) for row in help_lines(KeyBindings(), ("catalog",), width, search)]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_key_is_in_exactly_one_group(width: int) -> None:
    rows = help_lines(KeyBindings(), ("catalog",), width)
    assert all(width_of(row) <= width for row in rows)
    text = [text_of(row).strip() for row in rows]
    at = [text.index(group) for group in GROUPS]
    assert at == sorted(at)
    titles = [part.title for part in SECTIONS]
    for title in set(titles):
        assert text.count(title) == titles.count(title), title
    assert at[0] < text.index("Catalog") < at[1]


def test_a_search_keeps_the_keys_with_all_of_its_words() -> None:
    found = [row for row in lines("ALLOW caller") if row.strip()]
    assert any(row.split()[:1] == ["l"] for row in found)
    assert len(found) < len(lines()) / 5
    assert [row.split()[0] for row in lines("ctrl+x") if "ctrl+x" in row] == ["ctrl+x"]
    assert "No key has these words" in "".join(lines("no such words"))


async def test_the_help_key_in_the_help_opens_the_search_and_escape_leaves_it() -> None:
    async with console(world(), HandClock(), (100, 30)) as (app, pilot):
        await press(pilot, "question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen) and "HERE" in drawn(app, "#page"))
        await press(pilot, "question_mark", *"undo q1:/")
        assert isinstance(app.screen, HelpScreen)
        await until(pilot, lambda: "No key has these words" in drawn(app, "#page"))
        await press(pilot, *["backspace"] * 5)
        await until(pilot, lambda: "Grants" in drawn(app, "#page") and "Doctor" not in drawn(app, "#page"))
        await press(pilot, "enter", "escape")
        assert isinstance(app.screen, HelpScreen)
        await until(pilot, lambda: "Doctor" in drawn(app, "#page"))
        await press(pilot, "s", *"undo", "enter", "4")
        assert isinstance(app.screen, MainScreen)
        await press(pilot, "question_mark", "q")
        assert isinstance(app.screen, MainScreen)


async def test_the_key_line_has_the_keys_of_the_search_while_it_is_written() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        await press(pilot, "question_mark")
        assert "s search" in drawn(app, "#keys")
        await press(pilot, "s", *"deny")
        assert drawn(app, "#keys") == " Enter keep the search  Esc clear it"
        await press(pilot, "enter")
        assert "s search" in drawn(app, "#keys")
        await press(pilot, "s", "escape")
        assert "s search" in drawn(app, "#keys")
