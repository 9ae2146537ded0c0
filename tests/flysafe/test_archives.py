"""Archives: good ones go round, hostile ones leave nothing behind (suite S9)."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import shutil
import stat
import tarfile
import threading
import unicodedata
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flysafe.archives import ArchiveLimits, ArchiveRefused, Format, create, extract, format_of
from kits.hostile_archives import HOSTILE, member, tarred, zipped
from kits.tables import each_row

FULL = os.environ.get("FLYTUI_SUITES") == "full"
MUTATIONS = 3_000 if FULL else 300
FLIPS = 200 if FULL else 30


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Path]:
    """A folder with a target's parent and something outside of it that must stay as it is."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept.txt").write_text("kept")
    before = outside(tmp_path)
    yield tmp_path
    assert outside(tmp_path) == before


def outside(ground: Path) -> dict[str, bytes]:
    """Everything beside the target's parent."""
    found = {str(path): path.read_bytes() for path in (ground / "out").rglob("*") if path.is_file()}
    return found | {str(path): b"" for path in ground.iterdir() if path.name not in ("in", "archive")}


def run(ground: Path, data: bytes, kind: Format, limits: ArchiveLimits | None = None) -> object:
    """Extract `data` to `in/target`."""
    (ground / "archive").write_bytes(data)
    parent = os.open(ground / "in", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with (ground / "archive").open("rb") as source:
            return extract(source, kind, parent, "target", limits or ArchiveLimits())
    finally:
        os.close(parent)


def refused(ground: Path, data: bytes, kind: Format, code: str) -> ArchiveRefused:
    """It is refused with that code, and nothing of it stays."""
    with pytest.raises(ArchiveRefused) as caught:
        run(ground, data, kind)
    assert caught.value.code == code, caught.value
    assert list((ground / "in").iterdir()) == []
    return caught.value


@pytest.mark.suite
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_refused_whole(ground: Path, case: str) -> None:
    build, kind, code = HOSTILE[case]
    refused(ground, build(), kind, code)


def test_limits_count_what_is_written(ground: Path) -> None:
    data = zipped(("a", os.urandom(3_000)), ("b", os.urandom(3_000)))
    with pytest.raises(ArchiveRefused, match="more than 5000 bytes"):
        run(ground, data, Format.ZIP, ArchiveLimits(bytes=5_000))
    assert list((ground / "in").iterdir()) == []


def tree(folder: Path) -> dict[str, bytes | None]:
    """Relative paths to contents; None for a folder."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
    }


def packed(source: Path, paths: list[str], kind: Format, folder: Path, name: str) -> None:
    anchor, into = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (source, folder))
    try:
        create(anchor, paths, kind, into, name)
    finally:
        os.close(anchor)
        os.close(into)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..") and not set(name) & set("/\\:") and len(name.encode()) <= 60
)


@settings(
    deadline=None,
    max_examples=400 if FULL else 40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    files=st.dictionaries(
        NAMES.map(lambda name: name.casefold().rstrip(".") or "x"), st.binary(max_size=3_000), max_size=6
    ),
    kind=st.sampled_from(list(Format)),
)
def test_what_is_packed_comes_out_again(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], kind: Format
) -> None:
    base = tmp_path_factory.mktemp("round")
    source = base / "source"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "none").mkdir()
    folded = set[str]()
    for number, (name, data) in enumerate(files.items()):
        key = unicodedata.normalize("NFKC", name).casefold()
        if key in folded or "/" in key:
            continue
        folded.add(key)
        (source / ("deep/er" if number % 2 else "deep") / f"_{name}").write_bytes(data)
    (base / "in").mkdir()
    packed(source, ["deep"], kind, base, f"made.{kind.value}")
    run_at = os.open(base / "in", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with (base / f"made.{kind.value}").open("rb") as made:
            extract(made, kind, run_at, "target")
    finally:
        os.close(run_at)
    assert tree(base / "in" / "target") == tree(source)


def test_made_archives_are_read_by_others_and_made_the_same_twice(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "ü.txt").write_text("ü")
    os.symlink("/etc/passwd", source / "way")
    os.mkfifo(source / "pipe")
    for kind in Format:
        for name in ("one", "two"):
            packed(source, ["."], kind, tmp_path, f"{name}.{kind.value}")
        one, two = (tmp_path / f"{name}.{kind.value}" for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as read:
        assert sorted(read.namelist()) == ["run.sh", "ü.txt"]
        assert read.testzip() is None
    for kind in (Format.TAR, Format.TAR_GZ):
        with tarfile.open(tmp_path / f"one.{kind.value}") as tar:
            assert sorted(tar.getnames()) == ["run.sh", "ü.txt"]
            assert tar.getmember("run.sh").mode == 0o755


def test_nothing_that_is_there_is_replaced(ground: Path) -> None:
    target = ground / "in" / "target"
    target.mkdir()
    (target / "a").write_text("mine")
    with pytest.raises(ArchiveRefused) as caught:
        run(ground, zipped(("b", b"new"), ("a", b"theirs")), Format.ZIP)
    assert caught.value.code == "exists"
    assert tree(target) == {"a": b"mine"}
    run(ground, zipped(("b", b"new")), Format.ZIP)
    assert tree(target) == {"a": b"mine", "b": b"new"}
    assert [path.name for path in (ground / "in").iterdir()] == ["target"]


def test_a_target_that_is_a_link_is_refused(ground: Path) -> None:
    os.symlink(ground / "out", ground / "in" / "target")
    with pytest.raises(ArchiveRefused, match="a link or not a folder"):
        run(ground, zipped(("new.txt", b"x")), Format.ZIP)


def test_modes_give_no_more_than_a_new_file_has(ground: Path) -> None:
    info = member("tool")
    info.mode = 0o4777
    run(ground, tarred((info, b"x"), (member("plain"), b"y")), Format.TAR)
    target = ground / "in" / "target"
    assert not (target / "tool").stat().st_mode & (stat.S_ISUID | stat.S_IWOTH)
    assert (target / "tool").stat().st_mode & stat.S_IXUSR
    assert not (target / "plain").stat().st_mode & stat.S_IXUSR


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A good archive with a few bytes changed, cut, doubled or moved."""
    held = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(held))
        match chance.randrange(4):
            case 0:
                held[at] = chance.randrange(256)
            case 1:
                del held[at : at + chance.randint(1, 200)]
            case 2:
                held[at:at] = held[at : at + chance.randint(1, 200)]
            case _:
                held[at : at + 8] = chance.randbytes(8)
        if not held:
            break
    return bytes(held)


