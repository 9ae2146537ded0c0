"""computer.native on Wayland and macOS. No compositor is at hand: grim, wtype, ydotool, screencapture and
osascript are fakes that write down how they were started; what the real ones do with it is not tested."""

from __future__ import annotations

import json
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

NASTY = 'it\'s "quoted" $(rm -rf x) `id` ;|& --help\n-k Return é 日本 🙂\tend'
ALLOWED = {"allowUncheckedTarget": True}
RECORDER = """#!{python}
# A fake: appends its arguments and stdin, then copies the answer that lies beside it, if any.
import json, os, shutil, sys
with open({seen!r}, "a") as file:
    file.write(json.dumps([sys.argv[1:], sys.stdin.buffer.read().decode()]) + "\\n")
if os.path.exists({seen!r} + ".png"):
    shutil.copyfile({seen!r} + ".png", sys.argv[-1])
if os.path.exists({seen!r} + ".out"):
    sys.stdout.write(open({seen!r} + ".out").read())
sys.exit(os.path.exists({seen!r} + ".fail"))
"""


@dataclass
class Session:
    """A session whose programs are all fakes."""

    starter: Any
    folder: Path
    env: dict[str, str]

    def fake(self, name: str) -> Path:
        seen = self.folder / f"{name}.seen"
        program = self.folder / "bin" / name
        program.write_text(RECORDER.format(python=sys.executable, seen=str(seen)))
        program.chmod(0o755)
        return seen

    def runs(self, name: str) -> list[list[Any]]:
        """Arguments and stdin of each start."""
        seen = self.folder / f"{name}.seen"
        return [json.loads(line) for line in seen.read_text().splitlines()] if seen.exists() else []

    def call(self, tool: str, given: dict[str, object], **more: object):
        delegates = {
            "keyboard": {"argv": self.starter.argv("wtype")},
            "mouse": {"argv": self.starter.argv("ydotool")},
        }
        return self.starter.call(
            "computer.native", tool, given, env=self.env, **{"delegates": delegates, **more}
        )

    def states(self, **more: object) -> dict[str, Any]:
        states: dict[str, Any] = self.call("screen.screenshot", {"probe": True}, **more).answer["tools"]
        return states


@pytest.fixture
def wayland(starter, tmp_path: Path) -> Session:
    (tmp_path / "bin").mkdir()
    env = starter.env | {"PATH": str(tmp_path / "bin"), "WAYLAND_DISPLAY": "wayland-7"}
    return Session(starter, tmp_path, env)


@pytest.fixture
def pointer(wayland: Session, tmp_path: Path) -> Session:
    """With ydotool, and the socket of its service."""
    wayland.fake("ydotool")
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(tmp_path / "y.sock"))
    wayland.env["YDOTOOL_SOCKET"] = str(tmp_path / "y.sock")
    return wayland


def test_grim_takes_the_picture(wayland: Session) -> None:
    seen = wayland.fake("grim")
    wayland.fake("gnome-screenshot")
    Image.new("RGB", (7, 5)).save(f"{seen}.png")
    done = wayland.call("screen.screenshot", {})
    assert done.answer["ok"], done
    assert (done.answer["width"], done.answer["height"], done.answer["engine"]) == (7, 5, "grim")
    [(argv, _)] = wayland.runs("grim")
    assert argv[:-1] == ["-t", "png"]
    assert [file.name for file in wayland.starter.artifacts.iterdir()] == ["screenshot.png"]
    assert wayland.runs("gnome-screenshot") == []


def test_a_program_that_gives_no_picture_is_followed_by_the_next(wayland: Session) -> None:
    wayland.fake("grim")
    done = wayland.call("screen.screenshot", {})
    assert (done.answer["code"], "grim gave no picture" in done.answer["error"]) == ("unavailable", True)
    seen = wayland.fake("spectacle")
    Image.new("RGB", (7, 5)).save(f"{seen}.png")
    assert wayland.call("screen.screenshot", {}).answer["engine"] == "spectacle"
    assert wayland.runs("spectacle")[0][0][:-1] == ["-b", "-n", "-f", "-o"]


def test_text_reaches_wtype_on_stdin(wayland: Session) -> None:
    wayland.fake("wtype")
    text = NASTY + "x" * 300
    done = wayland.call("computer.keyboard", {"action": "type", "text": text}, config=ALLOWED)
    assert done.answer["ok"], done
    assert done.answer["typed"] == len(text)
    assert "not checked" in done.answer["warnings"][0]
    runs = wayland.runs("wtype")
    assert "".join(stdin for _, stdin in runs) == text
    assert {tuple(argv) for argv, _ in runs} == {("-d", "8", "-")}


