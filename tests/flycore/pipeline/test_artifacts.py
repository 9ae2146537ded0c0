"""A call's folder is empty and private when it gets it, whatever the call before did to it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from flycore.pipeline.artifacts import MOST_SPARE, ArtifactFolders


def leave_a_file(folder: Path) -> None:
    (folder / "made.txt").write_text("kept")


def hide_a_file(folder: Path) -> None:
    (folder / ".hidden").touch()


def open_it_to_all(folder: Path) -> None:
    folder.chmod(0o777)


def put_a_link_there(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("moved")


def take_it_away(folder: Path) -> None:
    folder.rmdir()


def test_an_untouched_folder_is_the_next_calls_under_its_name(tmp_path: Path) -> None:
    folders = ArtifactFolders(tmp_path / "artifacts")
    first = folders.take("one")
    inode = os.stat(first).st_ino
    folders.give_back(first, settled=True)
    second = Path(folders.take("two"))
    assert second == tmp_path / "artifacts" / "two"
    assert second.stat().st_ino == inode
    assert [entry.name for entry in (tmp_path / "artifacts").iterdir()] == ["two"]


@pytest.mark.parametrize("touch", [leave_a_file, hide_a_file, open_it_to_all, put_a_link_there, take_it_away])
def test_a_touched_folder_is_nobody_elses(tmp_path: Path, touch: Callable[[Path], None]) -> None:
    folders = ArtifactFolders(tmp_path)
    first = Path(folders.take("one"))
    touch(first)
    folders.give_back(str(first), settled=True)
    second = Path(folders.take("two"))
    about = second.lstat()
    assert stat.S_ISDIR(about.st_mode)
    assert stat.S_IMODE(about.st_mode) == 0o700
    assert list(second.iterdir()) == []


def test_what_a_call_made_stays(tmp_path: Path) -> None:
    folders = ArtifactFolders(tmp_path)
    first = Path(folders.take("one"))
    leave_a_file(first)
    folders.give_back(str(first), settled=True)
    folders.close()
    assert (first / "made.txt").read_text() == "kept"


def test_the_folder_of_a_call_with_survivors_is_not_used_again(tmp_path: Path) -> None:
    folders = ArtifactFolders(tmp_path)
    first = Path(folders.take("one"))
    folders.give_back(str(first), settled=False)
    assert not first.exists()
    assert Path(folders.take("two")).is_dir()


def test_a_spare_that_was_tidied_up_is_no_fault(tmp_path: Path) -> None:
    folders = ArtifactFolders(tmp_path)
    first = folders.take("one")
    folders.give_back(first, settled=True)
    os.rmdir(first)
    assert Path(folders.take("two")).is_dir()


def test_few_are_kept_and_none_after_closing(tmp_path: Path) -> None:
    folders = ArtifactFolders(tmp_path)
    taken = [folders.take(str(number)) for number in range(MOST_SPARE + 5)]
    for path in taken:
        folders.give_back(path, settled=True)
    assert len(list(tmp_path.iterdir())) == MOST_SPARE
    folders.close()
    assert list(tmp_path.iterdir()) == []


def test_one_that_somebody_may_still_hold_open_is_only_theirs_again(tmp_path: Path) -> None:
    folders = ArtifactFolders(tmp_path)
    first = folders.take("one", "a process")
    inode = os.stat(first).st_ino
    folders.give_back(first, settled=True, whose="a process")
    others = folders.take("two"), folders.take("three", "another process")
    assert inode not in [os.stat(other).st_ino for other in others]
    assert os.stat(folders.take("four", "a process")).st_ino == inode
    folders.close()