@pytest.mark.suite
def test_mutations_of_good_archives_never_leave_the_target(ground: Path) -> None:
    chance = random.Random(9)
    names = [("a/b/c.txt", b"hello " * 50), ("a/d", os.urandom(500)), ("e", b"")]
    tar = tarred(*((member(name), data) for name, data in names))
    good = {Format.ZIP: zipped(*names), Format.TAR: tar, Format.TAR_GZ: gzip.compress(tar)}
    came = 0
    for number in range(MUTATIONS):
        kind = list(Format)[number % 3]
        try:
            run(ground, mutated(good[kind], chance), kind)
        except ArchiveRefused:
            pass
        else:
            came += 1
        for path in (ground / "in").rglob("*"):
            assert not path.is_symlink()
        shutil.rmtree(ground / "in")
        (ground / "in").mkdir()
    assert 0 < came < MUTATIONS


@pytest.mark.suite
def test_a_folder_swapped_for_a_link_meanwhile_lets_nothing_out(ground: Path) -> None:
    """While files are written, somebody puts links where the folders are."""
    data = zipped(*((f"d{at % 5}/f{at}", b"x" * 2_000) for at in range(200)))
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                for part in os.listdir(ground / "in"):
                    for at in range(5):
                        swap(ground / "in" / part / f"d{at}")

    def swap(folder: Path) -> None:
        with contextlib.suppress(OSError):
            os.rename(folder, f"{folder}.away")
            os.symlink(ground / "out", folder)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for _ in range(FLIPS):
            with contextlib.suppress(ArchiveRefused, OSError):
                run(ground, data, Format.ZIP)
            shutil.rmtree(ground / "in", ignore_errors=True)
            (ground / "in").mkdir(exist_ok=True)
    finally:
        stop.set()
        thread.join()


@each_row(
    ("name", "kind"),
    [
        ("a.ZIP", Format.ZIP),
        ("a.tgz", Format.TAR_GZ),
        ("a.tar.gz", Format.TAR_GZ),
        ("a.tar", Format.TAR),
        ("a.gz", None),
    ],
)
def test_the_name_tells_the_format(name: str, kind: Format | None) -> None:
    assert format_of(name) is kind


def test_progress_can_give_up(ground: Path) -> None:
    class EnoughError(Exception):
        pass

    def told(entries: int, _: int) -> None:
        if entries == 2:
            raise EnoughError

    (ground / "archive").write_bytes(zipped(("a", b"1"), ("b", b"2"), ("c", b"3")))
    parent = os.open(ground / "in", os.O_RDONLY | os.O_DIRECTORY)
    source: IO[bytes]
    with (ground / "archive").open("rb") as source, pytest.raises(EnoughError):
        extract(source, Format.ZIP, parent, "target", on_progress=told)
    os.close(parent)
    assert list((ground / "in").iterdir()) == []
