"""The registry is edited while the console is open: it follows, and a half-written file changes nothing."""

from __future__ import annotations

import json
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
from kits.terminals import Root, console, make_root, needs, until

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
