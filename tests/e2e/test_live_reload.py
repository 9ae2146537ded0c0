"""The registry is edited while the console is open: it follows, and a half-written file changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kits.scenes import (
    IN_PROJECT,
    REGISTRY,
    allow,
    assert_whole,
    call,
    described,
    flat,
    program,
    write_registry,
)
from kits.terminals import Root, Tmux, console, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
ECHO = """#!/bin/sh
cat > /dev/null
echo '{"ok": true, "said": "WORD"}'
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    root = make_root(tmp_path, "{}")
    write_registry(root, entries(root, "first"))
    allow(root, "first.say", "other.say")
    root.trust()
    yield root
    root.end()


def entries(root: Root, *names: str, **more: Any) -> dict[str, Any]:
    """Sidecars with one tool each."""
    return {
        name: {
            "command": program(root, name, ECHO.replace("WORD", name)),
            "tools": [described(f"{name}.say")],
            "cwd": "empty",
            **more,
        }
        for name in names
    }


def test_the_console_follows_the_file(root: Root) -> None:
    with console(root, 140, 50) as tmux:
        tmux.sees(r"available +first\.say")

        write_registry(root, entries(root, "first", "other"))
        tmux.sees("trust nothing now")
        tmux.sees(r"other +!this folder")
        tmux.keys("Enter")
        tmux.sees("bin-other/run")
        tmux.sees("keys ready ●")
        tmux.keys("Escape")
        tmux.sees(r"unavailable +other\.say")
        tmux.sees(r"came with")
        code, result = call(root, "other.say", {})
        assert (code, result["error"]["code"]) == (3, "folder-untrusted")
        assert call(root, "first.say", {})[1]["output"] == {"said": "first"}

        disabled = entries(root, "first", enabled=False, disabledReason="a rest")
        write_registry(root, disabled)
        tmux.sees(r"disabled +first\.say")
        tmux.lacks(r"other\.say")
        code, result = call(root, "first.say", {})
        assert (code, result["error"]["code"]) == (3, "disabled")
        assert "a rest" in json.dumps(result["error"])

        write_registry(root, entries(root, "first"))
        tmux.sees(r"available +first\.say")
        assert call(root, "first.say", {})[0] == 0
    assert_whole(root)


