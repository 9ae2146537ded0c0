"""Several roots on the command line: the console takes them, a command does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kits.command_line import Desk


@pytest.fixture
def other(tmp_path: Path) -> str:
    folder = tmp_path / "other"
    folder.mkdir()
    return str(folder)


def test_a_command_that_is_given_several_roots_is_refused(settled: Desk, other: str) -> None:
    here = str(settled.root)
    for words in (("--root", here, "--root", other, "status"), ("status", "--root", here, "--root", other)):
        done = settled.run(*words)
        assert done.returncode == 2
        assert "name one --root" in done.stderr
    assert settled.run("--root", here, "status", "--root", here, "--root", f"{here}/.").returncode == 0


def test_the_root_after_a_command_still_wins_over_the_one_before_it(settled: Desk, other: str) -> None:
    done = settled.run("--root", str(settled.root), "status", "--json", "--root", other)
    assert done.returncode == 0
    assert json.loads(done.stdout)["appRoot"] == other


@pytest.mark.parametrize("words", [("--all",), ("--all", "--json"), ("--root", ".", "--root", "..")])
def test_several_roots_open_at_a_terminal_only(settled: Desk, words: tuple[str, ...]) -> None:
    done = settled.run(*words)
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr


def test_all_before_a_command_is_refused(settled: Desk) -> None:
    done = settled.run("--all", "status")
    assert done.returncode == 2
    assert "opens the console" in done.stderr
