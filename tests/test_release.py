"""What is released: the wheel and the sdist hold every file they should, and two builds are the same."""

from __future__ import annotations

import hashlib
import io
import json
import os
import runpy
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from kits.programs import needs

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("core/flycore", "core/flysafe", "tui/flytui", "sidecars/flysidecars")
SHARED = {
    "flytui.1": "share/man/man1/flytui.1",
    "flytui.bash": "share/bash-completion/completions/flytui",
    "_flytui": "share/zsh/site-functions/_flytui",
    "flytui.fish": "share/fish/vendor_completions.d/flytui.fish",
}
INSTALLED = runpy.run_path(str(ROOT / "docs" / "make_installed_files.py"))["installed_texts"]


def tracked(*paths: str) -> list[str]:
    """The files that git knows below these paths."""
    listed = subprocess.run(["git", "ls-files", "-z", *paths], cwd=ROOT, capture_output=True, check=True)
    return [name for name in listed.stdout.decode().split("\0") if name]


def built(source: Path, into: Path, kind: str) -> Path:
    """Build a wheel or an sdist of the project, and return its path."""
    argv = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(into)]
    subprocess.run(argv, cwd=source, check=True, capture_output=True, timeout=300)
    (path,) = into.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("git")
    return built(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    expected = {name.partition("/")[2] for name in tracked(*PACKAGES)}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name and ".data/" not in name}
    assert names == expected


def test_the_wheel_installs_the_manual_and_the_completions(wheel: Path) -> None:
    """Where the texts differ: python docs/make_installed_files.py"""
    texts = INSTALLED()
    with zipfile.ZipFile(wheel) as archive:
        data = {name.partition(".data/data/")[2]: name for name in archive.namelist() if ".data/" in name}
        assert set(data) == set(SHARED.values())
        for name, place in SHARED.items():
            assert archive.read(data[place]).decode() == texts[name], name


def test_man_reads_the_manual(wheel: Path) -> None:
    needs("groff")
    text = INSTALLED()["flytui.1"].encode()
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8"], input=text, capture_output=True, check=True, timeout=60
    )
    assert done.stderr == b""
    assert b"flytui" in done.stdout


def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """In another folder, with other times and another umask."""
    before = os.umask(0o077)
    try:
        sdist = built(ROOT, tmp_path / "sdist", "sdist")
        with tarfile.open(fileobj=io.BytesIO(sdist.read_bytes())) as archive:
            # Python 3.11 before 3.11.4 has no filters, and later versions want one to be named.
            if hasattr(tarfile, "data_filter"):
                archive.extractall(tmp_path / "source", filter="data")
            else:
                archive.extractall(tmp_path / "source")
        (source,) = (tmp_path / "source").iterdir()
        os.utime(source / "pyproject.toml", (1_000_000_000, 1_000_000_000))
        again = built(source, tmp_path / "wheel", "wheel")
    finally:
        os.umask(before)
    assert _digest(again) == _digest(wheel)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.suite
@pytest.mark.skipif(os.environ.get("FLYTUI_SUITES") != "full", reason="installs every library once more")
@pytest.mark.timeout(1800)
def test_the_wheel_works_where_nothing_else_is_installed(wheel: Path, tmp_path: Path) -> None:
    place, home, project = tmp_path / "venv", tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, timeout=300)
    subprocess.run([str(place / "bin" / "pip"), "install", "--quiet", str(wheel)], check=True, timeout=1500)
    for name in SHARED.values():
        assert (place / name).is_file()

    def flytui(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(place / "bin" / "flytui"), *words], cwd=project, capture_output=True, text=True, timeout=120,
            env={"HOME": str(home), "PATH": f"{place / 'bin'}:/usr/bin:/bin", "LANG": "C.UTF-8"}, check=False,
        )  # fmt: skip

    assert flytui("--version").stdout.startswith("flytui ")
    assert flytui("init").returncode == 0
    (project / "hello.txt").write_text("hello\n")
    waiting = json.loads(flytui("trust", "--print-digest", "--json").stdout)
    assert flytui("trust", "--digest", waiting["digest"]).returncode == 0
    done = flytui("call", "file.hash", "path=hello.txt", "--json")
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(b"hello\n").hexdigest() in json.dumps(json.loads(done.stdout))
    why = flytui("why", "web.search")
    assert "web.search" in why.stdout