def test_a_half_written_file_keeps_the_last_good_one(root: Root) -> None:
    path = root.folder / REGISTRY
    with console(root, 140, 50) as tmux:
        tmux.sees(r"available +first\.say")
        whole = path.read_text()
        path.write_text(whole[: len(whole) // 2])
        tmux.sees(r"problems? in .*tools/external.tools.jsonc")
        tmux.sees(r"available +first\.say")
        assert call(root, "first.say", {})[1]["output"] == {"said": "first"}
        tmux.keys("p")
        tmux.sees("✗ error")
        screen = flat(tmux.screen())
        assert "tools/external.tools.jsonc:1:" in screen
        assert "^" in screen
        assert "→" in screen
        tmux.keys("Escape")
        listed = json.loads(root.flytui("catalog", "--json").stdout)
        broken = [item["position"] for item in listed["diagnostics"] if item["severity"] == "error"]
        assert [(place["file"], place["line"]) for place in broken] == [("tools/external.tools.jsonc", 1)]

        path.write_text(whole)
        tmux.lacks(r"problems? in .*tools/external.tools.jsonc")
        tmux.sees(r"available +first\.say")
        assert call(root, "first.say", {})[0] == 0
    assert_whole(root)


def test_a_call_in_flight_ends_under_the_entry_it_began_with(root: Root) -> None:
    slow = entries(root, "first", permissions=IN_PROJECT)
    write_registry(root, slow)
    root.trust()
    program(
        root,
        "first",
        ECHO.replace("cat > /dev/null", "cat > /dev/null; until [ -e go ]; do sleep 0.05; done"),
    )
    with console(root, 140, 50) as tmux:
        tmux.sees(r"available +first\.say")
        waiting = root.start("call", "first.say", "{}", "--json")
        until("it runs", lambda: any(line["event"] == "TOOL_STARTED" for line in root.audit()))
        write_registry(
            root, {**slow, "first": {**slow["first"], "enabled": False, "disabledReason": "a rest"}}
        )
        tmux.sees(r"disabled +first\.say")
        (root.folder / "go").touch()
        out, err = waiting.communicate(timeout=60)
        assert (waiting.returncode, json.loads(out)["output"]) == (0, {"said": "WORD"}), err
    assert_whole(root)


FORTUNE = """#!/bin/sh
case "$1" in
--schema) echo '{"name": "fortune", "description": "WORDS", "parameters": {"type": "object"}}' ;;
*) cat > /dev/null; echo '{"success": true, "result": "WORDS"}' ;;
esac
"""
BROKEN = """#!/bin/sh
echo 'no fortune today' >&2
exit 42
"""
GREET = """name: greet
description: Greets.
kind: command
exec:
  command:
    entrypoint: echo
    args: [hello]
    stdout: {format: text}
"""


class Follower:
    """Looks at the console while files change, and finds the tool that nobody touches in every catalog that
    is drawn."""

    def __init__(self, tmux: Tmux) -> None:
        self._tmux = tmux

    def sees(self, what: str) -> None:
        """Wait until that is on the screen."""
        until(f"/{what}/ on the screen", lambda: re.search(what, self._screen()) is not None)

    def lacks(self, what: str) -> None:
        """Wait until that is on the screen no more."""
        until(f"no /{what}/ on the screen", lambda: re.search(what, self._screen()) is None)

    def trusts(self) -> None:
        """Accept what waits for trust, by keys."""
        until("what waits, with keys that count", self._asks)
        self._tmux.decide("a")
        self.lacks("trust nothing now")

    def _asks(self) -> bool:
        """Whether the screen asks for trust and takes an answer. It opens by itself or by its key; that may
        have been pressed where the alert on the screen was still that of the change before."""
        screen = self._screen()
        if "trust nothing now" not in screen and "T shows" in screen:
            self._tmux.keys("T")
        return "trust nothing now" in screen and "keys ready ●" in screen

    def _screen(self) -> str:
        screen: str = self._tmux.screen()
        if "STATE" in screen:
            assert re.search(r"available +first\.say", screen), screen
        return screen


def put(path: Path, text: str) -> None:
    """Write a program whole, and put it in its place with one step, as installers do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.new")
    written.write_text(text)
    written.chmod(0o755)
    written.rename(path)


def test_executables_and_manifests_are_followed(root: Root) -> None:
    tool = root.folder / "tools/bin/fortune"
    manifest = root.folder / "tools/manifests/greet/tool.yml"
    allow(root, "first.say", "other.say", "fortune", "greet")
    with console(root, 140, 50) as tmux:
        follower = Follower(tmux)
        follower.sees(r"available +first\.say")

        put(tool, FORTUNE.replace("WORDS", "one"))
        follower.trusts()
        follower.sees(r"available +fortune")
        assert call(root, "fortune", {})[1]["output"] == {"result": "one"}

        put(tool, FORTUNE.replace("WORDS", "two"))
        follower.trusts()
        until("the new one answers", lambda: call(root, "fortune", {})[1].get("output") == {"result": "two"})

        put(tool, BROKEN)
        follower.trusts()
        follower.sees("no fortune today|exit code 42|schema")
        follower.lacks(r"available +fortune")

        tool.unlink()
        follower.lacks("fortune")

        put(manifest, GREET)
        follower.trusts()
        follower.sees(r"available +greet")
        assert "hello" in json.dumps(call(root, "greet", {})[1]["output"])

        put(manifest, GREET + "kind: python\n")
        follower.sees("the key kind is on line")
        put(manifest, GREET)
        follower.lacks("the key kind is on line")
        follower.sees(r"available +greet")

        manifest.unlink()
        follower.lacks("greet")
    assert_whole(root)
