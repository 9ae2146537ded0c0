"""Suite S7: no path, link or race leads out of an anchor, with `openat2` and with the walk."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flysafe import openat2
from flysafe.beneath import OutsideAnchor, open_anchor, open_beneath, read_beneath, real_path_of

OPENS = 20_000 if os.environ.get("FLYTUI_SUITES") == "full" else 500
MOST_OPENS = 400_000
LIMIT = 4096


@pytest.fixture(params=["openat2", "walk"], autouse=True)
def _opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test here runs with either way of opening."""
    if request.param == "walk":
        monkeypatch.setattr(openat2, "available", lambda: False)
    elif not openat2.available():
        pytest.skip("this kernel has no openat2")


@pytest.fixture
def anchor(tmp_path: Path) -> Path:
    """An anchor with files and links of every kind, and a secret beside it."""
    root = tmp_path / "anchor"
    (root / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("secret")
    (root / "file").write_text("top")
    (root / "sub" / "file").write_text("sub")
    (root / "sub" / "deep" / "file").write_text("deep")
    (root / ("n" * 255)).write_text("long")
    (root / "dots...").write_text("dots")
    (root / "Case").write_text("case")
    for name, target in {
        "to-file": "file",
        "to-sub": "sub",
        "sub/up": "../file",
        "sub/deep/chain": "../../to-sub/deep/file",
        "dangling": "nowhere",
        "loop-a": "loop-b",
        "loop-b": "loop-a",
        "out": "../secret",
        "out-dir": "../other",
        "sub/out": "../../other",
        "abs": str(tmp_path / "secret"),
        "abs-inside": str(root / "file"),
        "proc-root": "/proc/self/root",
        "proc-cwd": "/proc/self/cwd",
        "out-and-in": "../anchor/file",
    }.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("file", b"top"),
        ("./file", b"top"),
        ("sub//file", b"sub"),
        ("sub/./deep/file", b"deep"),
        ("sub/../file", b"top"),
        ("sub/deep/../../sub/file", b"sub"),
        ("n" * 255, b"long"),
        ("dots...", b"dots"),
    ],
)
@pytest.mark.parametrize("links", [False, True])
def test_what_lies_below_opens(anchor: Path, path: str, content: bytes, links: bool) -> None:
    assert read_beneath(anchor, path, LIMIT, links=links) == content


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("to-file", b"top"),
        ("to-sub/file", b"sub"),
        ("to-sub/up", b"top"),
        ("sub/up", b"top"),
        ("sub/deep/chain", b"deep"),
        ("to-sub/../file", b"top"),
    ],
)
def test_links_that_stay_are_followed_only_where_allowed(anchor: Path, path: str, content: bytes) -> None:
    assert read_beneath(anchor, path, LIMIT, links=True) == content
    with pytest.raises(OSError, match="symbolic links") as refused:
        read_beneath(anchor, path, LIMIT)
    assert refused.value.errno == errno.ELOOP


@pytest.mark.parametrize(
    "path",
    [
        *("..", "../secret", "../../etc/passwd", "sub/../../secret", "/etc/passwd", "/", "//etc/passwd"),
        *("sub/deep/../../../other/file", "./../secret", "../anchor/file"),
    ],
)
@pytest.mark.parametrize("links", [False, True])
def test_a_path_that_leaves_is_refused(anchor: Path, path: str, links: bool) -> None:
    with pytest.raises(OutsideAnchor) as refused:
        read_beneath(anchor, path, LIMIT, links=links)
    assert refused.value.errno == errno.EXDEV
    assert refused.value.filename == path


@pytest.mark.parametrize(
    "path",
    [
        *("out", "out-dir/file", "sub/out/file", "to-sub/out/file", "abs", "abs-inside", "out-and-in"),
        *("proc-root/etc/passwd", "proc-cwd/file", "to-sub/../out"),
    ],
)
def test_a_link_that_leaves_is_refused(anchor: Path, path: str) -> None:
    with pytest.raises(OutsideAnchor):
        read_beneath(anchor, path, LIMIT, links=True)
    with pytest.raises(OSError, match="symbolic links"):
        read_beneath(anchor, path, LIMIT)


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("", errno.ENOENT),
        ("nowhere", errno.ENOENT),
        ("dangling", errno.ENOENT),
        ("loop-a", errno.ELOOP),
        ("file/", errno.ENOTDIR),
        ("file/.", errno.ENOTDIR),
        ("file/x", errno.ENOTDIR),
        ("file/..", errno.ENOTDIR),
        ("file.", errno.ENOENT),
        ("file ", errno.ENOENT),
        ("sub/.../file", errno.ENOENT),
        ("..\\secret", errno.ENOENT),
        ("case", errno.ENOENT),
        ("n" * 256, errno.ENAMETOOLONG),
        ("sub/../" * 700 + "file", errno.ENAMETOOLONG),
        ("file\0", errno.EINVAL),
        ("sub\0/../../secret", errno.EINVAL),
        ("\ud800", errno.EINVAL),
        ("sub", errno.EISDIR),
        (".", errno.EISDIR),
        ("pipe", errno.EINVAL),
    ],
)
def test_what_cannot_be_read_says_why(anchor: Path, path: str, number: int) -> None:
    with pytest.raises(OSError) as refused:  # noqa: PT011 - the number is compared below
        read_beneath(anchor, path, LIMIT, links=True)
    assert refused.value.errno == number


