"""What the console keeps between two starts: the theme that a person chose, and the notes of the first
start."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from textual.pilot import Pilot

from flytui.console.app import FlytuiApp
from flytui.console.console_memory import FIRST_NOTES, ConsoleMemory
from flytui.console.themes import LIGHT, THEME
from kits.console import HandClock, app_of, drawn, press, until
from kits.fake_kernel import world

pytestmark = pytest.mark.anyio


def file_in(folder: Path) -> Path:
    return folder / "state" / "console.json"


async def opened(app: FlytuiApp, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: app.state.catalog is not None)


async def test_a_chosen_theme_is_there_at_the_next_start_until_the_settings_name_another(
    tmp_path: Path,
) -> None:
    file = file_in(tmp_path)
    app = app_of(world(), HandClock())
    app.state.memory = ConsoleMemory(file)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(app, pilot)
        assert app.theme == THEME.name
        assert not file.exists()
        app.theme = LIGHT.name
        await until(pilot, file.exists)
    assert file.stat().st_mode & 0o777 == 0o600
    again = app_of(world(), HandClock())
    again.state.memory = ConsoleMemory(file)
    async with again.run_test(size=(100, 30)) as pilot:
        await opened(again, pilot)
        assert again.theme == LIGHT.name
    assert ConsoleMemory(file).theme("nord") == "nord"


async def test_each_first_note_is_one_line_and_is_dismissed_for_good(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    app = app_of(world(), HandClock())
    app.state.memory = ConsoleMemory(file)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        for at in range(len(FIRST_NOTES)):
            await until(pilot, lambda at=at: f"{at + 1}/4" in drawn(app, "#alert"))
            assert len(drawn(app, "#alert").splitlines()) == 1
            assert drawn(app, "#alert").endswith(FIRST_NOTES[at])
            await press(pilot, "n")
        await until(pilot, lambda: drawn(app, "#alert") == "")
        await until(pilot, lambda: file.exists() and json.loads(file.read_text())["notes"] == 4)
        await press(pilot, "n")
    assert ConsoleMemory(file).note == ""


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"notes": -3}', b'{"notes": "x"}', b"[" * 9_000, b" " * 100_000]
)
def test_a_damaged_file_begins_anew(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "console.json"
    file.write_bytes(content)
    memory = ConsoleMemory(file)
    assert memory.note.startswith("1/4")
    assert memory.theme("nord") == "nord"


def test_a_theme_that_is_gone_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / "console.json"
    file.write_text('{"theme": "no-such-theme", "themeInsteadOf": ""}')
    app = app_of(world())
    app.state.memory = ConsoleMemory(file)
    assert app._first_theme() == THEME.name


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    memory = ConsoleMemory(file_in(tmp_path))
    memory.dismiss_note()
    assert "not kept" in anyio.run(memory.save)
