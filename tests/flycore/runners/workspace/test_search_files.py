"""Searches: the engine of flytui, the reader of ripgrep's output, and both on the same files."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flycore.runners.workspace.project_files import Project
from flycore.runners.workspace.search_files import (
    BadPattern,
    FoundLine,
    Query,
    matcher,
    query_of,
    ripgrep_argv,
    ripgrep_lines,
    search,
    searched_place,
)
from kits.programs import needs
from kits.tables import each_row

QUERIES: list[dict[str, Any]] = [
    {"pattern": "two"},
    {"pattern": "TWO", "ignoreCase": True},
    {"pattern": "t\\w+", "regex": True},
    {"pattern": "^two$", "regex": True},
    {"pattern": "(", "path": "sub"},
    {"pattern": "two", "glob": "*.py"},
    {"pattern": "two", "path": "node_modules"},
    {"pattern": "two", "path": "a.txt"},
    {"pattern": "two", "path": "link"},
    {"pattern": "-two"},
    {"pattern": "é"},
]


@pytest.fixture
def project(folder: Path) -> Project:
    """Files of every kind that holds the word."""
    for name in ("sub", "node_modules", "sub/.git"):
        (folder / name).mkdir()
    (folder / "a.txt").write_bytes(b"one\ntwo\nthree\r\n-two\n")
    (folder / "sub" / "b.py").write_text("def two(): pass\n")
    (folder / "sub" / ".git" / "config").write_text("two")
    (folder / "node_modules" / "c").write_text("two\n")
    (folder / ".hidden").write_text("two")
    (folder / ".gitignore").write_text("sub\n")
    (folder / "line\nbreak").write_text("two")
    (folder / "binary").write_bytes(b"two\n\0\n")
    (folder / "latin").write_bytes(b"two \xe9\n")
    (folder / "link").symlink_to("sub")
    return Project(root=folder)


def lines(found: Any) -> list[tuple[str, int, str]]:
    return sorted((line["path"], line["line"], line["text"]) for line in found["matches"])


def test_what_flytui_finds(project: Project) -> None:
    assert lines(search(project, query_of({"pattern": "two"}), "", 0, 100)) == [
        (".hidden", 1, "two"),
        ("a.txt", 2, "two"),
        ("a.txt", 4, "-two"),
        ("latin", 1, "two \ufffd"),
        ("line\nbreak", 1, "two"),
        ("sub/b.py", 1, "def two(): pass"),
    ]


def test_pages_follow_each_other(project: Project) -> None:
    first = search(project, query_of({"pattern": "two"}), "a reason", 0, 4)
    assert (first["engine"], first["engineWhy"], first["nextOffset"]) == ("flytui", "a reason", 4)
    second = search(project, query_of({"pattern": "two"}), "", 4, 4)
    assert (len(lines(first)), len(lines(second)), "nextOffset" in second) == (4, 2, False)


@pytest.mark.parametrize("given", QUERIES, ids=str)
def test_both_engines_find_the_same(project: Project, given: dict[str, Any]) -> None:
    needs("rg")
    query = query_of(given)
    place, name = searched_place(project, query.path)
    argv = ripgrep_argv(shutil.which("rg") or "rg", query, name)
    done = subprocess.run(argv, cwd=project.root / place, capture_output=True, check=False)
    found = sorted(tuple(line) for line in ripgrep_lines(done.stdout, place))
    assert found == lines(search(project, query, "", 0, 1_000)), done.stderr


@each_row("pattern", ["(", "a(?=b)", "(a)\\1", "[", "a{1,100000}{1,100000}"])
def test_a_pattern_that_could_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        matcher(Query(pattern, True, False, ".", ""))


def test_a_nested_repetition_takes_linear_time() -> None:
    fits = matcher(Query("(a+)+$", True, False, ".", ""))
    assert not fits("a" * 100_000 + "!")


def message(kind: str, **data: Any) -> bytes:
    return json.dumps({"type": kind, "data": data}).encode() + b"\n"


def test_a_binary_file_of_ripgrep_is_left_out_and_a_torn_output_ends() -> None:
    match = message("match", path={"text": "./a"}, lines={"text": "two\n"}, line_number=3)
    begin, end = message("begin", path={"text": "./a"}), message("end", binary_offset=None)
    binary = message("end", binary_offset=12)
    found = FoundLine("sub/a", 3, "two")
    assert list(ripgrep_lines(begin + match + binary, "sub")) == []
    assert list(ripgrep_lines(begin + match + end + begin + match + binary, "sub")) == [found]
    assert list(ripgrep_lines(begin + match + end + begin + match[:-20], "sub")) == [found]
