"""What a folder in place consists of: everything but caches, ignored names, and what the tool writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flycore.sandbox import folders
from flycore.sandbox.folders import TooLargeError, folder_digest, ignore_rules
from kits.tables import each_row

RULES = "*.pyc\n/build\nout/\ndoc/*.txt\n!keep.pyc\na/**/z\n\\#x\nb/**\n**/deep\n[ab].log\n# a comment\n"


@each_row(
    ("path", "folder", "ignored"),
    [
        ("x.pyc", False, True),
        ("d/x.pyc", False, True),
        ("keep.pyc", False, False),
        ("build", True, True),
        ("s/build", True, False),
        ("out", True, True),
        ("out", False, False),
        ("s/out", True, True),
        ("doc/a.txt", False, True),
        ("doc/b/a.txt", False, False),
        ("a/z", False, True),
        ("a/b/c/z", False, True),
        ("#x", False, True),
        ("b/c/d", False, True),
        ("q/deep", False, True),
        ("a.log", False, True),
        ("c.log", False, False),
    ],
)
def test_patterns_of_gitignore(path: str, folder: bool, ignored: bool) -> None:
    assert ignore_rules(RULES)(path, folder) is ignored


def test_a_pattern_that_would_backtrack_is_tried_at_once() -> None:
    hostile = "/".join(["**"] * 30) + "/" + "*a" * 30 + "b"
    assert not ignore_rules(hostile)("/".join(["a" * 200] * 40), False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / "lib").mkdir(parents=True)
    (made / "run").write_text("one")
    (made / "lib" / "say").write_text("two")
    return made


def changes(folder: Path) -> dict[str, object]:
    """Each changes what the folder may run."""
    return {
        "content": lambda: (folder / "lib" / "say").write_text("new"),
        "new file": lambda: (folder / "lib" / "more").write_text(""),
        "removed": (folder / "lib" / "say").unlink,
        "renamed": lambda: (folder / "run").rename(folder / "ran"),
        "may run": lambda: (folder / "run").chmod(0o755),
        "a link": lambda: (folder / "link").symlink_to("run"),
        "a folder": (folder / "empty").mkdir,
    }


@pytest.mark.parametrize(
    "what", ["content", "new file", "removed", "renamed", "may run", "a link", "a folder"]
)
def test_every_change_is_seen(what: str, folder: Path) -> None:
    before = folder_digest(str(folder)).digest
    assert folder_digest(str(folder)).digest == before
    change = changes(folder)[what]
    assert callable(change)
    change()
    assert folder_digest(str(folder)).digest != before


def test_the_file_behind_a_link_counts(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("one")
    (folder / "link").symlink_to(outside)
    before = folder_digest(str(folder))
    outside.write_text("two")
    assert folder_digest(str(folder)).digest != before.digest
    assert before.left_out == ()
    (folder / "away").symlink_to(tmp_path)
    assert folder_digest(str(folder)).left_out == ("the folder that away leads to",)


def test_what_is_left_out_is_not_read_and_is_said(folder: Path) -> None:
    (folder / ".gitignore").write_text("ignored\n")
    for name in ("ignored", "written"):
        (folder / name).mkdir()
        os.mkfifo(folder / name / "pipe")
    written = (str(folder / "written"),)
    before = folder_digest(str(folder), written)
    assert set(before.left_out) == {"what .gitignore leaves out", "what the tool declares to write"}
    for name in ("ignored/x", "written/x", ".git/x", "__pycache__/x"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("new")
    assert folder_digest(str(folder), written).digest == before.digest
    (folder / ".gitignore").write_text("other\n")
    assert folder_digest(str(folder), written).digest != before.digest


@pytest.mark.parametrize(("limit", "value"), [("MOST_FILES", 2), ("MOST_BYTES", 5)])
def test_a_folder_above_the_limits_is_refused(
    limit: str, value: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, limit, value)
    with pytest.raises(TooLargeError, match="holds more"):
        folder_digest(str(folder))
