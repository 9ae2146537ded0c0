"""Paths that lead outside, into git, or to what decides what may run."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from flycore.model.enums import Status
from flycore.runners.workspace.run import Workspace
from flycore.runners.workspace.write_files import FileDiffers, FileState, Replacement, replace_files

pytestmark = pytest.mark.anyio
ROUNDS = 2_000 if os.environ.get("FLYTUI_SUITES") == "full" else 100

OUTSIDE = [
    "../secret",
    "a/../../secret",
    "/etc/passwd",
    "//etc/passwd",
    "out/secret",
    "out",
    "absolute",
    "in/../../secret",
    "state/tokens.json",
    "./state/../state/tokens.json",
    "to-state",
    "with\0nul",
    "half\ud800",
]
NOT_WRITTEN = [
    *OUTSIDE,
    ".git/config",
    ".git",
    ".GIT/config",
    "inner/.git/hooks/pre-commit",
    "to-git/config",
    "tools/external.tools.jsonc",
    "tools//external.tools.jsonc",
    "Tools/Policy.jsonc",
    "tools/policy.jsonc",
    "tools/config.jsonc",
    "to-policy",
    ".flyflor/tools/external.tools.jsonc",
    "config/policy.jsonc",
    "broken",
    "broken/file",
    "in",
    "pipe",
]


@pytest.fixture
def hostile(folder: Path, tmp_path: Path) -> Path:
    """A project with links and files of every kind."""
    (tmp_path / "secret").write_text("outside")
    (folder / "out").symlink_to(tmp_path)
    (folder / "absolute").symlink_to(tmp_path / "secret")
    for name in ("in", "state", "config", "tools", ".git", "inner"):
        (folder / name).mkdir()
    (folder / "state" / "tokens.json").write_text("token")
    (folder / "to-state").symlink_to("state/tokens.json")
    (folder / ".git" / "config").write_text("[core]\n")
    (folder / "to-git").symlink_to(".git")
    (folder / "tools" / "policy.jsonc").write_text("{}")
    (folder / "to-policy").symlink_to("tools/policy.jsonc")
    (folder / "broken").symlink_to("nothing")
    os.mkfifo(folder / "pipe")
    return folder


def everything(folder: Path) -> dict[str, Any]:
    """Each file with its content, each link with its target."""
    found: dict[str, Any] = {}
    for path in sorted(folder.parent.rglob("*")):
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        elif path.is_file():
            found[str(path)] = path.read_bytes()
    return found


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("tool", ["workspace.read", "workspace.list", "workspace.search"])
async def test_nothing_outside_is_read(hostile: Path, workspace: Workspace, tool: str, path: str) -> None:
    given = {"path": path, "pattern": "t", "limit": 10}
    result = await workspace.call(tool, given, "call", approved=None)
    assert result.status is Status.FAILED, result.output


@pytest.mark.parametrize("path", NOT_WRITTEN)
async def test_nothing_protected_is_written(hostile: Path, workspace: Workspace, path: str) -> None:
    before = everything(hostile)
    for tool, given in (
        ("workspace.write", {"path": path, "content": "changed"}),
        ("workspace.edit", {"path": path, "old": "o", "new": "changed", "all": True}),
        ("workspace.patch", {"patch": f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+changed\n"}),
    ):
        result = await workspace.call(tool, given, "call", approved=None)
        assert result.status is Status.FAILED, (tool, result.output)
    assert everything(hostile) == before


async def test_a_link_that_stays_inside_is_followed_and_kept(folder: Path, workspace: Workspace) -> None:
    (folder / "real").mkdir()
    (folder / "real" / "file").write_text("one\n")
    (folder / "link").symlink_to("real/file")
    given = {"path": "link", "old": "one", "new": "two"}
    result = await workspace.call("workspace.edit", given, "call", approved=None)
    assert result.output == {"files": [{"path": "real/file", "change": "changed", "bytes": 4}], "undo": True}
    assert os.readlink(folder / "link") == "real/file"
    assert (folder / "real" / "file").read_text() == "two\n"


async def test_lists_name_no_file_of_the_state(hostile: Path, workspace: Workspace) -> None:
    result = await workspace.call("workspace.list", {"recursive": True, "limit": 500}, "c", approved=None)
    assert isinstance(result.output, dict)
    assert "state/" not in str(result.output)
    found = await workspace.call("workspace.search", {"pattern": "token", "limit": 9}, "c", approved=None)
    assert isinstance(found.output, dict)
    assert found.output["matches"] == []


def test_the_folder_of_a_file_that_is_gone_is_not_made_again(
    folder: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(os, "mkdir", lambda path, *_, **__: made.append(path))
    edit = Replacement("gone/file", FileState(b"before"), FileState(b"after"))
    with pytest.raises(FileDiffers):
        replace_files(workspace.project, (edit,), lambda _: None)
    assert made == []


@pytest.mark.suite
async def test_no_race_of_links_leads_outside(folder: Path, workspace: Workspace, tmp_path: Path) -> None:
    """A folder is exchanged with a link to the outside, again and again, while files in it are read and
    written."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("inside, but outside\n")
    inside, kept, link = folder / "place", folder / "kept", folder / "link"
    inside.mkdir()
    (inside / "file").write_text("inside\n")
    link.symlink_to(outside)
    stop = threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            os.rename(inside, kept)
            os.rename(link, inside)
            os.rename(inside, link)
            os.rename(kept, inside)

    thread = threading.Thread(target=exchange)
    thread.start()
    done = refused = 0
    try:
        while done < ROUNDS or not refused:
            # An edit, which makes no folder in the moment in which there is none.
            given = {"path": "place/file", "old": "inside", "new": "inside!"}
            wrote = await workspace.call("workspace.edit", given, f"call{done}", approved=None)
            read = await workspace.call("workspace.read", {"path": "place/file"}, "read", approved=None)
            if read.status is Status.SUCCESS:
                assert isinstance(read.output, dict)
                assert "outside" not in str(read.output["text"])
            for result in (wrote, read):
                done += result.status is Status.SUCCESS
                refused += result.status is Status.FAILED
    finally:
        stop.set()
        thread.join()
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "inside, but outside\n"
