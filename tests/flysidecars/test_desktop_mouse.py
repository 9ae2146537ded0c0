"""The mouse through the delegate: an xterm that reports it writes down what really happened."""

from __future__ import annotations

import re

import pytest

from flysidecars.computer.x11.target import TargetWindow
from flysidecars.computer.x11.windows import Display, ProtectedWindows
from flysidecars.sdk import ToolFailed

pytestmark = pytest.mark.e2e

REPORT_MOUSE = "\\x1b[?1002h\\x1b[?1006h"
REPORT = re.compile(r"\x1b\[<(\d+);(\d+);(\d+)([Mm])")


def mouse(starter, desktop, input: dict[str, object], **more: object):
    argv = {"argv": starter.argv("xdotool")}
    return starter.call(
        "computer.native", "computer.mouse", input, env=desktop.env, delegates={"mouse": argv}, **more
    )


def reports(terminal) -> list[tuple[str, str]]:
    """Button and press (`M`) or release (`m`), in order."""
    return [(found[0], found[3]) for found in REPORT.findall(terminal.received)]


CLICK, RIGHT, MIDDLE = ([(button, "M"), (button, "m")] for button in "021")
BUTTONS: list[tuple[str, dict[str, int], list[tuple[str, str]]]] = [
    ("click", {}, CLICK),
    ("double_click", {}, CLICK * 2),
    ("middle_click", {}, MIDDLE),
    ("right_click", {}, RIGHT),
    ("scroll", {"dy": 2}, [("65", "M")] * 2),
    ("scroll", {"dy": -1}, [("64", "M")]),
]


def test_buttons(starter, desktop, wait_for) -> None:
    terminal = desktop.recorder("one", "+100+100", REPORT_MOUSE)
    for action, more, expected in BUTTONS:
        before = len(reports(terminal))
        done = mouse(starter, desktop, {"action": action, "x": 150, "y": 160, "window": "one", **more})
        assert done.answer["ok"], done
        assert (done.answer["x"], done.answer["y"]) == (150, 160)
        whole = before + len(expected)
        wait_for(lambda whole=whole: len(reports(terminal)) >= whole, "the reports")
        assert reports(terminal)[before:] == expected, action


def test_drag_and_move(starter, bare_desktop, wait_for) -> None:
    terminal = bare_desktop.recorder("one", "+0+0", REPORT_MOUSE)
    drag = {"action": "drag", "x": 20, "y": 20, "toX": 150, "toY": 80, "window": "one"}
    assert mouse(starter, bare_desktop, drag).answer["ok"]
    wait_for(lambda: reports(terminal)[-1:] == [("0", "m")], "the release")
    assert reports(terminal)[0] == ("0", "M")
    assert ("32", "M") in reports(terminal)
    assert mouse(starter, bare_desktop, {"action": "move", "x": 33, "y": 44, "window": "one"}).answer["ok"]
    assert bare_desktop.xdotool("getmouselocation").startswith("x:33 y:44 ")


def test_the_window_behind_is_raised_first(starter, desktop, wait_for) -> None:
    behind = desktop.recorder("behind", "+100+100", REPORT_MOUSE)
    front = desktop.recorder("front", "+110+110", REPORT_MOUSE)
    assert mouse(starter, desktop, {"action": "click", "x": 200, "y": 200, "window": "behind"}).answer["ok"]
    wait_for(lambda: len(reports(behind)) == 2, "the reports")
    assert reports(front) == []


def test_a_covered_point_is_outside(bare_desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    behind = bare_desktop.recorder("behind", "+0+0")
    front = bare_desktop.recorder("front", "+0+0")
    bare_desktop.xdotool("windowraise", str(front.window))
    monkeypatch.setenv("DISPLAY", bare_desktop.display)
    with Display() as display:
        window = display.window(behind.window)
        assert window is not None
        covered = TargetWindow(display, window, ProtectedWindows(frozenset(), frozenset()))
        with pytest.raises(ToolFailed, match="covered") as failed:
            covered.require_point(30, 30)
    assert failed.value.code == "outside-target"


BAD_INPUT: list[tuple[dict[str, object], str]] = [
    ({"action": "click", "x": 700, "y": 10}, "outside-target"),
    ({"action": "drag", "x": 10, "y": 10, "toX": 790, "toY": 590}, "outside-target"),
    ({"action": "click", "x": 10}, "invalid-input"),
    ({"action": "click", "x": -1, "y": 1}, "invalid-input"),
    ({"action": "click", "x": 1.5, "y": 1}, "invalid-input"),
    ({"action": "click", "x": "10", "y": 1}, "invalid-input"),
    ({"action": "click", "x": True, "y": 1}, "invalid-input"),
    ({"action": "scroll", "x": 10, "y": 10, "dy": 101}, "invalid-input"),
    ({"action": "drag", "x": 10, "y": 10}, "invalid-input"),
    ({"action": "teleport", "x": 10, "y": 10}, "invalid-input"),
]


def test_bad_input_moves_nothing(starter, bare_desktop) -> None:
    terminal = bare_desktop.recorder("one", "+0+0", REPORT_MOUSE)
    before = bare_desktop.xdotool("getmouselocation")
    for bad, code in BAD_INPUT:
        done = mouse(starter, bare_desktop, bad | {"window": "one"})
        assert (done.code, done.answer["code"]) == (1, code), bad
    assert bare_desktop.xdotool("getmouselocation") == before
    assert reports(terminal) == []


def test_refused_window_and_changed_title(starter, desktop) -> None:
    console = desktop.recorder("console", "+0+0", REPORT_MOUSE)
    click = {"action": "click", "x": 30, "y": 60}
    seen = {"windowId": console.window, "title": "console", "pid": console.process.pid}
    done = mouse(starter, desktop, click, target=seen, refuse={"windowIds": [], "pids": [seen["pid"]]})
    assert done.answer["code"] == "window-refused"
    done = mouse(starter, desktop, click, target=seen | {"title": "was another"})
    assert done.answer["code"] == "target-changed"
    assert reports(console) == []
