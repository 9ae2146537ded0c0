"""The repository that flytui looks at is the one that git uses, in folders of every odd kind."""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from flycore.pipeline.agent_repository import check_repository, repository_of
from flycore.policy.agent_commands.options import Objection
from kits.agent_project import git
from kits.programs import needs

LAYOUTS = 500
SHA = "0123456789abcdef0123456789abcdef01234567"
KINDS = (
    "none", "none", "none", "valid", "valid", "valid", "detached", "packed", "worktrees", "nested-head",
    "head-folder", "empty", "text", "gitfile", "gitfile-broken", "link", "link-broken", "bare",
    "bare-split", "bare-no-refs", "bare-settings", "no-head", "head-odd", "head-link", "head-not-refs",
    "no-objects", "no-refs", "refs-file", "commondir", "commondir-broken", "locked", "objects-link",
    "format", "worktree-setting", "submodule", "fifo",
)  # fmt: skip


def make_layout(chance: random.Random, root: Path, made: Path) -> tuple[Path, list[str]]:
    """Make folders below `root`, some of which are, or look like, repositories. Returns the deepest one."""
    place, kinds = root, []
    for depth in range(chance.randint(1, 4)):
        if depth:
            place = place / chance.choice(("a", "b", "docs"))
        place.mkdir(exist_ok=True)
        kind = chance.choice(KINDS)
        kinds.append(kind)
        make_kind(kind, place, made)
    return place, kinds


def repository(place: Path, head: str = "ref: refs/heads/main\n") -> Path:
    """A repository without commits."""
    for name in ("objects", "refs"):
        (place / name).mkdir(parents=True)
    (place / "HEAD").write_text(head)
    (place / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
    return place


def make_kind(kind: str, place: Path, made: Path) -> None:
    """Make what the folder `place` is. `made` is another repository, beside the project."""
    make_pointer(kind, place, made)
    make_bare(kind, place)
    make_spoilt(kind, place / ".git", made)
    match kind:
        case "valid" | "worktrees" | "nested-head":
            repository(place / ".git")
            if kind == "worktrees":
                (place / ".git/worktrees/x").mkdir(parents=True)
            if kind == "nested-head":
                (place / "HEAD").write_text("ref: refs/heads/main\n")
        case "detached":
            repository(place / ".git", f"{SHA}\n")
        case "packed":
            (repository(place / ".git") / "packed-refs").write_text("")
        case "head-folder":
            (place / "HEAD").mkdir()
        case "submodule":
            repository(place / ".git")
            repository(place / ".git/modules/x")
            (place / "x").mkdir()
            (place / "x/.git").write_text("gitdir: ../.git/modules/x\n")


def make_pointer(kind: str, place: Path, made: Path) -> None:
    """Make a `.git` that is no folder of a repository."""
    own = place / ".git"
    match kind:
        case "empty":
            own.mkdir()
        case "text":
            own.write_text("anything\n")
        case "gitfile":
            own.write_text(f"gitdir: {made}\n")
        case "gitfile-broken":
            own.write_text("gitdir: nowhere\n")
        case "link":
            own.symlink_to(made)
        case "link-broken":
            own.symlink_to("nowhere")
        case "fifo":
            os.mkfifo(own)


def make_bare(kind: str, place: Path) -> None:
    """Make a folder that is, or looks like, a repository itself."""
    match kind:
        case "bare":
            repository(place)
        case "bare-split":
            repository(place / "real")
            (place / "HEAD").write_text("ref: refs/heads/main\n")
            (place / "commondir").write_text("real\n")
        case "bare-no-refs":
            repository(place)
            (place / "refs").rmdir()
        case "bare-settings":
            (repository(place) / "config").write_text("[core]\n\tworktree = .\n")


def make_spoilt(kind: str, own: Path, made: Path) -> None:
    """Make a `.git` in which something is odd."""
    match kind:
        case "no-head":
            (repository(own) / "HEAD").unlink()
        case "head-odd":
            repository(own, "main\n")
        case "head-link":
            (repository(own) / "HEAD").unlink()
            (own / "HEAD").symlink_to("refs/heads/main")
        case "head-not-refs":
            repository(own, "ref: heads/main\n")
        case "no-objects":
            (repository(own) / "objects").rmdir()
        case "no-refs":
            (repository(own) / "refs").rmdir()
        case "refs-file":
            (repository(own) / "refs").rmdir()
            (own / "refs").write_text("")
        case "commondir":
            (repository(own) / "commondir").write_text(f"{made}\n")
        case "commondir-broken":
            (repository(own) / "commondir").write_text("nowhere\n")
        case "locked":
            (repository(own) / "refs").chmod(0)
        case "objects-link":
            (repository(own) / "objects").rmdir()
            (own / "objects").symlink_to(made / "objects")
        case "format":
            (repository(own) / "config").write_text("[core]\n\trepositoryformatversion = 99\n")
        case "worktree-setting":
            (repository(own) / "config").write_text("[core]\n\tworktree = ..\n")


def used_by_git(place: Path, home: Path) -> str:
    """The repository that git names; empty where it finds none, or refuses what it finds."""
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "rev-parse", "--absolute-git-dir"], cwd=place, env=environment, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout.strip()


def looked_at(place: Path, root: Path) -> str:
    """The repository that flytui looks at and finds harmless; empty where it asks."""
    try:
        folder = repository_of(os.path.realpath(place), str(root))
        check_repository(folder, str(root))
    except (Objection, OSError):
        return ""
    return os.path.join(folder, ".git")


def test_git_uses_the_repository_that_was_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs("git")
    chance = random.Random(11)
    folder = tmp_path.resolve()
    made = repository(folder / "made")
    counts = Counter[str]()
    for number in range(LAYOUTS):
        root = folder / f"p{number}"
        deepest, kinds = make_layout(chance, root, made)
        places = [place for place in (deepest, *deepest.parents) if place.is_relative_to(root)]
        place = chance.choice(places)
        used, looked = used_by_git(place, folder), looked_at(place, root)
        assert looked in ("", used), f"{kinds} in {place.relative_to(root)}: git uses {used}"
        counts["same" if looked else "asks, and git uses one" if used else "asks, and git finds none"] += 1
    with capsys.disabled():
        print(f"\n{LAYOUTS} layouts: {dict(counts)}")
    assert counts["same"] > LAYOUTS / 20
    assert counts["asks, and git uses one"] > LAYOUTS / 20


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_each_kind_of_folder_below_a_plain_repository(tmp_path: Path, kind: str) -> None:
    needs("git")
    folder = tmp_path.resolve()
    made = repository(folder / "made")
    root = folder / "project"
    repository(root / ".git")
    (root / "below").mkdir()
    make_kind(kind, root / "below", made)
    looked = looked_at(root / "below", root)
    assert looked in ("", used_by_git(root / "below", folder))
    plain = {"none": root} | dict.fromkeys(
        ("valid", "worktrees", "nested-head", "detached", "packed", "submodule"), root / "below"
    )
    assert looked == (str(plain[kind] / ".git") if kind in plain else "")


def test_a_real_repository_asks_nobody(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "project"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "deep/er").mkdir(parents=True)
    (root / "deep/er/x").write_text("x")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Begin")
    git(root, "checkout", "-q", "--detach")
    (root / ".git/hooks/pre-commit").symlink_to(tmp_path)
    assert looked_at(root / "deep/er", root) == str(root / ".git")