@pytest.mark.parametrize("links", [False, True])
def test_magic_links_are_never_followed(tmp_path: Path, links: bool) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    fd = os.open(secret, os.O_RDONLY)
    try:
        for path in (f"fd/{fd}", "cwd/anything", "root/etc/passwd", "exe"):
            with pytest.raises(OSError) as refused:  # noqa: PT011 - the number is compared below
                read_beneath(Path(f"/proc/{os.getpid()}"), path, LIMIT, links=links)
            assert refused.value.errno in (errno.ELOOP, errno.EXDEV)
    finally:
        os.close(fd)


def test_a_larger_file_is_not_read(anchor: Path) -> None:
    assert read_beneath(anchor, "file", 3) == b"top"
    with pytest.raises(OSError, match="larger than 2 bytes") as refused:
        read_beneath(anchor, "file", 2)
    assert refused.value.errno == errno.EFBIG


@pytest.fixture
def anchor_fd(anchor: Path) -> Iterator[int]:
    fd = open_anchor(anchor)
    yield fd
    os.close(fd)


def test_files_are_created_below_only(anchor: Path, anchor_fd: int) -> None:
    create = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    os.close(open_beneath(anchor_fd, "sub/new", create, 0o640))
    assert (anchor / "sub" / "new").stat().st_mode & 0o777 == 0o640
    for path in ("out-dir/new", "../new", "sub/out/new"):
        with pytest.raises(OutsideAnchor):
            open_beneath(anchor_fd, path, create, links=True)
    with pytest.raises(FileExistsError):
        open_beneath(anchor_fd, "out", create)
    assert sorted(path.name for path in (anchor.parent / "other").iterdir()) == ["file"]
    assert not (anchor.parent / "new").exists()


def test_a_path_descriptor_is_of_no_link_unless_asked_for(anchor: Path, anchor_fd: int) -> None:
    with pytest.raises(OSError, match="symbolic links"):
        open_beneath(anchor_fd, "out", os.O_PATH)
    for links in (False, True):
        fd = open_beneath(anchor_fd, "out", os.O_PATH | os.O_NOFOLLOW, links=links)
        assert real_path_of(fd) == str(anchor / "out")
        os.close(fd)


def test_descriptors_are_closed_and_not_inherited(anchor: Path, anchor_fd: int) -> None:
    before = set(os.listdir("/proc/self/fd"))
    fd = open_beneath(anchor_fd, "sub/deep/file", os.O_RDONLY)
    assert not os.get_inheritable(fd)
    assert not os.get_inheritable(anchor_fd)
    os.close(fd)
    for path in ("../secret", "sub/deep/nowhere", "out-dir/file", "loop-a"):
        with pytest.raises(OSError):  # noqa: PT011 - whichever: nothing may stay open
            open_beneath(anchor_fd, path, os.O_RDONLY, links=True)
    assert set(os.listdir("/proc/self/fd")) <= before


def test_the_real_path_follows_the_file(anchor: Path, anchor_fd: int) -> None:
    fd = open_beneath(anchor_fd, "to-sub/file", os.O_RDONLY, links=True)
    try:
        assert real_path_of(fd) == str((anchor / "sub" / "file").resolve())
        (anchor / "sub" / "file").rename(anchor / "moved")
        assert real_path_of(fd) == str((anchor / "moved").resolve())
        (anchor / "moved").unlink()
        with pytest.raises(FileNotFoundError):
            real_path_of(fd)
    finally:
        os.close(fd)


FLIP_LINK = """
import os, sys
os.chdir(sys.argv[1])
print("ready", flush=True)
while True:
    for target in ("inside", "../outside"):
        os.symlink(target, "next")
        os.rename("next", "flip")
"""
SWAP_FOLDER = """
import os, sys
os.chdir(sys.argv[1])
print("ready", flush=True)
while True:
    os.rename("flip", "kept")
    os.symlink("../outside", "flip")
    os.unlink("flip")
    os.rename("kept", "flip")
"""


@pytest.mark.suite
@pytest.mark.parametrize(("script", "links"), [(FLIP_LINK, True), (SWAP_FOLDER, True), (SWAP_FOLDER, False)])
def test_a_race_of_links_never_leads_out(tmp_path: Path, script: str, links: bool) -> None:
    root = tmp_path / "anchor"
    for name in (root / "inside", tmp_path / "outside"):
        name.mkdir(parents=True)
        (name / "file").write_text("inside" if name.name == "inside" else "outside")
    if script == SWAP_FOLDER:
        (root / "inside").rename(root / "flip")
    else:
        (root / "flip").symlink_to("inside")
    rival = subprocess.Popen([sys.executable, "-c", script, str(root)], stdout=subprocess.PIPE)
    try:
        assert rival.stdout is not None
        assert rival.stdout.readline() == b"ready\n"
        opened, refused = _open_repeatedly(root, links)
    finally:
        rival.kill()
        rival.wait()
        if rival.stdout is not None:
            rival.stdout.close()
    assert opened > 0
    assert refused > 0


def _open_repeatedly(root: Path, links: bool) -> tuple[int, int]:
    """Opens until the race was seen from both sides, but at least OPENS times."""
    opened = refused = 0
    while opened + refused < OPENS or not (opened and refused):
        assert opened + refused < MOST_OPENS, "the race never showed both sides"
        try:
            content = read_beneath(root, "flip/file", LIMIT, links=links)
        except OSError:
            refused += 1
            continue
        assert content == b"inside"
        opened += 1
    return opened, refused
