"""computer.native: windows, screenshots, probes, and what it says when something is missing."""

from __future__ import annotations

import ctypes.util
import io
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

from kits.programs import needs

pytestmark = pytest.mark.e2e

SHOOTER = """#!{python}
# A fake, in the manner of programs that save to the path that is their last argument.
import base64, sys
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAFCAAAAACs8akEAAAAFElEQVR4nGPk"
    "ZGBgYGBgYGLATwMAAk8AE8IC6PUAAAAASUVORK5CYII="
)
with open(sys.argv[-1], "xb") as file:
    file.write(base64.b64decode(PNG))
"""

INPUTS: dict[str, dict[str, object]] = {
    "screen.screenshot": {},
    "computer.window": {"action": "list"},
    "computer.mouse": {"action": "click", "x": 1, "y": 1},
    "computer.keyboard": {"action": "type", "text": "é"},
}
TOOLS = tuple(INPUTS)


def native(starter, desktop, tool: str, input: dict[str, object], **more: object):
    return starter.call("computer.native", tool, input, env=desktop.env, **more)


def test_windows_are_listed_and_focused(starter, desktop, wait_for) -> None:
    first = desktop.recorder("first", "+0+0")
    second = desktop.recorder("second é\u202e", "+300+200")
    desktop.focus(first)
    listed = native(starter, desktop, "computer.window", {"action": "list"}).answer["windows"]
    by_id = {window["id"]: window for window in listed}
    assert set(by_id) == {first.window, second.window}
    assert by_id[first.window]["focused"] is True
    assert by_id[first.window]["pid"] == first.process.pid
    assert by_id[second.window] | {"focused": False} == by_id[second.window]
    assert by_id[second.window]["title"] == "second é\u202e"
    assert by_id[second.window]["x"] >= 300
    assert by_id[second.window]["width"] > 100
    done = native(starter, desktop, "computer.window", {"action": "focus", "window": "second"})
    assert done.answer["window"]["id"] == second.window
    assert desktop.xdotool("getwindowfocus") == str(second.window)


def test_titles_are_data(starter, bare_desktop) -> None:
    terminal = bare_desktop.recorder("plain", "+0+0")
    title = 'a\x1b]0;x\x07"\\n\nWINDOW=1\n{"ok": true}'
    bare_desktop.xdotool("set_window", "--name", title, str(terminal.window))
    done = native(starter, bare_desktop, "computer.window", {"action": "list"})
    assert [window["title"] for window in done.answer["windows"]] == [title]
    assert b"\x1b" not in done.out
    assert done.out.count(b"\n") == 1


def test_focus_of_the_console_is_refused(starter, desktop) -> None:
    console = desktop.recorder("console", "+0+0")
    other = desktop.recorder("other", "+300+200")
    desktop.focus(other)
    done = native(
        starter,
        desktop,
        "computer.window",
        {"action": "focus", "window": "console"},
        refuse={"windowIds": [console.window], "pids": []},
    )
    assert done.answer["code"] == "window-refused"
    assert desktop.xdotool("getwindowfocus") == str(other.window)


def test_screenshot_into_the_artifacts(starter, bare_desktop) -> None:
    bare_desktop.recorder("one", "+0+0")
    done = native(starter, bare_desktop, "screen.screenshot", {})
    path = Path(done.answer["path"])
    assert path.parent == starter.artifacts.resolve()
    assert done.answer["artifacts"] == [
        {"path": str(path), "mimeType": "image/png", "bytes": path.stat().st_size}
    ]
    with Image.open(path) as picture:
        assert picture.size == (done.answer["width"], done.answer["height"]) == (800, 600)
        assert len(picture.convert("RGB").getcolors(1 << 20) or []) > 1


