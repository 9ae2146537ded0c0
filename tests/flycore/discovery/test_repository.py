"""Which repository a folder lies in: read from real repositories, from hostile ones, without running git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from flycore.discovery import git_history, repository
from flycore.discovery.git_history import HistoryError, first_commit
from flycore.discovery.repository import find_repository, find_worktree, normal_address
from kits.programs import needs

GIT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}
REMOTE = "https://user:secret@Example.org/team/shop.git"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env=GIT, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def commit(folder: Path, text: str) -> None:
    (folder / "file").write_text(text)
    git(folder, "add", "file")
    git(folder, "commit", "-q", "-m", text)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with a remote and three commits."""
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for number in range(3):
        commit(folder, f"commit {number}")
    git(folder, "remote", "add", "origin", REMOTE)
    return folder


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("git")
    monkeypatch.setattr(repository, "_first_commits", {})


def root_of(folder: Path) -> str:
    return git(folder, "rev-list", "--max-parents=0", "HEAD")


def test_a_repository_is_named_by_its_first_commit_and_its_remote_without_secrets(shop: Path) -> None:
    found = find_repository(shop)
    assert found is not None
    assert (found.root_commit, found.remote, found.folder) == (root_of(shop), "example.org/team/shop", "")
    (shop / "services" / "a").mkdir(parents=True)
    within = find_repository(shop / "services" / "a")
    assert within is not None
    assert within.folder == "services/a"
    assert not found.is_same(within)


