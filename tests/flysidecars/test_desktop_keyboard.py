"""The keyboard through computer.native and the xdotool delegate, on a real X server."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from flysidecars.computer.x11.keymap import SpareKeys
from flysidecars.computer.x11.windows import Display

pytestmark = pytest.mark.e2e

NASTY = 'it\'s "quoted" $(rm -rf /tmp/x) `id` ;|&<>*?#!~ \\n \\\\ %s {} [] é ü ß ñ 日本語 Ω я 🙂🚀 €\tend'
EVERY_ASCII = "".join(map(chr, range(0x20, 0x7F)))
MANY_SIGNS = "".join(chr(0x4E00 + 7 * number) for number in range(45))


def delegates(starter) -> dict[str, object]:
    argv = starter.argv("xdotool")
    return {"keyboard": {"argv": argv}, "mouse": {"argv": argv}}


def keyboard(starter, desktop, input: dict[str, object], **more: object):
    return starter.call(
        "computer.native", "computer.keyboard", input, env=desktop.env, delegates=delegates(starter), **more
    )


def target(recorder, **changed: object) -> dict[str, object]:
    seen = {"windowId": recorder.window, "title": recorder.title, "pid": recorder.process.pid}
    return {"target": seen | changed}


def test_text_arrives_verbatim(starter, desktop, wait_for) -> None:
    terminal = desktop.recorder("one", "+0+0")
    desktop.recorder("two", "+300+200")
    text = NASTY + EVERY_ASCII
    done = keyboard(starter, desktop, {"action": "type", "text": text, "window": "one"})
    assert done.answer == {
        "ok": True,
        "action": "type",
        "typed": len(text),
        "window": {"id": terminal.window, "title": "one"},
    }
    wait_for(lambda: len(terminal.received) >= len(text), "the text")
    assert terminal.received == text


def test_more_signs_than_spare_keys_while_the_machine_is_busy(starter, bare_desktop, wait_for) -> None:
    terminal = bare_desktop.recorder("one", "+0+0")
    busy = [subprocess.Popen(("sh", "-c", "while :; do :; done")) for _ in range(3)]
    try:
        done = keyboard(starter, bare_desktop, {"action": "type", "text": MANY_SIGNS}, **target(terminal))
        wait_for(lambda: len(terminal.received) >= len(MANY_SIGNS), "the text")
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert done.answer["typed"] == len(MANY_SIGNS)
    assert terminal.received == MANY_SIGNS


def test_borrowed_keys_are_given_back(starter, bare_desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = bare_desktop.recorder("one", "+0+0")
    monkeypatch.setenv("DISPLAY", bare_desktop.display)

    def spare() -> int:
        with Display() as display, SpareKeys(display) as keys:
            return keys.count

    before = spare()
    assert before > 0
    assert keyboard(starter, bare_desktop, {"action": "type", "text": "日本"}, **target(terminal)).answer[
        "ok"
    ]
    assert spare() == before


def test_line_ends_are_the_return_key(starter, desktop, wait_for) -> None:
    terminal = desktop.recorder("one", "+0+0")
    done = keyboard(starter, desktop, {"action": "type", "text": "a\nb\r\n\nc"}, **target(terminal))
    assert done.answer["ok"]
    wait_for(lambda: terminal.received.endswith("c"), "the text")
    assert terminal.received == "a\rb\r\rc"


@pytest.mark.parametrize(
    ("keys", "received"),
    [("ctrl+c", "\x03"), ("Return", "\r"), ("enter", "\r"), ("esc", "\x1b"), ("shift+a", "A"), ("5", "5")],
)
def test_keys(starter, bare_desktop, wait_for, keys: str, received: str) -> None:
    terminal = bare_desktop.recorder("one", "+0+0")
    done = keyboard(starter, bare_desktop, {"action": "key", "keys": keys}, **target(terminal))
    assert done.answer["ok"]
    wait_for(lambda: terminal.received, "the key")
    assert terminal.received == received


BAD_INPUT: list[dict[str, object]] = [
    {"action": "key", "keys": "ctrl+nosuchkey"},
    {"action": "key", "keys": "ctrl++"},
    {"action": "key", "keys": "--help"},
    {"action": "key", "keys": "a b"},
    {"action": "key", "keys": "38+a"},
    {"action": "key", "keys": ""},
    {"action": "type", "text": ""},
    {"action": "type", "text": "a\x1b[31m"},
    {"action": "type", "text": "a\x00"},
    {"action": "type", "text": "a\x9b"},
    {"action": "type", "text": "x" * 20_001},
    {"action": "press"},
    {"action": "type"},
]


def test_bad_input_reaches_no_window(starter, bare_desktop) -> None:
    terminal = bare_desktop.recorder("one", "+0+0")
    answers = [keyboard(starter, bare_desktop, bad, **target(terminal)).answer for bad in BAD_INPUT]
    assert [answer["code"] for answer in answers] == ["invalid-input"] * len(BAD_INPUT)
    assert terminal.received == ""


def test_target_that_changed(starter, desktop, wait_for) -> None:
    terminal = desktop.recorder("one", "+0+0")
    seen = target(terminal)
    desktop.xdotool("set_window", "--name", "other", str(terminal.window))
    done = keyboard(starter, desktop, {"action": "type", "text": "x"}, **seen)
    assert (done.answer["code"], done.answer["expected"], done.answer["found"]) == (
        "target-changed",
        "one",
        "other",
    )
    done = keyboard(
        starter, desktop, {"action": "type", "text": "x"}, **target(terminal, title="other", pid=1)
    )
    assert done.answer["code"] == "target-changed"
    assert terminal.received == ""


def test_target_that_was_closed(starter, desktop) -> None:
    terminal = desktop.recorder("one", "+0+0")
    seen = target(terminal)
    terminal.process.terminate()
    terminal.process.wait()
    done = keyboard(starter, desktop, {"action": "type", "text": "x"}, **seen)
    assert (done.answer["code"], "closed" in done.answer["error"]) == ("target-changed", True)


def _family(desktop, window: int) -> tuple[int, int]:
    """A window's parent or itself, and its first child."""
    tree = subprocess.check_output(
        ("xwininfo", "-int", "-id", str(window), "-tree"), env=desktop.env, text=True
    ).splitlines()
    parent = next(line.split()[3] for line in tree if "Parent window id:" in line)
    child = tree[next(index for index, line in enumerate(tree) if "child" in line) + 1].split()[0]
    return int(parent), int(child)


