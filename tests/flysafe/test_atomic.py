"""Files that are whole, folders that are private."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flysafe.atomic import private_folder, write_atomic


@pytest.fixture(params=[0o000, 0o077])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_the_file_has_exactly_these_bytes_and_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "state.json"
    write_atomic(path, b"old", mode)
    write_atomic(path, b"new", mode)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == mode
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_reader_keeps_the_file_it_opened(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_atomic(path, b"old")
    with path.open("rb") as reader:
        write_atomic(path, b"new")
        assert reader.read() == b"old"


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("victim")
    write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "victim").read_bytes() == b"kept"
    assert not (tmp_path / "link").is_symlink()


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomic(tmp_path / "folder", b"data")
    assert os.listdir(tmp_path) == ["folder"]
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "missing" / "file", b"data")


def test_a_private_folder_and_its_parents_are_made_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        private_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    private_folder(tmp_path / "a" / "b")


def test_a_folder_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o755)
    private_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_a_folder_others_could_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(PermissionError, match="other users may write"):
        private_folder(folder)


def test_a_link_or_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").write_bytes(b"")
    for name in ("link", "dangling", "file"):
        with pytest.raises(PermissionError):
            private_folder(tmp_path / name)


@pytest.mark.root
def test_another_users_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    with pytest.raises(PermissionError, match="belongs to user 12345"):
        private_folder(folder)
