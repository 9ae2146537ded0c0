"""`flytui trust` in worktrees and clones: what is trusted in one is said in the others, and permits nothing
there."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flycore.registry.paths import TRUST_FILE
from kits.command_line import ECHO_TOOL, Desk
from kits.programs import needs

RUN = "#!/bin/sh\necho '{\"ok\": true}'\n"
ENTRIES: dict[str, Any] = {
    "own": {"command": "./tools/own/run", "tools": [{**ECHO_TOOL, "name": "own.echo"}]},
    "try.local": {"command": "flytui-sidecar", "args": ["mock.echo"], "tools": [ECHO_TOOL]},
}
GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


@pytest.fixture(autouse=True)
def _git() -> None:
    needs("git")


def git(folder: Path, *words: str) -> None:
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", **GIT}
    subprocess.run(["git", *words], cwd=folder, env=environ, check=True, capture_output=True, timeout=60)


def write(folder: Path, entries: dict[str, Any]) -> None:
    (folder / "tools" / "own").mkdir(parents=True, exist_ok=True)
    program = folder / "tools" / "own" / "run"
    program.write_text(RUN)
    program.chmod(0o755)
    (folder / "tools" / "external.tools.jsonc").write_text(
        json.dumps({"schemaVersion": 2, "sidecars": entries})
    )


@pytest.fixture
def shop(desk: Desk) -> Desk:
    """A repository with two entries, both trusted."""
    folder = desk.home / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    write(folder, ENTRIES)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "begin")
    here = replace(desk, root=folder)
    here.trust()
    return here


def worktree(shop: Desk, name: str = "tree") -> Desk:
    git(shop.root, "worktree", "add", "-q", "-b", name, str(shop.home / name))
    return replace(shop, root=shop.home / name)


def waiting(desk: Desk) -> dict[str, dict[str, Any]]:
    return {item["sidecar"]: item for item in desk.document("trust", "--print-digest")["waiting"]}


def test_a_worktree_is_offered_what_is_trusted_and_asked_once(shop: Desk) -> None:
    tree = worktree(shop)
    assert {item["elsewhere"]["programs"] for item in waiting(tree).values()} == {"same"}
    called = tree.run("call", "try.echo", "message=hi", "--no-wait", "--json")
    assert called.returncode != 0  # said, but not taken over
    with tree.terminal("trust") as shown:
        shown.until("y/N")
        assert shown.shown.count("trusted in ~/shop since today, unchanged") == 2
        assert shown.shown.count("y/N") == 1
        shown.press("y\n")
        assert shown.end() == 0
    assert waiting(tree) == {}


@pytest.mark.parametrize("history", ["unborn", "orphan", "shallow"])
def test_a_worktree_is_offered_what_is_trusted_whatever_its_history(desk: Desk, history: str) -> None:
    folder = desk.home / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    write(folder, ENTRIES)
    if history != "unborn":
        for text in ("begin", "more"):
            git(folder, "add", "-A")
            git(folder, "commit", "-q", "--allow-empty", "-m", text)
    if history == "shallow":
        git(desk.home, "clone", "-q", "--depth=1", f"file://{folder}", "copy")
        folder = desk.home / "copy"
    shop = replace(desk, root=folder)
    shop.trust()
    if history == "unborn":  # trusted before the first commit, as one begins a project
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", "begin")
    tree = worktree(shop)
    if history == "orphan":
        git(tree.root, "checkout", "-q", "--orphan", "pages")
        git(tree.root, "commit", "-q", "-m", "pages")
    found = waiting(tree)
    assert {(item["elsewhere"] or {}).get("programs") for item in found.values()} == {"same"}


def test_a_clone_says_what_differs(shop: Desk) -> None:
    git(shop.home, "clone", "-q", str(shop.root), "copy")
    copy = replace(shop, root=shop.home / "copy")
    changed = {**ENTRIES, "own": {**ENTRIES["own"], "timeoutMs": 5_000}}
    write(copy.root, changed)
    (item, other) = (waiting(copy)[name] for name in ("own", "try.local"))
    assert item["elsewhere"]["same"] is False
    assert item["elsewhere"]["difference"] == ["+ /timeoutMs: 5000"]
    assert other["elsewhere"]["same"] is True
    shown = copy.run("trust", "--print-digest").stdout
    assert "trusted in ~/shop since today, with another value:\n    + /timeoutMs: 5000" in shown


def test_a_program_that_differs_is_not_called_unchanged(shop: Desk) -> None:
    tree = worktree(shop)
    (tree.root / "tools" / "own" / "run").write_text(RUN + "# more\n")
    assert waiting(tree)["own"]["elsewhere"]["programs"] == "changed"
    assert waiting(tree)["try.local"]["elsewhere"]["programs"] == "same"
    assert "not those that were trusted there" in tree.run("trust", "--print-digest").stdout
    (tree.root / "tools" / "own" / "run").unlink()
    assert waiting(tree)["own"]["elsewhere"]["programs"] == "unknown"


def test_looking_trusts_nothing(shop: Desk) -> None:
    tree = worktree(shop)
    state = shop.home / "state" / "flytui" / "roots"
    before = {path: path.read_bytes() for path in state.rglob(TRUST_FILE)}
    assert before
    waiting(tree)
    assert {path: path.read_bytes() for path in state.rglob(TRUST_FILE)} == before


def test_a_forged_repository_gets_no_more_than_the_same_entry_by_a_persons_key(shop: Desk) -> None:
    forged = shop.home / "forged"
    git(shop.home, "clone", "-q", "--no-checkout", str(shop.root), str(forged))
    evil = {"command": "./tools/own/run", "args": ["evil"], "tools": [{**ECHO_TOOL, "name": "own.echo"}]}
    write(forged, {**ENTRIES, "own": evil, "extra": {**evil, "tools": [{**ECHO_TOOL, "name": "x.echo"}]}})
    (forged / "tools" / "own" / "run").write_text("#!/bin/sh\ntouch mark\n")
    desk = replace(shop, root=forged)
    found = waiting(desk)
    assert "elsewhere" not in found["extra"] or found["extra"]["elsewhere"] is None
    assert found["own"]["elsewhere"]["same"] is False
    for tool in ("own.echo", "x.echo", "try.echo"):
        assert desk.run("call", tool, "message=hi", "--no-wait").returncode != 0
    assert not (forged / "mark").exists()
    # Rules, leases and settings of the other root are not looked at: nothing but trust.json is read.
    assert desk.document("grants")["leases"] == []


def test_other_repositories_are_offered_nothing(shop: Desk) -> None:
    for name, words in (("plain", ()), ("own-history", ("init", "-q"))):
        folder = shop.home / name
        folder.mkdir()
        write(folder, ENTRIES)
        if words:
            git(folder, *words)
            git(folder, "add", "-A")
            git(folder, "commit", "-q", "-m", f"begin {name}")
        found = waiting(replace(shop, root=folder))
        assert {item.get("elsewhere") for item in found.values()} == {None}


def test_what_was_revoked_there_is_not_offered(shop: Desk) -> None:
    tree = worktree(shop)
    assert shop.run("trust", "--revoke").returncode == 0
    assert {item.get("elsewhere") for item in waiting(tree).values()} == {None}


@pytest.mark.parametrize(
    "fault", ["writable", "link", "pipe", "broken", pytest.param("foreign", marks=pytest.mark.root)]
)
def test_a_trust_file_that_is_not_this_users_alone_is_not_read(shop: Desk, fault: str) -> None:
    tree = worktree(shop)
    (path,) = (shop.home / "state" / "flytui" / "roots").glob("*/trust.json")
    match fault:
        case "writable":
            path.chmod(0o666)
        case "link":
            path.rename(path.with_name("moved.json"))
            path.symlink_to("moved.json")
        case "pipe":
            path.unlink()
            os.mkfifo(path)
        case "broken":
            path.write_bytes(path.read_bytes()[:-30])
        case _:
            os.chown(path, 65_534, 65_534)
    assert {item.get("elsewhere") for item in waiting(tree).values()} == {None}


def test_the_name_of_a_folder_is_drawn_as_text(desk: Desk) -> None:
    folder = desk.home / "a\x1b[2J\u202eb\nTrust it? "
    folder.mkdir()
    git(folder, "init", "-q")
    write(folder, ENTRIES)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "begin")
    replace(desk, root=folder).trust()
    git(folder, "worktree", "add", "-q", "-b", "tree", str(desk.home / "tree"))
    said = replace(desk, root=desk.home / "tree").run("trust", "--print-digest").stdout
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "\nTrust it?" not in said
    assert "⟦U+202E⟧b" in said
