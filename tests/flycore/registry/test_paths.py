"""Finding the app root and its folders from what is handed in, never from the process's own state."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from flycore.registry.paths import LEGACY_REGISTRY_FILE, REGISTRY_FILE, find_paths
from flysafe import runtime_folder

HOME = {"HOME": "/home/someone"}


def project(folder: Path, file: str = REGISTRY_FILE) -> Path:
    """A folder that holds a project file."""
    (folder / file).parent.mkdir(parents=True)
    (folder / file).write_text("{}")
    return folder


@pytest.mark.parametrize("file", [REGISTRY_FILE, LEGACY_REGISTRY_FILE])
def test_nearest_ancestor_with_a_project_file(tmp_path: Path, file: str) -> None:
    outer = project(tmp_path / "outer")
    inner = project(outer / "inner", file)
    deep = inner / "a/b"
    deep.mkdir(parents=True)
    assert find_paths(None, None, HOME, deep).app_root == inner
    assert find_paths(None, None, HOME, outer).app_root == outer
    assert find_paths(None, None, HOME, tmp_path).app_root == tmp_path


def test_order_of_sources(tmp_path: Path) -> None:
    here, named = project(tmp_path / "here"), tmp_path / "named"
    environ = {**HOME, "FLYTUI_ROOT": str(named)}
    assert find_paths(None, None, environ, here).app_root == named
    assert find_paths("sub", None, environ, here).app_root == here / "sub"
    assert find_paths("", "ws", environ, here).workspace == here / "ws"
    assert find_paths(None, None, environ, here).workspace == named


def test_the_key_is_over_the_real_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    places = find_paths(str(tmp_path / "link"), None, HOME, tmp_path)
    assert places.key == hashlib.sha256(os.fsencode(tmp_path / "real")).hexdigest()[:16]
    assert places.app_root == tmp_path / "real"


def test_folders_follow_the_environment_handed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/not/this")
    places = find_paths(None, None, HOME, tmp_path)
    assert places.config_dir == Path("/home/someone/.config/flytui")
    assert places.state_dir == Path("/home/someone/.local/state/flytui/roots") / places.key
    assert places.data_dir == Path("/home/someone/.local/share/flytui")
    assert places.cache_dir == Path("/home/someone/.cache/flytui")
    environ = {**HOME, "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_DATA_HOME": "relative"}
    places = find_paths(None, None, environ, tmp_path)
    assert places.config_dir == Path("/c/flytui")
    assert places.state_dir == Path("/s/flytui/roots") / places.key
    assert places.data_dir == Path("/home/someone/.local/share/flytui")


@pytest.mark.parametrize(
    ("runtime", "folder"),
    [
        ("/run/user/7", "/run/user/7/flytui"),
        (None, f"/tmp/flytui-{os.getuid()}"),
        ("", f"/tmp/flytui-{os.getuid()}"),
        ("relative", f"/tmp/flytui-{os.getuid()}"),
        ("/" + "r" * 77, "/" + "r" * 77 + "/flytui"),
        ("/" + "r" * 78, f"/tmp/flytui-{os.getuid()}"),
        ("/" + "ä" * 40, f"/tmp/flytui-{os.getuid()}"),
    ],
)
def test_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str | None, folder: str) -> None:
    monkeypatch.setattr(runtime_folder, "RUNTIME_DIRS", str(tmp_path / "none"))
    environ = HOME if runtime is None else {**HOME, "XDG_RUNTIME_DIR": runtime}
    places = find_paths(None, None, environ, tmp_path)
    assert places.socket == Path(folder) / f"{places.key}.sock"
    assert len(os.fsencode(places.socket)) <= 107


@pytest.mark.parametrize(("mode", "used"), [(0o700, True), (0o750, False), (0o777, False)])
def test_the_users_runtime_folder_is_found_without_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, used: bool
) -> None:
    monkeypatch.setattr(runtime_folder, "RUNTIME_DIRS", str(tmp_path))
    folder = tmp_path / str(os.getuid())
    folder.mkdir()
    folder.chmod(mode)
    socket = find_paths(None, None, HOME, tmp_path).socket
    assert (socket.parent == folder / "flytui") is used


def test_nothing_is_created(tmp_path: Path) -> None:
    find_paths("gone", "gone too", {"HOME": str(tmp_path)}, tmp_path)
    assert list(tmp_path.iterdir()) == []
