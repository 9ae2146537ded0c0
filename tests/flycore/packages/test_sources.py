"""What a package may hold: hostile archives and folders, wrong checksums and metadata are refused, each with
its reason, and leave nothing behind (suite S12, with the archives of S9)."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flycore.model.enums import PackageResult
from flycore.packages import actions
from flycore.packages.area import PackageArea, PackageRefused, open_area
from flycore.packages.inventory import list_area
from flycore.packages.stage import stage
from flycore.packages.tree import checksum, read_tree
from flysafe.archives import Format
from kits.hostile_archives import HOSTILE
from kits.packages import REGISTRY, Example, area_in, checksum_of, python_example, shell_example

FULL = os.environ.get("FLYTUI_SUITES") == "full"
LARGE = ("20000-tar", "20000-zip", "gz-bomb", "zip-bomb", "header-bomb")
"""Archives that take seconds to make. The tests of `flysafe.archives` have them in every run."""
CASES = [case for case in HOSTILE if FULL or case not in LARGE]
ENDINGS = {Format.ZIP: "zip", Format.TAR: "tar", Format.TAR_GZ: "tar.gz"}


def refused(area: PackageArea, source: Path) -> PackageRefused:
    """It is refused, and neither a folder nor a record nor a registry is left of it."""
    with open_area(area) as opened, pytest.raises(PackageRefused) as caught:
        stage(opened, source, core="0.1.0", known=frozenset(), now=1.0)
    assert list((area.base / area.folder / ".staging").iterdir()) == []
    assert not (area.registry_anchor / f"{area.registry}.next").exists()
    assert list_area(area) == ()
    assert (area.registry_anchor / area.registry).read_text() == REGISTRY
    return caught.value


@pytest.mark.suite
@pytest.mark.parametrize("case", CASES)
def test_a_hostile_archive_is_refused_whole(tmp_path: Path, case: str) -> None:
    build, kind, code = HOSTILE[case]
    archive = tmp_path / f"package.{ENDINGS[kind]}"
    archive.write_bytes(build())
    assert refused(area_in(tmp_path), archive).code == code


def make_link(root: Path) -> None:
    (root / "way").symlink_to("/etc")


def make_pipe(root: Path) -> None:
    os.mkfifo(root / "pipe")


def make_socket(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(root / "s"))


def make_case(root: Path) -> None:
    (root / "README").write_text("1")
    (root / "readme").write_text("2")


def make_depth(root: Path) -> None:
    (root / "/".join("d" * 40)).mkdir(parents=True)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (make_link, "links"),
        (make_pipe, "links"),
        (make_socket, "links"),
        (make_case, "unsafe-entry"),
        (make_depth, "unsafe-entry"),
        (lambda root: (root / "run.sh").unlink(), "command"),
        (lambda root: (root / "run.sh").chmod(0o644), "command"),
        (lambda root: (root / "run.sh").write_text("#!/bin/sh\n"), "checksum"),
        (lambda root: (root / "more.txt").write_text("x"), "checksum"),
        (lambda root: (root / "sidecar.json").unlink(), "metadata"),
        (lambda root: (root / "sidecar.json").write_text("{"), "metadata"),
        (lambda root: (root / "sidecar.json").write_bytes(b"\xff\xfe"), "metadata"),
        (lambda root: (root / "sidecar.json").write_text(" " * 300_000), "metadata"),
    ],
)
def test_a_spoilt_folder_is_refused(tmp_path: Path, spoil: Callable[[Path], object], code: str) -> None:
    area, root = area_in(tmp_path), shell_example().folder(tmp_path)
    spoil(root)
    assert refused(area, root).code == code


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"schemaVersion": 2}, "metadata"),
        ({"schemaVersion": True}, "metadata"),
        ({"kind": "mcp"}, "metadata"),
        ({"id": "../evil"}, "metadata"),
        ({"id": "-x"}, "metadata"),
        ({"id": ".previous"}, "metadata"),
        ({"id": "A"}, "metadata"),
        ({"packageVersion": "../1"}, "metadata"),
        ({"packageVersion": ""}, "metadata"),
        ({"packageVersion": 1}, "metadata"),
        ({"command": "/bin/sh"}, "command"),
        ({"command": "../run.sh"}, "command"),
        ({"command": "bin/../../run.sh"}, "command"),
        ({"command": "."}, "command"),
        ({"command": "run.sh\0"}, "command"),
        ({"command": "sidecar.json"}, "command"),
        ({"compatibleCore": ">=99"}, "version"),
        ({"compatibleCore": "nonsense"}, "version"),
        ({"protocolVersion": "99"}, "version"),
        ({"tools": []}, "tools"),
        ({"tools": ["nobody.knows.it"]}, "metadata"),
        ({"tools": [{"name": "workspace.read", "inputSchema": {}}]}, "metadata"),
        ({"permissions": {"fs": {"write": "everything"}}}, "metadata"),
        ({"env": {"API_TOKEN": "x"}}, "metadata"),
        ({"checksum": "12"}, "metadata"),
    ],
)
def test_wrong_metadata_is_refused(tmp_path: Path, more: dict[str, Any], code: str) -> None:
    example = shell_example(**more)
    example.stated = "" if "checksum" in more else None
    assert refused(area_in(tmp_path), example.folder(tmp_path)).code == code


@pytest.mark.parametrize("name", ["package.json", "package.jsonc"])
def test_other_names_of_the_metadata(tmp_path: Path, name: str) -> None:
    area, example = area_in(tmp_path), python_example()
    example.metadata_file = name
    end = actions.stage(area, example.folder(tmp_path), 1.0)
    assert end.outcome.result is PackageResult.COMMITTED, end.outcome


def test_a_package_json_of_another_kind_is_no_metadata(tmp_path: Path) -> None:
    area, example = area_in(tmp_path), python_example(kind="module")
    example.metadata_file = "package.json"
    assert refused(area, example.folder(tmp_path)).code == "metadata"


def test_a_source_that_is_neither_folder_nor_archive(tmp_path: Path) -> None:
    area = area_in(tmp_path)
    other = tmp_path / "package.txt"
    other.write_text("x")
    assert refused(area, other).code == "source"
    assert refused(area, tmp_path / "nothing.zip").code == "source"
    os.mkfifo(tmp_path / "pipe.zip")
    assert refused(area, tmp_path / "pipe.zip").code == "source"


def test_the_checksum_is_over_path_mode_and_contents(tmp_path: Path) -> None:
    root = shell_example().folder(tmp_path)
    found = {checksum_of(root)}
    (root / "run.sh").chmod(0o644)
    found.add(checksum_of(root))
    (root / "run.sh").rename(root / "run2.sh")
    found.add(checksum_of(root))
    (root / "run2.sh").write_text("x")
    found.add(checksum_of(root))
    assert len(found) == 4


def test_the_checksum_is_what_the_documentation_says(tmp_path: Path) -> None:
    import hashlib

    root = python_example().folder(tmp_path)
    lines = b""
    for path in sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()):
        if path != "sidecar.json":
            mode = "0755" if os.access(root / path, os.X_OK) else "0644"
            content = hashlib.sha256((root / path).read_bytes()).hexdigest()
            lines += f"{path}\0{mode}\0{content}\n".encode()
    fd = os.open(root, os.O_RDONLY)
    assert checksum(read_tree(fd), "sidecar.json") == hashlib.sha256(lines).hexdigest()
    os.close(fd)
    assert json.loads((root / "sidecar.json").read_text())["checksum"] == hashlib.sha256(lines).hexdigest()


def test_the_umask_does_not_count(tmp_path: Path) -> None:
    area, example = area_in(tmp_path), python_example()
    archive = example.tar(tmp_path)
    before = os.umask(0o077)
    try:
        end = actions.stage(area, archive, 1.0)
    finally:
        os.umask(before)
    assert end.outcome.result is PackageResult.COMMITTED
    staged = area.base / area.folder / ".staging" / "greet-python@1.0.0"
    assert {oct(file.stat().st_mode & 0o777) for file in staged.rglob("*") if file.is_file()} == {
        "0o755",
        "0o644",
    }


def test_what_a_version_control_or_an_interpreter_leaves_is_no_part(tmp_path: Path) -> None:
    area, example = area_in(tmp_path), Example("a", "1", "run", {"run": ("#!/bin/sh\n", True)})
    root = example.folder(tmp_path)
    for name in (".git", "__pycache__"):
        (root / name).mkdir()
        (root / name / "x").write_text("x")
    assert actions.stage(area, root, 1.0).outcome.changed
    assert not (area.base / area.folder / ".staging" / "a@1" / ".git").exists()