@pytest.mark.parametrize(
    ("keys", "argv"),
    [
        ("Return", ["-k", "Return"]),
        ("ctrl+s", ["-M", "ctrl", "-k", "s", "-m", "ctrl"]),
        ("Ctrl+win+left", ["-M", "ctrl", "-M", "logo", "-k", "Left", "-m", "logo", "-m", "ctrl"]),
    ],
)
def test_keys_become_wtype_s_arguments(wayland: Session, keys: str, argv: list[str]) -> None:
    wayland.fake("wtype")
    assert wayland.call("computer.keyboard", {"action": "key", "keys": keys}, config=ALLOWED).answer["ok"]
    assert wayland.runs("wtype") == [[argv, ""]]


def test_keys_that_are_none_start_nothing(wayland: Session) -> None:
    wayland.fake("wtype")
    for given in (
        {"action": "key", "keys": "ctrl"},
        {"action": "key", "keys": "a+b"},
        {"action": "key", "keys": "meta+a"},
        {"action": "key", "keys": "-k"},
        {"action": "type", "text": "a\x1b"},
    ):
        assert wayland.call("computer.keyboard", given, config=ALLOWED).answer["code"] == "invalid-input"
    assert wayland.runs("wtype") == []


MOVE = ["mousemove", "--absolute", "-x", "30", "-y", "40"]
POINTER: list[tuple[dict[str, object], list[list[str]]]] = [
    ({"action": "move"}, [MOVE]),
    ({"action": "click"}, [MOVE, ["click", "0xC0"]]),
    ({"action": "double_click"}, [MOVE, ["click", "--repeat", "2", "--next-delay", "80", "0xC0"]]),
    ({"action": "right_click"}, [MOVE, ["click", "0xC1"]]),
    ({"action": "middle_click"}, [MOVE, ["click", "0xC2"]]),
    ({"action": "scroll", "dy": 3}, [MOVE, ["mousemove", "--wheel", "-x", "0", "-y", "-3"]]),
]


def test_mouse_actions_become_ydotool_s_arguments(pointer: Session) -> None:
    before = 0
    for given, expected in POINTER:
        done = pointer.call("computer.mouse", {"x": 30, "y": 40, **given}, config=ALLOWED)
        assert done.answer["ok"], done
        runs = [argv for argv, _ in pointer.runs("ydotool")]
        assert runs[before:] == expected
        before = len(runs)


def test_a_drag_lets_go_at_its_end_and_when_it_fails(pointer: Session) -> None:
    drag = {"action": "drag", "x": 30, "y": 40, "toX": 110, "toY": 0}
    assert pointer.call("computer.mouse", drag, config=ALLOWED).answer["ok"]
    runs = [argv for argv, _ in pointer.runs("ydotool")]
    assert runs[:2] == [MOVE, ["click", "0x40"]]
    assert runs[-2:] == [["mousemove", "--absolute", "-x", "110", "-y", "0"], ["click", "0x80"]]
    assert len(runs) == 11
    assert (
        pointer.call("computer.mouse", {**drag, "toX": -1}, config=ALLOWED).answer["code"] == "invalid-input"
    )
    assert len(pointer.runs("ydotool")) == 11


@pytest.mark.parametrize("tool", ["computer.keyboard", "computer.mouse"])
def test_nothing_acts_on_a_target_that_nobody_checked(pointer: Session, tool: str) -> None:
    pointer.fake("wtype")
    given: dict[str, object] = {"action": "type", "text": "x"}
    if tool == "computer.mouse":
        given = {"action": "click", "x": 1, "y": 1}
    for config in ({}, {"allowUncheckedTarget": "yes"}, {"allowUncheckedTarget": 1}):
        done = pointer.call(tool, given, config=config)
        assert (done.answer["code"], "allowUncheckedTarget" in done.answer["remedy"]) == ("unavailable", True)
        state = pointer.states(config=config)[tool]
        assert (state["status"], "allowUncheckedTarget" in state["remedy"]) == ("unavailable", True)
    seen = {"windowId": 7, "title": "t", "pid": 1}
    assert pointer.call(tool, given, config=ALLOWED, target=seen).answer["code"] == "target-unchecked"
    assert pointer.call(tool, given | {"window": "t"}, config=ALLOWED).answer["code"] == "target-unchecked"
    assert pointer.runs("wtype") + pointer.runs("ydotool") == []
    assert pointer.states(config=ALLOWED)[tool]["status"] == "degraded"


