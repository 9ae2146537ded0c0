"""Which root a command took is said where it is not obvious, above all where one lies within another."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from kits.command import COMMAND
from kits.command_line import LONGEST, REGISTRY, Desk


@pytest.fixture
def outer(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path / "outer", tmp_path / "home")
    for folder in (desk.root, desk.home):
        folder.mkdir()
    desk.write({"schemaVersion": 2, "sidecars": {"try.local": REGISTRY["sidecars"]["try.local"]}})
    desk.allow()
    inner = desk.root / "vendor" / "inner"
    inner.mkdir(parents=True)
    Desk(inner, desk.home).write({"schemaVersion": 2, "sidecars": {}})
    (inner / "deep").mkdir()
    return desk


def run_in(desk: Desk, folder: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    done: subprocess.CompletedProcess[bytes] = COMMAND.run(
        ["flytui", *words], desk.environ, folder, given, LONGEST
    )
    return done


def test_a_root_that_was_found_upwards_is_named(outer: Desk) -> None:
    inner = outer.root / "vendor" / "inner"
    told = run_in(outer, inner / "deep", "call", "try.echo", "--json").stderr.decode()
    assert told.startswith(f"root: {inner}\n")
    assert "root" not in run_in(outer, inner, "call", "try.echo", "--json").stderr.decode()
    named = run_in(outer, inner / "deep", "--root", str(inner), "call", "try.echo", "--json")
    assert "root" not in named.stderr.decode()


def test_a_root_within_one_that_is_open_is_warned_of(outer: Desk) -> None:
    inner = outer.root / "vendor" / "inner"
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "true"}}
    with outer.serving():
        for words in (("call", "try.echo", "--json"), ("hook", "claude-code", "--wait", "0"), ("mcp",)):
            given = json.dumps({**event, "cwd": str(inner)}).encode() if words[0] == "hook" else b""
            told = run_in(outer, inner, *words, given=given).stderr.decode()
            assert f"warning: this works on the root {inner}, which lies within {outer.root}" in told
        quiet = run_in(outer, inner, "--root", str(outer.root), "call", "try.echo", "--json")
        assert "warning" not in quiet.stderr.decode()
    # The record of a killed kernel is no open root.
    lock = next((outer.home / "state" / "flytui" / "roots").glob("*/kernel.lock"))
    record = {"pid": os.getpid(), "since": 1.0, "role": "headless", "started": 1}
    for path in lock.parent.parent.glob("*/kernel.lock"):
        path.write_text(json.dumps(record))
    assert "warning" not in run_in(outer, inner, "call", "try.echo", "--json").stderr.decode()


def test_the_person_of_the_open_root_is_asked_once_and_a_refusal_holds(outer: Desk) -> None:
    outer.trust()
    inner = outer.root / "vendor" / "inner"
    state = outer.home / "state" / "flytui" / "roots"
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "true"}}
    given = json.dumps({**event, "cwd": str(inner)}).encode()
    calls = (("call", "try.echo"), ("mcp",), ("hook", "claude-code", "--wait", "0"))

    def ends() -> list[tuple[int, bool]]:
        done = [run_in(outer, inner, *words, given=given if "hook" in words else b"") for words in calls]
        return [(one.returncode, b"a person refused" in one.stderr) for one in done]

    with outer.terminal() as console:
        console.until("Catalog")
        assert [refused for _, refused in ends()] == [False, False, False]
        questions = outer.document("approvals")["questions"]
        assert [(item["kind"], item["about"]) for item in questions] == [("nested", str(inner))]
        console.decide("r", lambda: any(state.glob("*/nested_roots.json")))
        console.until_so("no question waits", lambda: not outer.document("approvals")["questions"])
        assert ends() == [(4, True), (4, True), (2, True)]
        named = run_in(outer, inner, "--root", str(inner), "call", "try.echo")
        environ = {**outer.environ, "FLYTUI_ROOT": str(inner)}
        by_variable = COMMAND.run(["flytui", "call", "try.echo"], environ, inner, b"", LONGEST)
        for done in (named, by_variable):
            assert (done.returncode, b"refused" in done.stderr) == (3, False)
        assert outer.document("approvals")["questions"] == []
    lines = [
        json.loads(line) for log in state.glob("*/audit/*.jsonl") for line in log.read_text().splitlines()
    ]
    found = [(line["event"], line.get("choice")) for line in lines if line.get("kind") == "nested"]
    assert found == [("QUESTION_ASKED", None), ("QUESTION_ANSWERED", "refuse")]