def test_screenshot_to_a_path_replaces_only_a_picture(starter, bare_desktop) -> None:
    (starter.project / "shots").mkdir()
    target = starter.project / "shots" / "now.png"
    for _ in range(2):
        done = native(starter, bare_desktop, "screen.screenshot", {"path": "shots/now.png"})
        assert done.answer["path"] == "shots/now.png"
        assert target.read_bytes().startswith(b"\x89PNG")
    target.write_text("notes")
    done = native(starter, bare_desktop, "screen.screenshot", {"path": "shots/now.png"})
    assert done.answer["code"] == "exists"
    assert target.read_text() == "notes"
    assert [file.name for file in target.parent.iterdir()] == ["now.png"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../out.png", "outside-project"),
        ("/tmp/out.png", "outside-project"),
        ("link/out.png", "outside-project"),
        ("picture.png", "exists"),
        ("picture.png/out.png", "outside-project"),
        ("shot.txt", "invalid-input"),
        (".png/..", "invalid-input"),
        ("", "invalid-input"),
    ],
)
def test_screenshot_paths_that_are_refused(starter, bare_desktop, path: str, code: str) -> None:
    outside = starter.project.parent / "outside"
    outside.mkdir()
    (outside / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (starter.project / "link").symlink_to(outside)
    (starter.project / "picture.png").symlink_to(outside / "picture.png")
    done = native(starter, bare_desktop, "screen.screenshot", {"path": path})
    assert done.answer["code"] == code
    assert [file.name for file in outside.iterdir()] == ["picture.png"]
    assert (outside / "picture.png").stat().st_size == 8


@pytest.fixture
def without_mss(tmp_path: Path) -> str:
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "mss.py").write_text("raise ImportError('not here')\n")
    return str(folder)


def test_scrot_is_the_second_way(starter, bare_desktop, require_programs, without_mss: str) -> None:
    require_programs("scrot")
    env = bare_desktop.env | {"PYTHONPATH": f"{without_mss}:{starter.sources}"}
    done = starter.call("computer.native", "screen.screenshot", {}, env=env)
    assert done.answer["ok"], done
    data = Path(done.answer["path"]).read_bytes()
    assert Image.open(io.BytesIO(data)).size == (800, 600)
    assert len(list(starter.artifacts.iterdir())) == 1


