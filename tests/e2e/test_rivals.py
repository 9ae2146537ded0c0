"""Who has a root: a second console, a kernel that serves a call, a console that is killed while one runs."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kits.console_processes import kill_with_kernel
from kits.scenes import IN_PROJECT, allow, assert_whole, call, described, holder, program, write_registry
from kits.terminals import BIN, Root, Tmux, console, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
WAITS = """#!/bin/sh
cat > /dev/null
echo $$ >> slow.started
while [ ! -e slow.go ]; do sleep 0.05; done
echo '{"ok": true, "said": "done"}'
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    root = make_root(tmp_path, "{}")
    write_registry(
        root,
        {
            "slow": {
                "command": program(root, "slow", WAITS),
                "tools": [described("slow.wait")],
                "permissions": IN_PROJECT,
            }
        },
    )
    allow(root, "slow.wait")
    root.trust()
    yield root
    beside(root, "go").touch()
    root.end()


def beside(root: Root, name: str) -> Path:
    """A file that the slow program leaves, or waits for."""
    return root.folder / f"slow.{name}"


def open_console(root: Root, tmux: Tmux) -> None:
    """Start a console in a shell that stays and says how it left."""
    command = f"{BIN / 'flytui'} --root {root.folder}; echo exit=$?; exec cat"
    tmux.open("sh", "-c", command)


def test_a_second_console_says_who_has_the_root(root: Root) -> None:
    with console(root) as first:
        first.sees(r"available +slow\.wait")
        other = Tmux(root)
        try:
            open_console(root, other)
            other.sees("Attached to")
            screen = " ".join(other.screen().split())
        finally:
            other.end()
        held = holder(root)
        assert held["role"] == "console"
        assert f"Attached to the console on pid {held['pid']}, since" in screen
        first.sees(r"available +slow\.wait")
        beside(root, "go").touch()
        code, result = call(root, "slow.wait", {})
        assert (code, result["status"]) == (0, "success")
    assert_whole(root)


def test_a_console_waits_for_a_call_and_then_takes_over(root: Root) -> None:
    slow = replace(root, forked=False).start("call", "slow.wait", "{}", "--json")
    until("the call runs", beside(root, "started").exists)
    held = holder(root)
    assert (held["role"], held["onDemand"]) == ("headless", True)
    tmux = Tmux(root)
    try:
        open_console(root, tmux)
        tmux.sees(rf"waiting for the kernel that a command started, pid {held['pid']}\b.*slow\.wait")
        assert slow.poll() is None
        beside(root, "go").touch()
        out, err = slow.communicate(timeout=60)
        assert (slow.returncode, json.loads(out)["status"]) == (0, "success"), err
        tmux.sees(r"available +slow\.wait")
        assert holder(root)["role"] == "console"
        code, result = call(root, "slow.wait", {})
        assert (code, result["status"]) == (0, "success")
    finally:
        tmux.end()
    assert_whole(root)


def test_a_killed_console_leaves_an_unknown_outcome_and_the_next_one_starts(root: Root) -> None:
    with console(root) as first:
        first.sees(r"available +slow\.wait")
        waiting = root.start("call", "slow.wait", "{}", "--json")
        until("the call runs", beside(root, "started").exists)
        plain = root.start("call", "slow.wait", "{}")
        # A call that is not in the log yet would be sent to the next kernel, and run there.
        until("both have started", lambda: len(_started(root)) == 2)
        os.kill(holder(root)["pid"], signal.SIGKILL)
        out, _ = waiting.communicate(timeout=60)
        result = json.loads(out)
        assert waiting.returncode == 7
        assert (result["status"], result["error"]["code"]) == ("unknown", "outcome-unknown")
        assert "check before you call again" in result["error"]["hint"]
        _, err = plain.communicate(timeout=60)
        assert plain.returncode == 7
        assert "outcome-unknown" in err
    beside(root, "go").touch()
    with console(root) as next_one:
        next_one.sees(r"available +slow\.wait")
        code, result = call(root, "slow.wait", {})
        assert (code, result["status"]) == (0, "success")
    assert_whole(root)
    assert len(_started(root)) == 3


def _started(root: Root) -> list[str]:
    """The ids of the calls whose start is in the log."""
    return [line["callId"] for line in root.audit() if line["event"] == "TOOL_STARTED"]


def test_a_dead_holders_lock_keeps_nobody_out(root: Root) -> None:
    with console(root) as tmux:
        tmux.sees(r"available +slow\.wait")
        pid = holder(root)["pid"]
        kill_with_kernel(tmux.pid)
    assert holder(root)["pid"] == pid
    beside(root, "go").touch()
    code, result = call(root, "slow.wait", {})
    assert (code, result["status"]) == (0, "success")
    said = root.flytui("status")
    assert not re.search(rf"\b{pid}\b", said.stdout)
