"""`archive.create` and `archive.extract` as a process."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest


@pytest.mark.parametrize("ending", ["zip", "tar", "tar.gz", "tgz"])
def test_packed_and_unpacked_it_is_the_same(starter, ending: str) -> None:
    source = starter.project / "source" / "deep"
    source.mkdir(parents=True)
    (source / "ü 🙂.txt").write_text("text")
    (source / "data").write_bytes(os.urandom(70_000))
    made = starter.call(
        "utility.local", "archive.create", {"paths": ["source"], "output": f"dist/new/a.{ending}"}
    )
    assert made.answer["ok"] is True, made
    archive = starter.project / "dist" / "new" / f"a.{ending}"
    assert made.answer["bytes"] == archive.stat().st_size
    assert made.answer["entries"] == 4
    assert made.answer["artifacts"][0]["path"] == str(archive)
    done = starter.call(
        "utility.local", "archive.extract", {"archive": f"dist/new/a.{ending}", "outputDir": "x/y"}
    )
    assert done.answer == {"ok": True, "outputDir": "x/y", "entries": 4, "bytes": 70_004}
    for name in ("ü 🙂.txt", "data"):
        assert (starter.project / "x/y/source/deep" / name).read_bytes() == (source / name).read_bytes()


def hostile(project: Path) -> None:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        way = tarfile.TarInfo("way")
        way.type, way.linkname = tarfile.SYMTYPE, "../.."
        archive.addfile(way)
        archive.addfile(tarfile.TarInfo("way/new"), io.BytesIO())
    (project / "bad.tar").write_bytes(held.getvalue())


def test_a_refused_archive_leaves_nothing_and_names_the_entry(starter) -> None:
    hostile(starter.project)
    done = starter.call("utility.local", "archive.extract", {"archive": "bad.tar", "outputDir": "out"})
    assert (done.code, done.answer["code"], done.answer["entry"]) == (1, "unsafe-entry", "way")
    assert sorted(path.name for path in starter.project.iterdir()) == ["bad.tar"]
    assert not (starter.project.parent / "new").exists()


@pytest.mark.parametrize(
    ("tool", "input", "code"),
    [
        ("archive.create", {"paths": ["../artifacts"], "output": "a.zip"}, "unsafe-entry"),
        ("archive.create", {"paths": ["/etc"], "output": "a.zip"}, "outside-project"),
        ("archive.create", {"paths": ["way"], "output": "a.zip"}, "os-error"),
        ("archive.create", {"paths": ["good.zip"], "output": "../a.zip"}, "outside-project"),
        ("archive.create", {"paths": ["good.zip"], "output": "good.zip"}, "exists"),
        ("archive.create", {"paths": ["good.zip"], "output": "out.rar"}, "invalid-input"),
        ("archive.create", {"paths": [], "output": "a.zip"}, "invalid-input"),
        ("archive.extract", {"archive": "good.zip", "outputDir": ".."}, "invalid-input"),
        ("archive.extract", {"archive": "good.zip", "outputDir": "way/in"}, "outside-project"),
        ("archive.extract", {"archive": "good.zip", "outputDir": "way"}, "exists"),
        ("archive.extract", {"archive": "../good.zip", "outputDir": "out"}, "outside-project"),
        ("archive.extract", {"archive": "none.zip", "outputDir": "out"}, "not-found"),
    ],
)
def test_nothing_leaves_the_project(starter, tool: str, input: dict[str, object], code: str) -> None:
    with zipfile.ZipFile(starter.project / "good.zip", "w") as archive:
        archive.writestr("a", "a")
    outside = starter.project.parent / "artifacts"
    (starter.project / "way").symlink_to(outside)
    before = (starter.project / "good.zip").read_bytes()
    done = starter.call("utility.local", tool, input)
    assert (done.code, done.answer["code"]) == (1, code), done
    assert list(outside.iterdir()) == []
    assert sorted(path.name for path in starter.project.iterdir()) == ["good.zip", "way"]
    assert (starter.project / "good.zip").read_bytes() == before
    assert not (starter.project.parent / "a.zip").exists()


def test_links_are_left_out_and_named(starter) -> None:
    folder = starter.project / "source"
    folder.mkdir()
    (folder / "kept").write_text("x")
    (folder / "way").symlink_to("/etc/passwd")
    made = starter.call("utility.local", "archive.create", {"paths": ["source"], "output": "a.tar"})
    assert made.answer["skipped"] == ["source/way"]
    with tarfile.open(starter.project / "a.tar") as archive:
        assert archive.getnames() == ["source", "source/kept"]


def test_progress_is_told(starter) -> None:
    for name in ("one", "two", "three"):
        (starter.project / name).write_bytes(os.urandom(9 << 20))
    made = starter.call(
        "utility.local", "archive.create", {"paths": ["one", "two", "three"], "output": "a.tar"}
    )
    assert [event["progress"] for event in made.events] == [18 << 20]
