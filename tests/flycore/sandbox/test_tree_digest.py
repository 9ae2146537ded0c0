"""Trees: equal digests mean equal shape and bytes, copies stay inside, what is unchanged costs only stats."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from flycore.sandbox import digests as trees
from flycore.sandbox.digests import UnsealableError, copy_digest, copy_tree, tree_digest
from flysafe.beneath import open_beneath

Change = Callable[[Path], object]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small package: a program, a library folder, data, an empty folder, a link."""
    root = tmp_path / "package"
    (root / "lib").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "lib" / "code.py").write_text("x = 1\n")
    (root / "lib" / "data.bin").write_bytes(bytes(range(256)))
    (root / "lib" / "latest").symlink_to("../lib/code.py")
    return root


def modes(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.lstat().st_mode & 0o7777 for path in root.rglob("*")}


def test_an_untouched_copy_has_the_digest_of_its_source(package: Path, tmp_path: Path) -> None:
    digest = tree_digest(str(package))
    assert copy_tree(str(package), tmp_path / "copy") == digest
    assert copy_digest(str(tmp_path / "copy")) == digest
    assert modes(tmp_path / "copy") == {
        "run": 0o500,
        "empty": 0o500,
        "lib": 0o500,
        "lib/code.py": 0o400,
        "lib/data.bin": 0o400,
        "lib/latest": 0o777,
        "lib/__pycache__": 0o400,
    }
    assert (tmp_path / "copy" / "lib" / "latest").read_text() == "x = 1\n"


def _replace_link(root: Path) -> None:
    (root / "lib" / "latest").unlink()
    (root / "lib" / "latest").symlink_to("data.bin")


