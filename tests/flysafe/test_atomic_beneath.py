"""Replacing and making a file beneath an anchor."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from flysafe.atomic import create_beneath, replace_beneath
from flysafe.beneath import OutsideAnchor


def test_only_what_was_read_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"one")
    replace_beneath(tmp_path, "f", b"one", b"two")
    assert file.read_bytes() == b"two"
    for other in (b"on", b"one", b"twoo"):
        with pytest.raises(OSError, match=r"changed in the meantime|larger than") as refused:
            replace_beneath(tmp_path, "f", other, b"three")
        assert refused.value.errno in (errno.EBUSY, errno.EFBIG)
    assert file.read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_link_that_stays_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "real").write_bytes(b"one")
    (tmp_path / "f").symlink_to("deep/real")
    replace_beneath(tmp_path, "f", b"one", b"two")
    assert (tmp_path / "f").is_symlink()
    assert (tmp_path / "deep" / "real").read_bytes() == b"two"


def test_nothing_outside_is_replaced_or_made(tmp_path: Path) -> None:
    outside, anchor = tmp_path / "outside", tmp_path / "anchor"
    outside.mkdir()
    anchor.mkdir()
    (outside / "f").write_bytes(b"one")
    (anchor / "f").symlink_to(outside / "f")
    (anchor / "folder").symlink_to(outside)
    for name in ("f", "folder/f", "../outside/f"):
        with pytest.raises(OutsideAnchor):
            replace_beneath(anchor, name, b"one", b"two")
    for name in ("folder/new", "../outside/new"):
        with pytest.raises(OSError):  # noqa: PT011 - which one says the kernel; nothing is made
            create_beneath(anchor, name, b"two")
    assert [path.read_bytes() for path in outside.iterdir()] == [b"one"]


def test_what_is_there_is_never_made_anew(tmp_path: Path) -> None:
    create_beneath(tmp_path, "tools/f", b"one")
    with pytest.raises(FileExistsError):
        create_beneath(tmp_path, "tools/f", b"two")
    assert (tmp_path / "tools" / "f").read_bytes() == b"one"
