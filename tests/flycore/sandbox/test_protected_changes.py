"""What becomes of protected paths that a call made."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from flycore.sandbox import protected_files
from flycore.sandbox.confinement import Confinement, Mount
from flycore.sandbox.protected_changes import Settled, settle
from flycore.sandbox.protected_files import ProtectedFiles, find_protected


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def found(root: Path, *, held: bool = True) -> ProtectedFiles:
    declared = Confinement(mounts=(Mount(str(root), writable=True),), cwd=str(root))
    return find_protected(declared, str(root), (), held=held, compared=False)


def settled(before: ProtectedFiles, root: Path) -> Settled:
    return settle(before, root.parent / "aside")


def test_a_call_that_touched_nothing_protected_is_clean(root: Path) -> None:
    before = found(root)
    (root / "src").mkdir()
    (root / "src/a").write_text("")
    assert settled(before, root).clean
    assert not (root.parent / "aside").exists()


def test_what_appeared_is_moved_with_everything_in_it(root: Path) -> None:
    before = found(root)
    (root / "a/.vscode").mkdir(parents=True)
    (root / "a/.vscode/tasks.json").write_text("evil")
    (root / "a/.vscode/CLAUDE.md").write_text("evil")
    after = settled(before, root)
    assert [name for name, _, _ in after.moved] == ["a/.vscode"]
    assert os.listdir(root / "a") == []
    assert (root.parent / "aside/a/.vscode/tasks.json").read_text() == "evil"
    assert settled(before, root).clean


@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_taken_rights_keep_nothing_in_its_place(root: Path, mode: int) -> None:
    before = found(root)
    (root / "a/.vscode").mkdir(parents=True)
    (root / "a/.vscode").chmod(mode)
    (root / "a").chmod(0o500)
    [(name, _, place)] = settled(before, root).moved
    assert (name, Path(place).is_dir(), os.listdir(root / "a")) == ("a/.vscode", True, [])
    assert (root / "a").stat().st_mode & 0o777 == 0o500
    (root / "a").chmod(0o700)


def test_on_another_file_system_it_stays_beside_its_place_under_a_name_that_nothing_looks_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def refused(source: Any, target: Any, **more: Any) -> None:
        if "dst_dir_fd" not in more:
            raise OSError(errno.EXDEV, "another file system")
        rename(source, target, **more)

    before = found(root)
    (root / ".mcp.json").write_text("evil")
    monkeypatch.setattr(os, "rename", refused)
    [(_, _, place)] = settled(before, root).moved
    assert os.listdir(root) == [place]
    assert found(root).files == ()


def test_files_that_no_mount_holds_are_compared(root: Path) -> None:
    for name in ("CLAUDE.md", ".npmrc", ".envrc"):
        (root / name).write_text("kept")
    (root / ".vscode").mkdir()
    (root / ".vscode/tasks.json").write_text("kept")
    before = found(root, held=False)
    (root / "CLAUDE.md").write_text("evil")
    (root / ".npmrc").unlink()
    (root / ".vscode/tasks.json").write_text("evil")
    (root / ".vscode/new.json").write_text("evil")
    after = settled(before, root)
    assert set(after.changed) == {"CLAUDE.md", ".npmrc", ".vscode/tasks.json"}
    assert [name for name, _, _ in after.moved] == [".vscode/new.json"]


def test_what_cannot_be_looked_through_is_not_clean(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = found(root)
    monkeypatch.setattr(protected_files, "MOST_NAMES", 3)
    for number in range(5):
        (root / str(number)).write_text("")
    after = settled(before, root)
    assert after.unread
    assert not after.clean
