"""The search for protected paths in what a call may write, and the mounts that hold them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flycore.discovery.agent_clients.table import CLIENTS, Connection, Part
from flycore.sandbox import protected_files
from flycore.sandbox.call_confinement import NotPermitted
from flycore.sandbox.confinement import Confinement, IfMissing, Mount
from flycore.sandbox.protected_files import ProtectedFiles, find_protected, with_protected


def granted(root: Path, *mounts: Mount, held: bool = True, own: tuple[str, ...] = ()) -> ProtectedFiles:
    declared = Confinement(mounts=mounts, cwd=str(root))
    return find_protected(declared, str(root), own, held=held, compared=False)


def names(found: ProtectedFiles) -> set[str]:
    return {file.relative for file in found.files}


def modes(root: Path, mounts: tuple[Mount, ...], found: ProtectedFiles) -> dict[str, bool]:
    """The mounts of a start, by path relative to the root, and whether each may be written."""
    made = with_protected(Confinement(mounts=mounts, cwd=str(root)), found)
    return {os.path.relpath(mount.path, root): mount.writable for mount in made.ordered_mounts()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for folder in (".git/hooks", ".git/objects", "a/b/.vscode", "docs", "tools"):
        (root / folder).mkdir(parents=True)
    for file in (
        ".git/config",
        ".git/HEAD",
        "a/b/.vscode/tasks.json",
        "tools/policy.jsonc",
        "docs/AGENTS.md",
    ):
        (root / file).write_text("")
    return root


def test_each_protected_path_and_each_folder_above_it_is_a_mount(root: Path) -> None:
    mounts = (Mount(str(root), writable=True),)
    assert modes(root, mounts, granted(root, *mounts)) == {
        ".": True,
        ".git": True,
        ".git/config": False,
        ".git/hooks": False,
        "a": True,
        "a/b": True,
        "a/b/.vscode": False,
        "docs": True,
        "docs/AGENTS.md": False,
        "tools": True,
        "tools/policy.jsonc": False,
    }


def test_what_is_granted_read_only_stays_so(root: Path) -> None:
    mounts = (Mount(str(root), writable=True), Mount(f"{root}/a"), Mount(f"{root}/docs", source="/copy"))
    assert modes(root, mounts, granted(root, *mounts)) == {
        ".": True,
        ".git": True,
        ".git/config": False,
        ".git/hooks": False,
        "a": False,
        "docs": False,
        "tools": True,
        "tools/policy.jsonc": False,
    }


def test_a_grant_of_a_protected_path_is_read_only_and_never_made(root: Path) -> None:
    mounts = tuple(
        Mount(f"{root}/{name}", writable=True, if_missing=IfMissing.MAKE_FOLDER)
        for name in (".git/hooks", "a/b/.vscode/new", ".idea", "out")
    )
    found = granted(root, *mounts)
    made = with_protected(Confinement(mounts=mounts, cwd=str(root)), found)
    closed = {
        os.path.relpath(mount.path, root): mount.if_missing for mount in made.mounts if not mount.writable
    }
    assert closed == dict.fromkeys((".git/hooks", "a/b/.vscode/new", ".idea"), IfMissing.LEAVE_OUT)


def test_landlock_gets_no_mount_that_it_cannot_hold(root: Path) -> None:
    mounts = (Mount(str(root), writable=True), Mount(f"{root}/.git/hooks", writable=True))
    found = granted(root, *mounts, held=False)
    assert modes(root, mounts, found) == {".": True, ".git/hooks": False}


def test_flytui_s_own_folders_are_held_and_not_looked_into(root: Path) -> None:
    state = root / "state"
    (state / "inner/.vscode").mkdir(parents=True)
    mounts = (Mount(str(root), writable=True),)
    found = granted(root, *mounts, own=(str(state),))
    assert "state/inner/.vscode" not in names(found)
    assert modes(root, mounts, found)["state"] is False


def test_a_changed_folder_is_read_again(root: Path) -> None:
    grant = Mount(str(root), writable=True)
    before = names(granted(root, grant))
    # The same answer twice from the same files, the second time without reading them.
    assert names(granted(root, grant)) == before
    (root / "a/b/.envrc").write_text("")
    assert names(granted(root, grant)) == before | {"a/b/.envrc"}
    (root / "a/b/.envrc").unlink()
    (root / "docs/AGENTS.md").rename(root / "docs/other")
    assert names(granted(root, grant)) == before - {"docs/AGENTS.md"}


def test_a_link_to_a_folder_is_not_entered_and_one_of_a_protected_name_protects_its_target(
    root: Path,
) -> None:
    (root / "loop").symlink_to(".")
    (root / "GEMINI.md").symlink_to("docs/text")
    (root / "docs/text").write_text("")
    found = granted(root, Mount(str(root), writable=True))
    assert {"GEMINI.md", "docs/text"} < names(found)
    assert not any(name.startswith("loop") for name in names(found))


def test_the_project_may_lie_in_somebody_s_settings(tmp_path: Path) -> None:
    root = tmp_path / ".config" / "nvim"
    (root / "lua").mkdir(parents=True)
    found = granted(root, Mount(str(root), writable=True), Mount(f"{root}/lua", writable=True))
    assert (found.closed, found.files) == (frozenset(), ())


def test_a_folder_with_too_many_names_is_not_granted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected_files, "MOST_NAMES", 5)
    with pytest.raises(NotPermitted) as refused:
        granted(root, Mount(str(root), writable=True))
    assert refused.value.path == str(root)


def test_a_folder_with_too_many_protected_files_is_not_granted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected_files, "MOST_PROTECTED", 3)
    with pytest.raises(NotPermitted):
        granted(root, Mount(str(root), writable=True))
    # Without mounts there is no such limit.
    assert len(granted(root, Mount(str(root), writable=True), held=False).files) > 3


def test_what_flytui_itself_writes_for_agents_is_on_the_list(tmp_path: Path) -> None:
    for client in CLIENTS:
        for wanted in client.wanted(Connection("/usr/bin/flytui", "/p"), frozenset(Part)):
            if wanted.file.in_home:
                continue
            file = tmp_path / client.id / wanted.file.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("{}")
            found = granted(tmp_path / client.id, Mount(str(tmp_path / client.id), writable=True))
            assert any(wanted.file.path.startswith(name) for name in names(found)), wanted.file.path
