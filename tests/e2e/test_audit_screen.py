"""The Audit screen as a person finds it: keys in a real terminal, a log that real calls wrote."""

from __future__ import annotations

from pathlib import Path

from kits.scenes import allow, call, described, program, write_registry
from kits.terminals import console, make_root, needs

SAYS = """#!/bin/sh
read -r request
printf '{"ok": true}\\n'
"""


def test_the_log_is_read_filtered_opened_and_checked_with_keys(tmp_path: Path) -> None:
    needs("tmux")
    root = make_root(tmp_path)
    command = program(root, "say", SAYS)
    write_registry(root, {"say": {"command": command, "tools": [described("say.one"), described("say.two")]}})
    allow(root, "say.one", "say.two")
    root.trust()
    for tool in ("say.one", "say.two"):
        assert call(root, tool, {})[0] == 0
    with console(root) as tmux:
        tmux.keys("5")
        tmux.sees(r"lines, newest last · ● whole")
        tmux.sees(r"TOOL_EXECUTED +say\.two")
        tmux.text("/say.one executed")
        tmux.keys("Enter")
        tmux.sees(r"(?m)^ 1 lines?, newest last")
        tmux.lacks(r"say\.two")
        tmux.keys("Enter")
        tmux.sees(r"(?m)^ status +success")
        tmux.sees(r"(?m)^ hash +[0-9a-f]{64}")
        tmux.keys("Escape")
        tmux.sees("newest last")
        tmux.keys("Escape")
        tmux.sees(r"say\.two")
        assert call(root, "say.two", {"n": 3})[0] == 0
        tmux.sees(r"(?s)say\.two(.*TOOL_EXECUTED +say\.two){2}")
        tmux.keys("f")
        tmux.sees("Nobody was asked yet")
        tmux.keys("Escape")
        [log] = (root.home / "state").glob("flytui/roots/*/audit/*.jsonl")
        log.write_bytes(log.read_bytes().replace(b'"say.one"', b'"say.TWO"', 1))
        tmux.sees("newest last")
        tmux.keys("v")
        tmux.sees(r"BROKEN at number \d+")
        tmux.sees("find out who wrote to it")