@pytest.mark.parametrize("how", ["itself", "child", "frame", "pid", "target-is-child"])
def test_the_console_itself_is_refused(starter, desktop, how: str) -> None:
    console = desktop.recorder("console", "+0+0")
    desktop.focus(console)
    parent, child = _family(desktop, console.window)
    refuse = {
        "itself": {"windowIds": [console.window]},
        "child": {"windowIds": [child]},
        "frame": {"windowIds": [parent if desktop.managed else console.window]},
        "pid": {"pids": [console.process.pid]},
        "target-is-child": {"windowIds": [console.window]},
    }[how]
    seen = target(console, windowId=child, title="") if how == "target-is-child" else target(console)
    for chosen in (seen, {}):
        done = keyboard(starter, desktop, {"action": "type", "text": "a"}, refuse=refuse, **chosen)
        assert done.answer["code"] == "window-refused"
    assert console.received == ""


def test_a_refusal_that_is_not_understood_fails_closed(starter, bare_desktop) -> None:
    terminal = bare_desktop.recorder("one", "+0+0")
    typing = {"action": "type", "text": "x"}
    refusals = ([], {"windowIds": 5}, {"windowIds": ["7"]}, {"pids": [True]}, {"pids": [-1]}, {"pids": [7.0]})
    for refuse in refusals:
        done = keyboard(starter, bare_desktop, typing, refuse=refuse, **target(terminal))
        assert done.answer["code"] == "invalid-request", refuse
    assert terminal.received == ""


def test_stolen_focus_stops_the_typing(starter, desktop, wait_for) -> None:
    terminal = desktop.recorder("one", "+0+0")
    thief = desktop.recorder("two", "+300+200")
    text = "abcdefghij" * 60
    request = starter.request(
        "computer.keyboard",
        {"action": "type", "text": text},
        delegates=delegates(starter),
        **target(terminal),
    )
    with subprocess.Popen(
        starter.argv("computer.native"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=desktop.env
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(request)
        process.stdin.close()
        assert b"progress" in process.stdout.readline()
        desktop.focus(thief)
        answer = starter.read(process.stdout.read()).answer
    assert answer["code"] == "focus-lost"
    assert 200 <= answer["typed"] < len(text)
    wait_for(lambda: len(terminal.received + thief.received) >= answer["typed"], "what was typed")
    assert terminal.received + thief.received == text[: answer["typed"]]
    assert len(thief.received) <= 20


def test_ended_while_typing_leaves_no_key_down(starter, bare_desktop, wait_for) -> None:
    terminal = bare_desktop.recorder("one", "+0+0")
    request = starter.request(
        "computer.keyboard", {"action": "type", "text": "日" + "abc" * 500}, **target(terminal)
    )
    with subprocess.Popen(
        starter.argv("xdotool"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=bare_desktop.env,
        start_new_session=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(request)
        process.stdin.close()
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGTERM)
        process.stdout.read()
    assert process.returncode == 143
    typed = len(terminal.received)
    assert typed < 1501
    bare_desktop.xdotool("key", "z")
    wait_for(lambda: terminal.received.endswith("z"), "the next key")
    assert set(terminal.received[-3:-1]) <= set("abc")
    assert "aa" not in terminal.received


def test_window_by_id_part_of_a_title_and_focus(starter, desktop, wait_for) -> None:
    first = desktop.recorder("report draft", "+0+0")
    second = desktop.recorder("report final", "+300+200")
    for window, terminal in ((str(first.window), first), ("final", second), ("report draft", first)):
        before = len(terminal.received)
        assert keyboard(starter, desktop, {"action": "type", "text": "x", "window": window}).answer["ok"]
        wait_for(lambda terminal=terminal, before=before: len(terminal.received) > before, "the text")
    desktop.focus(second)
    done = keyboard(starter, desktop, {"action": "type", "text": "yy"})
    assert done.answer["window"]["id"] == second.window
    for window in ("report", "nothing like it", ""):
        done = keyboard(starter, desktop, {"action": "type", "text": "z", "window": window})
        assert (done.answer["code"], done.answer["field"]) == ("invalid-input", "window")
    assert "z" not in first.received + second.received


def test_nobody_has_the_focus(starter, bare_desktop) -> None:
    terminal = bare_desktop.recorder("one", "+0+0")
    done = keyboard(starter, bare_desktop, {"action": "type", "text": "x"})
    assert (done.answer["code"], "name a window" in done.answer["error"]) == ("invalid-input", True)
    assert terminal.received == ""