@pytest.mark.parametrize("name", ["gnome-screenshot", "spectacle"])
def test_further_screenshot_commands(
    starter, bare_desktop, tmp_path: Path, without_mss: str, name: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / name
    program.write_text(SHOOTER.format(python=sys.executable))
    program.chmod(0o755)
    env = bare_desktop.env | {"PYTHONPATH": f"{without_mss}:{starter.sources}", "PATH": str(folder)}
    done = starter.call("computer.native", "screen.screenshot", {"path": "shot.png"}, env=env)
    assert (done.answer["ok"], done.answer["engine"]) == (True, name), done
    assert (done.answer["width"], done.answer["height"]) == (7, 5)
    assert [file.name for file in starter.project.iterdir()] == ["shot.png"]
    assert list(starter.artifacts.iterdir()) == []


def test_no_way_to_take_a_picture(starter, bare_desktop, tmp_path: Path, without_mss: str) -> None:
    env = bare_desktop.env | {"PYTHONPATH": f"{without_mss}:{starter.sources}", "PATH": str(tmp_path)}
    done = starter.call("computer.native", "screen.screenshot", {}, env=env)
    assert (done.answer["code"], "scrot" in done.answer["remedy"]) == ("unavailable", True)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("display", [{}, {"DISPLAY": ":64999"}])
def test_no_display(starter, tool: str, display: dict[str, str]) -> None:
    if display and ctypes.util.find_library("X11") is None:
        needs("libX11")  # which no program is: without it, the answer names the library
    argv = {"argv": starter.argv("xdotool")}
    delegates = {"mouse": argv, "keyboard": argv}
    for asked in (INPUTS[tool], {"probe": True}):
        done = starter.call("computer.native", tool, asked, env=starter.env | display, delegates=delegates)
        assert (done.answer["ok"], done.answer["code"]) == (False, "unavailable"), done
        assert "DISPLAY" in done.answer["error"] + done.answer["remedy"]


@pytest.mark.parametrize("configured", [(), ("mouse",), ("mouse", "keyboard")])
def test_probe_names_missing_delegates(starter, bare_desktop, configured: tuple[str, ...]) -> None:
    delegates = {name: {"argv": starter.argv("xdotool")} for name in configured}
    done = native(starter, bare_desktop, "screen.screenshot", {"probe": True}, delegates=delegates)
    tools = done.answer["tools"]
    assert set(tools) == set(TOOLS)
    for name in ("mouse", "keyboard"):
        state = tools[f"computer.{name}"]
        assert state["status"] == ("healthy" if name in configured else "unavailable")
        if name not in configured:
            assert state["code"] == "delegate-missing"
            assert f"delegates.{name}" in state["remedy"]
    assert tools["screen.screenshot"] == tools["computer.window"] == {"status": "healthy"}


@pytest.mark.parametrize("name", ["computer.native", "xdotool"])
def test_probe_by_flag(starter, bare_desktop, name: str) -> None:
    done = starter.run(name, "--probe", env=bare_desktop.env)
    assert done.code == 0
    assert {state["status"] for state in done.answer["tools"].values()} == {"healthy"}


def test_probe_without_xdotool_names_the_package(starter, bare_desktop, tmp_path: Path) -> None:
    env = bare_desktop.env | {"PATH": str(tmp_path)}
    done = starter.call("computer.native", "screen.screenshot", {"probe": True}, env=env)
    tools = done.answer["tools"]
    assert tools["screen.screenshot"] == {"status": "healthy"}
    for tool in TOOLS[1:]:
        assert tools[tool]["status"] == "unavailable"
        assert "install xdotool" in tools[tool]["remedy"]
    done = starter.call("computer.native", "computer.window", {"action": "list"}, env=env)
    assert (done.answer["code"], "install xdotool" in done.answer["remedy"]) == ("unavailable", True)


@pytest.mark.parametrize("acts", [True, False])
def test_wmctrl_gives_a_window_the_focus_where_xdotool_is_not_installed(
    starter, bare_desktop, tmp_path: Path, acts: bool
) -> None:
    # It is spoken to as wmctrl is: -i -a NUMBER. The second one answers success and does nothing.
    does = f'exec {shutil.which("xdotool")} windowfocus "$3"' if acts else "exit 0"
    stand_in = tmp_path / "wmctrl"
    stand_in.write_text(f'#!/bin/sh\ntest "$1 $2" = "-i -a" || exit 9\n{does}\n')
    stand_in.chmod(0o755)
    env = bare_desktop.env | {"PATH": str(tmp_path)}
    bare_desktop.recorder("one", "+0+0")
    bare_desktop.recorder("two", "+300+0")
    listed = starter.call("computer.native", "computer.window", {"action": "list"}, env=env)
    (other,) = [window for window in listed.answer["windows"] if window["title"] == "one"]
    asked = {"action": "focus", "window": str(other["id"])}
    done = starter.call("computer.native", "computer.window", asked, env=env)
    if acts:
        assert (done.answer["ok"], done.answer["window"]["focused"]) == (True, True)
        listed = starter.call("computer.native", "computer.window", {"action": "list"}, env=env)
        assert [one["title"] for one in listed.answer["windows"] if one["focused"]] == ["one"]
    else:
        assert (done.answer["ok"], done.answer["code"]) == (False, "focus-failed")


@pytest.mark.parametrize("tool", ["mouse", "keyboard"])
def test_without_a_delegate_nothing_acts(starter, bare_desktop, tool: str) -> None:
    terminal = bare_desktop.recorder("one", "+0+0")
    typed = {"action": "type", "text": "x", "window": "one"}
    done = native(starter, bare_desktop, f"computer.{tool}", typed)
    assert (done.answer["ok"], done.answer["code"]) == (False, "unavailable")
    assert f"delegates.{tool}" in done.answer["remedy"]
    assert terminal.received == ""


@pytest.mark.parametrize("argv", [[], "xdotool", [1], ["/nowhere/at/all"], ["a\0b"]])
def test_delegates_that_cannot_be_started(starter, bare_desktop, argv: object) -> None:
    done = native(
        starter,
        bare_desktop,
        "computer.keyboard",
        {"action": "type", "text": "x"},
        delegates={"keyboard": {"argv": argv}},
    )
    assert done.answer["code"] in ("invalid-request", "delegate-failed")


def test_the_delegate_gets_the_same_request(starter, bare_desktop) -> None:
    delegates = {"keyboard": {"argv": starter.argv("mock.echo")}}
    sent = {"action": "type", "text": "é\u2028🙂"}
    done = native(starter, bare_desktop, "computer.keyboard", sent, delegates=delegates)
    assert done.answer == {"ok": True, "tool": "computer.keyboard", "echo": sent}
