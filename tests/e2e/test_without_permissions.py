"""A registry whose entries declare no permissions, as many are written: the tool lacks what it needs at its
first call, and works after a person has followed what flytui says, and nothing else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyjson5
import pytest

from flycore.sandbox.observation import why_not_observed
from kits.programs import needs_bubblewrap
from kits.scenes import REGISTRY, assert_whole, flat
from kits.terminals import BIN, PATIENCE, Root, Tmux, console, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
ENTRY = """{
  "schemaVersion": 2,
  "sidecars": {
    "utility.local": {
      "command": "./tools/packages/utility-local/bin/flyflor",
      "cwd": "app",
      "tools": ["file.hash"]
    }
  }
}
"""
HASHES = """#!/usr/bin/env python3
import hashlib, json, sys
path = json.loads(sys.stdin.readline())["input"]["path"]
try:
    digest = hashlib.sha256(open(path, "rb").read()).hexdigest()
except OSError as error:
    print(json.dumps({"ok": False, "error": f"cannot read {path}: {error.strerror}"}))
else:
    print(json.dumps({"ok": True, "algorithm": "sha256", "digest": digest}))
"""
CALL = ("call", "file.hash", "path=data.json", "--json")
LEARN = ("sandbox", "learn", "file.hash", "path=data.json", "--apply")
LINE = '"permissions": {"fs": {"read": ["data.json"]}}'


class Person:
    """Somebody at the console who does only what is on screen, or was printed, and counts it."""

    def __init__(self, root: Root, tmux: Tmux) -> None:
        self.root = root
        self.tmux = tmux
        self.steps: list[str] = []

    def presses(self, key: str, told: str) -> None:
        """Press the key that flytui names."""
        self.tmux.sees(told)
        self.tmux.keys(key)
        self.steps.append(key)

    def opens_trust(self) -> None:
        """Open the screen of trust. Where nobody has pressed a key for a while it opens by itself, which
        counts as a step all the same."""
        if "a trust" not in self.tmux.sees("T shows|a trust").string:
            self.tmux.keys("T")
        self.steps.append("T")

    def accepts(self, told: str) -> None:
        """Read the card that is open and accept it."""
        self.tmux.sees(told)
        self.tmux.read_card()
        self.tmux.decide("a")
        self.steps.append("a")

    def lets_it_run(self) -> None:
        """Approve the call that waits; each call of a program that starts in the project is asked about."""
        if "1 request waits" in self.tmux.sees("1 request waits|a approve once").string:
            self.tmux.keys("C-o")  # its card did not open by itself
        self.tmux.sees("a approve once")
        self.tmux.read_card()
        self.tmux.decide("a")

    def calls(self) -> dict[str, Any]:
        """Call the tool, let it run, and return the result."""
        called: subprocess.Popen[str] = self.root.start(*CALL)
        self.lets_it_run()
        out, err = called.communicate(timeout=PATIENCE)
        result = json.loads(out)
        assert isinstance(result, dict), err
        self.steps.append("call")
        return result


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    needs_bubblewrap()
    if why := why_not_observed():
        pytest.skip(f"NOT TESTED: {why}")
    root = make_root(tmp_path, ENTRY)
    program = root.folder / "tools/packages/utility-local/bin/flyflor"
    program.parent.mkdir(parents=True)
    program.write_text(HASHES)
    program.chmod(0o755)
    (root.folder / "data.json").write_text("the data")
    root.trust()
    yield root
    root.end()


def assert_lacks_a_permission(result: dict[str, Any]) -> None:
    error = result["error"]
    assert (result["status"], result["sandbox"], error["code"]) == (
        "failed",
        "enforced",
        "permission-missing",
    )
    assert error["message"].startswith("data.json lies outside what file.hash may read; ")
    assert f"write {LINE} at {REGISTRY}:4, and trust the entry again" in error["hint"]


def assert_works(person: Person) -> None:
    assert person.calls()["status"] == "success"
    entry = pyjson5.decode((person.root.folder / REGISTRY).read_text())["sidecars"]["utility.local"]
    assert entry["permissions"] == {"fs": {"read": ["data.json"]}}


def test_it_is_brought_to_work_in_the_console(root: Root) -> None:
    with console(root, 160, 50) as tmux:
        tmux.sees(r"available +file\.hash")
        person = Person(root, tmux)
        assert_lacks_a_permission(person.calls())
        tmux.keys("Home")
        tmux.sees(r"▌ ◐ degraded +file\.hash .*data\.json lies outside.*→ F")
        person.presses("F", "→ F")
        tmux.sees(r"/permissions/fs/read/0: \"data\.json\"")
        person.accepts("a add it")
        person.opens_trust()
        person.accepts("a trust")
        tmux.lacks("waits for trust")
        assert_works(person)
    assert person.steps == ["call", "F", "a", "T", "a", "call"]
    assert_whole(root)


def test_it_is_brought_to_work_by_commands(root: Root) -> None:
    with console(root, 160, 50) as tmux:
        tmux.sees(r"available +file\.hash")
        person, shell = Person(root, tmux), Tmux(root, 160, 50)
        try:
            shell.open(str(BIN / "flytui"), "--root", str(root.folder), *LEARN)
            person.lets_it_run()
            shell.sees(r"y/N")
            said = flat(shell.screen())
            assert "permission-missing" in said
            assert LINE in said
            shell.text("y")
            shell.keys("Enter")
            until("it is written", lambda: "permissions" in (root.folder / REGISTRY).read_text())
            person.steps += ["learn", "y"]
        finally:
            shell.end()
        person.opens_trust()
        person.accepts("a trust")
        tmux.lacks("waits for trust")
        assert_works(person)
    assert person.steps == ["learn", "y", "T", "a", "call"]
    assert_whole(root)
