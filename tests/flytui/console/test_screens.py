"""How every screen looks: at 80 and 120 columns, in 24-bit and 256 colours, dark and light.

What is drawn is kept as text, one file a screen. `pytest --snapshot-update` takes all anew after a change
that is meant. `make screens` writes the same as pictures, and those of 160 columns. Sizes that no file is
kept for are in `test_main.py`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from flycore.audit.log import AuditLog
from flycore.client.audit_reader import AuditReader
from flytui.console.app import FlytuiApp
from kits.console import HandClock, console, press, settle
from kits.screen_grid import VARIANTS, Grid, Pictures, grid_of, resized, text_rows, use_variant
from kits.screens import SCENES, Scene
from kits.values import NOW

pytestmark = pytest.mark.anyio
SIZES = ((80, 24), (120, 36))
WIDE = (160, 45)
FOLDER = os.environ.get("FLYTUI_SCREENS", "")
"""Where pictures of all sizes, depths and themes are written; empty for nowhere."""


class TextFile(SingleFileSnapshotExtension):
    """One text file for each screen."""

    _write_mode = WriteMode.TEXT
    _file_extension = "txt"


@pytest.fixture
def reader(tmp_path: Path) -> AuditReader:
    """A log with a call that ran, one that failed and one that was denied."""
    folder, anchors = tmp_path / "audit", tmp_path / "anchors.jsonl"
    log = AuditLog.open(folder, anchors, clock=lambda: NOW, monotonic=lambda: 1.0)
    for number, status in enumerate(("success", "failed", "denied")):
        log.append("TOOL_CALLED", {"callId": f"c{number}", "tool": "file.hash", "caller": "claude"})
        log.append("TOOL_EXECUTED", {"callId": f"c{number}", "tool": "file.hash", "status": status})
    log.close()
    return AuditReader(folder, anchors)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_the_screen_looks_as_it_did(
    scene: Scene, reader: AuditReader, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLORTERM", "truecolor")
    time.tzset()
    clock, pictures = HandClock(), Pictures(scene.name)
    async with console(scene.place(), clock, SIZES[0], reader) as (app, pilot):
        await scene.show(app, pilot, clock)
        show_cursors(app)
        for size in SIZES:
            await resized(app, pilot, clock, size)
            pictures.sizes[size] = grid_of(app)
        # Colours do not depend on the size.
        for depth, theme in VARIANTS:
            await use_variant(app, pilot, depth, theme)
            if scene.again:
                await press(pilot, *scene.again)
                show_cursors(app)
                await resized(app, pilot, clock, SIZES[-1])
            pictures.variants.append(await grid_with_text(app, pilot, pictures.sizes[SIZES[-1]]))
            for size in (WIDE, *SIZES) if FOLDER else ():
                await resized(app, pilot, clock, size)
                write_picture(app, f"{scene.name}-{size[0]}-{depth}-{theme}")
    assert pictures.as_text() == snapshot(extension_class=TextFile)


async def grid_with_text(app: FlytuiApp, pilot: Pilot[None], wanted: Grid) -> Grid:
    """The cells that are drawn now. What is below a box may be that of another screen for some drawings after
    a change of theme, so it is drawn again where its text is another one: on a busy machine often."""
    for _ in range(200):
        grid = grid_of(app)
        if text_rows(grid) == text_rows(wanted):
            break
        for below in app.screen_stack:
            below.refresh(layout=True)
            await settle(pilot)
    return grid


def show_cursors(app: FlytuiApp) -> None:
    """Keep the cursors of all fields from blinking."""
    for field in app.screen.query("Input, TextArea").results(Input | TextArea):
        field.cursor_blink = False


def write_picture(app: FlytuiApp, name: str) -> None:
    """Write what is drawn as SVG into the folder of pictures."""
    Path(FOLDER).mkdir(parents=True, exist_ok=True)
    (Path(FOLDER) / f"{name}.svg").write_text(app.export_screenshot(simplify=True))
