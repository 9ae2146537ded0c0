"""The files of an installed distribution, compared with what the standard library reads of it."""

from __future__ import annotations

import base64
import json
import sys
from importlib import metadata
from pathlib import Path

import pytest

import flycore
from flycore.sandbox import distribution as distributions
from flycore.sandbox.distribution import find_distribution

INSTALLED = ("click", "msgspec", "textual", "jsonschema", "pytest")


def expected(name: str) -> set[tuple[str, str]]:
    """Path and hash of each file of a distribution, by the standard library."""
    found: set[tuple[str, str]] = set()
    for file in metadata.distribution(name).files or ():
        if file.suffix != ".pyc":
            value = file.hash.value if file.hash else ""
            hexadecimal = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
            found.add((str(Path(str(file.locate())).resolve()), hexadecimal))
    return found


@pytest.mark.parametrize("name", INSTALLED)
def test_the_record_is_read_as_by_the_standard_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions, "NAME", name)
    monkeypatch.setattr(flycore, "__version__", metadata.version(name))
    folder = distributions._metadata_folder()
    assert folder is not None
    assert set(distributions._recorded_files(folder)) == expected(name) != set()
    assert not distributions._is_editable(folder)


def test_the_version_of_the_package_is_that_of_its_distribution() -> None:
    assert metadata.version("flytui") == flycore.__version__


def test_this_installation_is_told_as_by_the_standard_library() -> None:
    found = find_distribution(Path(sys.executable).parent)
    assert found is not None
    text = metadata.distribution("flytui").read_text("direct_url.json")
    assert found.editable == (
        text is not None and json.loads(text).get("dir_info", {}).get("editable", False)
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A console script of an installation."""
    made = tmp_path / "bin" / "flytui-sidecar"
    made.parent.mkdir()
    made.write_text("#!/bin/sh\n")
    return made


def installation(folder: Path, script: Path, *lines: str) -> None:
    described = folder / f"flytui-{flycore.__version__}.dist-info"
    described.mkdir(parents=True)
    (described / "RECORD").write_text("\n".join([f"{script},sha256=AAAA,3", *lines]) + "\n", encoding="utf-8")


def test_a_record_with_quotes_short_lines_and_compiled_files(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation(tmp_path / "lib", script, '"a,b.py",sha256=_w,1', "c.pyc,,", "", "d.py")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "absent"), str(tmp_path / "lib")])
    found = find_distribution(script.parent)
    assert found is not None
    lib = str(tmp_path / "lib")
    assert found.files == ((str(script), "000000"), (f"{lib}/a,b.py", "ff"), (f"{lib}/d.py", ""))


def test_without_a_record_of_the_script_there_is_no_distribution(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path / "lib")])
    assert find_distribution(script.parent) is None
    installation(tmp_path / "lib", tmp_path / "other")
    assert find_distribution(script.parent) is None
    (tmp_path / "lib" / f"flytui-{flycore.__version__}.dist-info" / "RECORD").unlink()
    assert find_distribution(script.parent) is None