def test_the_delegates_refuse_by_themselves(pointer: Session) -> None:
    pointer.fake("wtype")
    x11 = {name: value for name, value in pointer.env.items() if name != "WAYLAND_DISPLAY"}
    for name, tool, given in (
        ("wtype", "computer.keyboard", {"action": "type", "text": "x"}),
        ("ydotool", "computer.mouse", {"action": "move", "x": 1, "y": 1}),
    ):
        for env, config in ((pointer.env, {}), (x11, ALLOWED)):
            done = pointer.starter.call(name, tool, given, env=env, config=config)
            assert done.answer["code"] == "unavailable", done
    assert pointer.runs("wtype") + pointer.runs("ydotool") == []


def test_what_is_missing_is_named(wayland: Session) -> None:
    states = wayland.states(delegates={})
    assert "grim" in states["screen.screenshot"]["remedy"]
    assert "X11 session" in states["computer.window"]["remedy"]
    assert states["computer.keyboard"]["code"] == "delegate-missing"
    assert "wtype" in states["computer.keyboard"]["remedy"]
    assert "ydotool" in states["computer.mouse"]["remedy"]
    assert wayland.call("computer.window", {"action": "list"}).answer["code"] == "unavailable"
    for name, tool in (("wtype", "computer.keyboard"), ("ydotool", "computer.mouse")):
        asked = {"tool": tool, "given": {"probe": True}}
        done = wayland.starter.call(name, asked["tool"], asked["given"], env=wayland.env, config=ALLOWED)
        assert (done.answer["code"], f"install {name}" in done.answer["remedy"]) == ("unavailable", True)
    typed = wayland.call("computer.keyboard", {"action": "type", "text": "x"}, config=ALLOWED)
    assert (typed.answer["code"], "install wtype" in typed.answer["remedy"]) == ("unavailable", True)


def test_failures_of_wtype_are_structured(wayland: Session) -> None:
    seen = wayland.fake("wtype")
    Path(f"{seen}.fail").touch()
    done = wayland.call("computer.keyboard", {"action": "type", "text": "x"}, config=ALLOWED)
    assert (done.answer["code"], done.answer["exitCode"]) == ("wtype-failed", 1)


@pytest.mark.e2e
def test_windows_of_xwayland_are_listed_with_a_warning(starter, bare_desktop) -> None:
    terminal = bare_desktop.recorder("inside", "+0+0")
    env = bare_desktop.env | {"WAYLAND_DISPLAY": "wayland-7"}
    done = starter.call("computer.native", "computer.window", {"action": "list"}, env=env)
    assert [window["id"] for window in done.answer["windows"]] == [terminal.window]
    assert "XWayland" in done.answer["warnings"][0]
    done = starter.call("computer.native", "computer.window", {"probe": True}, env=env)
    assert done.answer["tools"]["computer.window"]["status"] == "degraded"
    forced = starter.call(
        "computer.native", "computer.window", {"probe": True}, env=env, config={"session": "x11"}
    )
    assert forced.answer["tools"]["computer.window"] == {"status": "healthy"}


def test_a_session_that_is_none(wayland: Session) -> None:
    done = wayland.call("screen.screenshot", {"probe": True}, config={"session": "windows"})
    assert (done.answer["code"], "config.session" in done.answer["error"]) == ("unavailable", True)


def test_macos_commands_say_that_they_are_untested(wayland: Session) -> None:
    config = {"session": "macos"}
    Image.new("RGB", (7, 5)).save(f"{wayland.fake('screencapture')}.png")
    done = wayland.call("screen.screenshot", {}, config=config)
    assert (done.answer["engine"], "never been tried" in done.answer["warnings"][0]) == (
        "screencapture",
        True,
    )
    title = "a 'b' \"c\""
    window = {"id": 0, "title": title, "pid": 3, "x": 1, "y": 2, "width": 30, "height": 20}
    Path(f"{wayland.fake('osascript')}.out").write_text(json.dumps([window]))
    done = wayland.call("computer.window", {"action": "list"}, config=config)
    assert done.answer["windows"] == [window]
    done = wayland.call("computer.window", {"action": "focus", "window": "'b'"}, config=config)
    assert (done.answer["window"], "never been tried" in done.answer["warnings"][0]) == (window, True)
    runs = wayland.runs("osascript")
    assert json.loads(runs[-1][1]) == {"id": 0, "title": title}
    assert all(title not in word for argv, _ in runs for word in argv)
    assert wayland.states(config=config)["computer.window"]["status"] == "degraded"