def test_worktree_and_clones_are_the_same_repository(shop: Path, tmp_path: Path) -> None:
    git(shop, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    git(tmp_path, "clone", "-q", str(shop), "copy")  # its remote is the folder itself
    git(tmp_path, "clone", "-q", f"file://{shop}", "second")
    git(tmp_path / "second", "remote", "set-url", "origin", "git@example.org:team/shop.git")
    commit(tmp_path / "second", "more")
    here = find_repository(shop)
    assert here is not None
    for name in ("tree", "copy", "second"):
        there = find_repository(tmp_path / name)
        assert there is not None
        assert here.is_same(there)
        assert there.is_same(here)


def test_another_remote_and_another_history_are_other_repositories(shop: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(shop), "fork")
    git(tmp_path / "fork", "remote", "set-url", "origin", "https://example.org/other/shop")
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q")
    commit(tmp_path / "new", "begin")
    git(tmp_path / "new", "remote", "add", "origin", REMOTE)
    here = find_repository(shop)
    for name in ("fork", "new"):
        there = find_repository(tmp_path / name)
        assert here is not None
        assert there is not None
        assert not here.is_same(there)


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_packed_histories_with_differences_are_read(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "packed"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", f"--object-format={form}")
    body = "\n".join(f"line {number} of a long message that repeats itself" for number in range(80))
    for number in range(60):
        git(folder, "commit", "-q", "--allow-empty", "-m", f"{number}\n\n{body}")
    git(folder, "repack", "-adfq", "--depth=50", "--window=50")
    git(folder, "pack-refs", "--all")
    assert not (folder / ".git/refs/heads/main").exists()
    (index,) = (folder / ".git/objects/pack").glob("*.idx")
    chains = git(folder, "verify-pack", "-v", str(index))
    assert "chain length = " in chains  # commits that are differences from others
    found = find_repository(folder)
    assert found is not None
    assert found.root_commit == root_of(folder)


def test_nothing_that_a_hostile_repository_names_is_started(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\necho ran >> {mark}\n")
    program.chmod(0o755)
    keys = (
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "alias.rev-list",
        "diff.external",
    )
    for key in keys:
        git(shop, "config", key, str(program))
    git(shop, "config", "core.hooksPath", str(tmp_path))
    git(shop, "config", "include.path", str(tmp_path / "more"))
    git(shop, "config", "remote.origin.promisor", "true")
    git(shop, "config", "remote.origin.uploadpack", str(program))
    git(shop, "config", "uploadpack.packObjectsHook", str(program))
    (tmp_path / "post-index-change").symlink_to(program)
    # Neither git on PATH nor any other process is started.
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "git").symlink_to(program)
    monkeypatch.setattr(os, "fork", None)
    monkeypatch.setattr(os, "posix_spawn", None)
    monkeypatch.setattr(subprocess, "Popen", None)
    found = find_repository(shop)
    assert found is not None
    assert found.remote == "example.org/team/shop"
    assert not mark.exists()


def test_a_folder_cannot_pass_for_a_worktree_by_a_file(shop: Path, tmp_path: Path) -> None:
    git(shop, "worktree", "add", "-q", str(tmp_path / "tree"))
    forged = tmp_path / "forged"
    forged.mkdir()
    (forged / ".git").write_text((tmp_path / "tree" / ".git").read_text())
    assert find_repository(forged) is None


def test_a_history_that_is_not_whole_has_no_first_commit(shop: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{shop}", "shallow")
    assert find_repository(tmp_path / "shallow") is None
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    assert find_repository(tmp_path / "empty") is None
    assert find_repository(tmp_path) is None


def test_worktrees_are_the_same_repository_whatever_its_history(shop: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{shop}", "shallow")
    git(tmp_path / "shallow", "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{shop}", "second")
    here, there, second = (find_worktree(tmp_path / name) for name in ("shallow", "tree", "second"))
    assert here is not None
    assert there is not None
    assert second is not None
    assert here.is_same(there)
    assert not here.is_same(second)
    (tmp_path / "tree" / "deep").mkdir()
    deep = find_worktree(tmp_path / "tree" / "deep")
    assert deep is not None
    assert not here.is_same(deep)
    forged = tmp_path / "forged"
    forged.mkdir()
    (forged / ".git").write_text((tmp_path / "tree" / ".git").read_text())
    assert find_worktree(forged) is None
    assert find_worktree(tmp_path) is None


def test_a_worktree_with_a_history_of_its_own_is_the_same_repository(shop: Path, tmp_path: Path) -> None:
    git(shop, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    git(tmp_path / "tree", "checkout", "-q", "--orphan", "pages")
    unborn, here = find_worktree(tmp_path / "tree"), find_repository(shop)
    assert here is not None
    assert unborn is not None
    assert here.is_same(unborn)
    git(tmp_path / "tree", "commit", "-q", "--allow-empty", "-m", "pages")
    there = find_repository(tmp_path / "tree")
    assert there is not None
    assert there.root_commit != here.root_commit
    assert there.is_same(here)
    git(shop, "remote", "set-url", "origin", "https://example.org/moved/shop")
    moved = find_repository(shop)
    assert moved is not None
    assert here.is_same(moved)


def loose(folder: Path, name: str) -> Path:
    return folder / ".git" / "objects" / name[:2] / name[2:]


def test_an_object_under_a_wrong_name_is_refused(shop: Path) -> None:
    last, first = git(shop, "rev-parse", "HEAD"), root_of(shop)
    middle = git(shop, "rev-parse", "HEAD~1")
    loose(shop, middle).unlink()
    shutil.copy(loose(shop, first), loose(shop, middle))
    with pytest.raises(HistoryError, match="not what its name says"):
        first_commit(shop / ".git" / "objects", last)
    assert find_repository(shop) is None


@pytest.mark.parametrize("name", ["HEAD", "config", "refs/heads/main"])
@pytest.mark.parametrize("kind", ["pipe", "large", "bytes", "folder"])
def test_files_of_other_kinds_end_in_no_repository(shop: Path, name: str, kind: str) -> None:
    path = shop / ".git" / name
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "large":
            path.write_bytes(b"a" * 2_000_000)
        case "bytes":
            path.write_bytes(b"ref: refs/heads/../../\xff\0" * 9)
        case _:
            path.mkdir()
    found = find_repository(shop)
    # Settings without a remote are no fault: then the first commit has to be enough.
    assert found is None or (name, kind, found.remote) == ("config", "bytes", "")


def test_broken_packs_end_in_no_repository(shop: Path) -> None:
    git(shop, "repack", "-adq")
    git(shop, "prune-packed")
    (pack,) = (shop / ".git/objects/pack").glob("*.pack")
    first = root_of(shop)
    whole = pack.read_bytes()
    pack.chmod(0o644)
    for cut in range(0, len(whole), max(1, len(whole) // 97)):
        pack.write_bytes(whole[:cut] + bytes(len(whole) - cut))
        found = find_repository(shop)
        assert found is None or found.root_commit == first
        repository._first_commits.clear()


def test_a_history_that_is_made_to_take_long_ends(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_repository(shop) is not None
    repository._first_commits.clear()
    monkeypatch.setattr(git_history, "MOST_BYTES_IN_ALL", 300)
    assert find_repository(shop) is None
    monkeypatch.undo()
    monkeypatch.setattr(git_history, "MOST_COMMITS", 2)
    assert find_repository(shop) is None


@pytest.mark.parametrize(
    ("address", "normal"),
    [
        ("https://example.org/a/b.git", "example.org/a/b"),
        ("https://user:pass@Example.org/a/b/", "example.org/a/b"),
        ("ssh://git@example.org/a/b.git", "example.org/a/b"),
        ("git@example.org:a/b.git", "example.org/a/b"),
        ("example.org:a/b", "example.org/a/b"),
        ("file:///srv/b.git", "/srv/b"),
        ("/srv/b/.git", "/srv/b"),
        ("../b", "/home/b"),
    ],
)
def test_one_place_has_one_address(address: str, normal: str) -> None:
    assert normal_address(address, "/home/a") == normal