CHANGES: dict[str, Change] = {
    "content": lambda root: (root / "run").write_text("#!/bin/sh\nevil\n"),
    "same size": lambda root: (root / "lib" / "code.py").write_text("x = 2\n"),
    "mode": lambda root: (root / "lib" / "data.bin").chmod(0o755),
    "new file": lambda root: (root / "lib" / "sitecustomize.py").write_text(""),
    "new folder": lambda root: (root / "lib" / "new").mkdir(),
    "gone": lambda root: (root / "lib" / "data.bin").unlink(),
    "empty folder gone": lambda root: (root / "empty").rmdir(),
    "renamed": lambda root: (root / "lib").rename(root / "library"),
    "link": _replace_link,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_of_a_member_changes_the_digest(change: Change, package: Path) -> None:
    before = tree_digest(str(package))
    change(package)
    assert tree_digest(str(package)) != before


TOUCHES: dict[str, Change] = {
    **CHANGES,
    "cache file filled": lambda root: (root / "lib" / "__pycache__").write_bytes(b"x"),
    "cache file gone": lambda root: (root / "lib" / "__pycache__").unlink(),
}


@pytest.mark.parametrize("change", TOUCHES.values(), ids=TOUCHES)
def test_a_touched_copy_is_known_as_touched(change: Change, package: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    digest = copy_tree(str(package), copy)
    closed = {path: path.stat().st_mode for path in (copy, *copy.rglob("*")) if not path.is_symlink()}
    for path in closed:
        path.chmod(0o700)
    before = {path: path.stat().st_mode for path in closed}
    change(copy)
    for path, mode in closed.items():
        if path.exists() and path.stat().st_mode in (before[path], mode):
            path.chmod(mode)
    assert copy_digest(str(copy)) != digest


@pytest.mark.parametrize("name", [".", "lib", "run", "lib/data.bin", "lib/__pycache__"])
def test_a_copy_that_was_made_writable_is_known_as_touched(name: str, package: Path, tmp_path: Path) -> None:
    digest = copy_tree(str(package), tmp_path / "copy")
    (tmp_path / "copy" / name).chmod(0o700)
    assert copy_digest(str(tmp_path / "copy")) != digest


def test_times_owners_and_caches_do_not_count(package: Path) -> None:
    before = tree_digest(str(package))
    os.utime(package / "run")
    (package / "lib" / "__pycache__").mkdir()
    (package / "lib" / "__pycache__" / "code.cpython-311.pyc").write_bytes(b"planted")
    (package / "run").chmod(0o700)
    assert tree_digest(str(package)) == before


def test_a_planted_cache_is_not_copied(package: Path, tmp_path: Path) -> None:
    (package / "lib" / "__pycache__").mkdir()
    (package / "lib" / "__pycache__" / "code.cpython-311.pyc").write_bytes(b"planted")
    copy_tree(str(package), tmp_path / "copy")
    assert (tmp_path / "copy" / "lib" / "__pycache__").read_bytes() == b""


@pytest.mark.parametrize(
    "target",
    [
        "/etc/passwd",
        "../outside",
        "lib/../../outside",
        "up/../..",
        "loop",
        "lib/deep/../../../x",
        "{root}/run",
    ],
)
def test_a_link_that_leads_out_is_refused_and_never_copied(
    target: str, package: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_text("secret")
    (package / "up").symlink_to("lib")
    (package / "loop").symlink_to("loop" if target == "loop" else "run")
    (package / "bad").symlink_to(target.format(root=package))
    with pytest.raises(UnsealableError, match="leads out"):
        tree_digest(str(package))
    with pytest.raises(UnsealableError):
        copy_tree(str(package), tmp_path / "copy")


@pytest.mark.parametrize(
    "target", ["lib/code.py", "./lib/../run", "missing", "lib", "up/code.py", "up/../run"]
)
def test_a_link_that_stays_is_kept(target: str, package: Path, tmp_path: Path) -> None:
    (package / "up").symlink_to("lib")
    (package / "good").symlink_to(target)
    assert copy_tree(str(package), tmp_path / "copy") == tree_digest(str(package))
    assert os.readlink(tmp_path / "copy" / "good") == target


@pytest.mark.parametrize("kind", ["fifo", "socket", pytest.param("device", marks=pytest.mark.root)])
def test_what_is_no_file_is_refused(kind: str, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(package)  # a socket's name must be short
    if kind == "fifo":
        os.mkfifo(package / "odd")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("odd")
    else:
        try:
            os.mknod(package / "odd", 0o020600, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("no device can be made here")
    with pytest.raises(UnsealableError, match="no file, folder or link"):
        tree_digest(str(package))


def test_limits_of_number_size_and_depth(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MOST_MEMBERS", 6)
    with pytest.raises(UnsealableError, match="more files"):
        tree_digest(str(package))
    monkeypatch.setattr(trees, "MOST_MEMBERS", 100)
    monkeypatch.setattr(trees, "MOST_BYTES", 200)
    with pytest.raises(UnsealableError, match="more bytes"):
        tree_digest(str(package))
    monkeypatch.setattr(trees, "MOST_BYTES", 1000)
    monkeypatch.setattr(trees, "DEEPEST", 1)
    (package / "lib" / "deep").mkdir()
    with pytest.raises(UnsealableError, match="deeper"):
        tree_digest(str(package))


@pytest.mark.parametrize("name", [b"caf\xe9", "größe".encode(), b"new\nline", b"a" * 255, b"-rf"])
def test_any_name_can_be_sealed(name: bytes, package: Path, tmp_path: Path) -> None:
    (package / os.fsdecode(name)).write_text("x")
    digest = tree_digest(str(package))
    assert copy_tree(str(package), tmp_path / "copy") == digest == copy_digest(str(tmp_path / "copy"))


def test_an_unchanged_tree_of_a_thousand_files_costs_only_stats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "many"
    for folder in range(10):
        (root / str(folder)).mkdir(parents=True)
        for number in range(100):
            (root / str(folder) / str(number)).write_text(f"{folder} {number}")
    monkeypatch.setattr("flycore.sandbox.digests.SETTLED_NS", -1)
    first = tree_digest(str(root))
    opened: list[str] = []

    def counting(anchor: int, relative: str, flags: int) -> int:
        opened.append(relative)
        return open_beneath(anchor, relative, flags)

    monkeypatch.setattr("flycore.sandbox.digests.open_beneath", counting)
    assert tree_digest(str(root)) == first
    assert sorted(opened) == sorted([".", *map(str, range(10))])  # folders, and no file
    (root / "3" / "14").write_text("changed")
    opened.clear()
    assert tree_digest(str(root)) != first
    assert [name for name in opened if "/" in name] == ["3/14"]
