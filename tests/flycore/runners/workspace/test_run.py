"""The file tools together: random sequences of changes and undos against a model, pages, and failures."""

from __future__ import annotations

import os
import random
import stat
from pathlib import Path
from typing import Any

import pytest

from flycore.model.enums import Code, Status
from flycore.runners.one_shot import RunOutcome
from flycore.runners.workspace import write_files
from flycore.runners.workspace.planned_changes import digest_of
from flycore.runners.workspace.run import Workspace
from flycore.runners.workspace.undo_store import UndoRefused

pytestmark = pytest.mark.anyio
SEQUENCES = 10_000 if os.environ.get("FLYTUI_SUITES") == "full" else 60
NAMES = ("a", "b", "sub/a", "sub/deep/b")
WORDS = ("one", "two", "three\n", "\n", "é", "x" * 40)


async def called(workspace: Workspace, tool: str, call: str = "call", **given: Any) -> RunOutcome:
    return await workspace.call(f"workspace.{tool}", given, call, approved=None)


def random_text(numbers: random.Random) -> str:
    return "".join(numbers.choice(WORDS) for _ in range(numbers.randint(0, 8)))


def found(folder: Path) -> dict[str, tuple[str, int]]:
    """Each file with its text and mode."""
    return {
        str(path.relative_to(folder)): (path.read_bytes().decode(), stat.S_IMODE(path.stat().st_mode))
        for path in folder.rglob("*")
        if path.is_file()
    }


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Model:
    """What the files have to be: a dictionary of texts, with the states before each change."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.undo: list[tuple[str, dict[str, str], dict[str, str]]] = []

    def changed(self, call: str, after: dict[str, str]) -> None:
        if after != self.files:
            self.undo.append((call, dict(self.files), dict(after)))
        self.files = after


def write(numbers: random.Random, model: Model) -> tuple[str, dict[str, Any], dict[str, str] | None]:
    path, text = numbers.choice(NAMES), random_text(numbers)
    return "write", {"path": path, "content": text}, {**model.files, path: text}


def edit(numbers: random.Random, model: Model) -> tuple[str, dict[str, Any], dict[str, str] | None]:
    path = numbers.choice(NAMES)
    edits = [
        {"old": numbers.choice(WORDS), "new": random_text(numbers), "all": numbers.random() < 0.5}
        for _ in range(numbers.randint(1, 3))
    ]
    text = model.files.get(path)
    for one in edits:
        count = text.count(one["old"]) if text is not None else 0
        if text is None or not count or (count > 1 and not one["all"]):
            return "edit", {"path": path, "edits": edits}, None
        text = text.replace(one["old"], one["new"])
    assert text is not None
    return "edit", {"path": path, "edits": edits}, {**model.files, path: text}


def patch(numbers: random.Random, model: Model) -> tuple[str, dict[str, Any], dict[str, str] | None]:
    """A patch that replaces whole files, makes and deletes some; some hunks are wrong by purpose."""
    after: dict[str, str] | None = dict(model.files)
    parts = []
    for path in numbers.sample(NAMES, numbers.randint(1, 3)):
        before, text = model.files.get(path), random_text(numbers)
        claimed = before
        if before is not None and numbers.random() < 0.2:
            claimed = before + "wrong\n"
            after = None
        deletes = before is not None and numbers.random() < 0.3
        if (claimed or "") == ("" if deletes else text) or claimed == "":
            continue
        if before is None and not text:
            continue
        parts.append(file_patch(path, claimed, "" if deletes else text, deletes=deletes or text == ""))
        if after is not None and (deletes or text == ""):
            del after[path]
        elif after is not None:
            after[path] = text
    return "patch", {"patch": "".join(parts)}, after if parts else None


def file_patch(path: str, before: str | None, after: str, *, deletes: bool) -> str:
    old = [] if before is None else pieces(before)
    new = [] if deletes else pieces(after)
    here, there = "/dev/null" if before is None else f"a/{path}", "/dev/null" if deletes else f"b/{path}"
    head = f"--- {here}\n+++ {there}\n"
    numbers = f"@@ -{1 if old else 0},{len(old)} +{1 if new else 0},{len(new)} @@\n"
    return head + numbers + "".join(f"-{line}" for line in old) + "".join(f"+{line}" for line in new)


def pieces(text: str) -> list[str]:
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, f"{lines[-1]}\n\\ No newline at end of file\n"] if lines[-1] else ended


@pytest.mark.suite
@pytest.mark.timeout(3600)
async def test_random_sequences_do_what_a_model_does(folder: Path, workspace: Workspace) -> None:
    numbers = random.Random(11)
    done = undone = refused = 0
    for sequence in range(SEQUENCES):
        model = Model()
        for step in range(numbers.randint(1, 6)):
            call = f"s{sequence}-{step}"
            if model.undo and numbers.random() < 0.25:
                await undo_latest(workspace, model)
                undone += 1
            else:
                tool, given, after = numbers.choice((write, edit, patch))(numbers, model)
                outcome = await called(workspace, tool, call, **given)
                assert (outcome.status is Status.SUCCESS) == (after is not None), (
                    given,
                    outcome,
                    model.files,
                )
                if after is not None:
                    model.changed(call, after)
                    done += 1
                else:
                    refused += 1
            assert {path: text for path, (text, _) in found(folder).items()} == model.files
        while model.undo:
            await undo_latest(workspace, model)
        assert names_in(folder) == []
    assert min(done, undone, refused) > SEQUENCES // 4


async def undo_latest(workspace: Workspace, model: Model) -> None:
    """Undo the latest change. An earlier one is refused first, where a file is neither what it left nor what
    it was before."""
    call, before, after = model.undo.pop()
    for earlier, was, left in model.undo:
        if any(after.get(path) not in (left.get(path), was.get(path)) for path in touched(model, earlier)):
            with pytest.raises(UndoRefused):
                await workspace.find_undo(earlier)
    await workspace.undo(call, lambda _: None)
    model.files = before


def touched(model: Model, call: str) -> set[str]:
    """The files that a call changed."""
    _, before, after = next(item for item in model.undo if item[0] == call)
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


async def test_undo_restores_bytes_mode_and_time(folder: Path, workspace: Workspace) -> None:
    path = folder / "run.sh"
    path.write_bytes(b"#!/bin/sh\n\xff\n")
    path.chmod(0o750)
    os.utime(path, ns=(1_000_000_007, 1_000_000_009))
    result = await called(workspace, "write", path="run.sh", content="#!/bin/sh\n")
    assert result.status is Status.SUCCESS
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    await workspace.undo("call", lambda _: None)
    about = path.stat()
    assert path.read_bytes() == b"#!/bin/sh\n\xff\n"
    assert (stat.S_IMODE(about.st_mode), about.st_mtime_ns) == (0o750, 1_000_000_009)


@pytest.mark.parametrize("change", ["text", "mode", "gone"])
async def test_undo_is_refused_where_the_file_is_not_what_the_call_left(
    folder: Path, workspace: Workspace, change: str
) -> None:
    (folder / "a").write_text("one\n")
    await called(workspace, "write", path="a", content="two\n")
    if change == "text":
        (folder / "a").write_text("three\n")
    elif change == "mode":
        (folder / "a").chmod(0o600 if stat.S_IMODE((folder / "a").stat().st_mode) != 0o600 else 0o644)
    else:
        (folder / "a").unlink()
    before = found(folder)
    with pytest.raises(UndoRefused, match="a is not what the call left"):
        await workspace.undo("call", lambda _: None)
    assert found(folder) == before


async def test_undo_happens_once(folder: Path, workspace: Workspace) -> None:
    await called(workspace, "write", path="sub/a", content="two\n")
    await workspace.undo("call", lambda _: None)
    assert names_in(folder) == []
    with pytest.raises(UndoRefused, match="nothing to undo"):
        await workspace.undo("call", lambda _: None)


PATCH = "".join(
    f"--- {'/dev/null' if new else 'a/' + name}\n+++ b/{name}\n@@ -{'0,0' if new else '1'} +1 @@\n"
    f"{'' if new else '-one' + chr(10)}+two\n"
    for name, new in (("a", False), ("new/b", True), ("c", False))
)


@pytest.mark.parametrize("fails", range(3))
async def test_a_patch_that_fails_half_way_leaves_every_file_as_it_was(
    folder: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    for name in ("a", "c"):
        (folder / name).write_text("one\n")
        os.utime(folder / name, ns=(5_000_000_000, 5_000_000_000))
    real, count = write_files._commit, iter(range(3))

    def commit(item: Any) -> None:
        if next(count) == fails:
            raise OSError(28, "No space left on device")
        real(item)

    monkeypatch.setattr(write_files, "_commit", commit)
    result = await called(workspace, "patch", patch=PATCH)
    assert (result.status, result.message) == (
        Status.FAILED,
        "the change could not be written: the disk is full",
    )
    assert {path: text for path, (text, _) in found(folder).items()} == {"a": "one\n", "c": "one\n"}
    assert [(folder / name).stat().st_mtime_ns for name in ("a", "c")] == [5_000_000_000] * 2
    assert names_in(folder) == ["a", "c"]
    with pytest.raises(UndoRefused):
        await workspace.find_undo("call")


async def test_a_change_that_a_crash_cut_short_can_be_undone(
    folder: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "c"):
        (folder / name).write_text("one\n")
    real, count = write_files._commit, iter(range(3))

    class Killed(BaseException):
        pass

    def commit(item: Any) -> None:
        if next(count) == 1:
            raise Killed
        real(item)

    monkeypatch.setattr(write_files, "_commit", commit)
    monkeypatch.setattr(write_files, "_restored", lambda item: True)
    monkeypatch.setattr(workspace.store, "drop", lambda call: None)
    with pytest.raises(Killed):
        await called(workspace, "patch", patch=PATCH)
    assert (folder / "a").read_text() == "two\n"
    monkeypatch.undo()
    undo = await workspace.undo("call", lambda _: None)
    assert undo.paths == ("a",)
    assert {path: text for path, (text, _) in found(folder).items()} == {"a": "one\n", "c": "one\n"}


async def test_what_was_approved_is_what_is_written(folder: Path, workspace: Workspace) -> None:
    (folder / "a").write_text("one\n")
    approved = {"a": digest_of(b"one\n")}
    (folder / "a").write_text("one more\n")
    given = {"path": "a", "old": "one", "new": "two"}
    result = await workspace.call("workspace.edit", given, "call", approved=approved)
    assert (result.status, result.code) == (Status.FAILED, Code.APPROVAL_STALE)
    assert (folder / "a").read_text() == "one more\n"


async def test_a_file_is_read_by_pages(folder: Path, workspace: Workspace) -> None:
    (folder / "long").write_text("".join(f"line {number}\n" for number in range(10_000)))
    text, offset, pages = "", 0, 0
    while True:
        page = (await called(workspace, "read", path="long", offset=offset, limit=3_000)).output
        assert isinstance(page, dict)
        assert page["firstLine"] == offset + 1
        assert page["totalLines"] == 10_000
        text, pages = text + page["text"], pages + 1
        if "nextOffset" not in page:
            break
        offset = page["nextOffset"]
    assert pages == 4
    assert text == (folder / "long").read_text()


@pytest.mark.parametrize(
    ("data", "binary", "text"),
    [
        (b"", False, ""),
        (b"no end", False, "no end"),
        (b"a\r\nb\r\n", False, "a\r\nb\r\n"),
        (b"\x00\x01", True, None),
        (b"\xff\xfe text\n", True, None),
        (b"\xef\xbb\xbfbom\n", False, "\ufeffbom\n"),
    ],
)
async def test_files_of_every_kind_are_read(
    folder: Path, workspace: Workspace, data: bytes, binary: bool, text: str | None
) -> None:
    (folder / "file").write_bytes(data)
    page = (await called(workspace, "read", path="file", limit=100)).output
    assert isinstance(page, dict)
    assert (page["binary"], page.get("text"), page["bytes"]) == (binary, text, len(data))


async def test_a_line_that_is_too_long_for_a_page_is_cut(folder: Path, workspace: Workspace) -> None:
    (folder / "file").write_text("é" * 100_000 + "\nsecond\n")
    page = (await called(workspace, "read", path="file", limit=100)).output
    assert isinstance(page, dict)
    assert page["cutLine"] is True
    assert set(page["text"]) == {"é"}
    assert page["nextOffset"] == 1
    rest = (await called(workspace, "read", path="file", offset=1, limit=100)).output
    assert isinstance(rest, dict)
    assert (rest["text"], "cutLine" in rest) == ("second\n", False)


async def test_a_list_is_sorted_paged_and_does_not_follow_links(folder: Path, workspace: Workspace) -> None:
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "x").write_text("x")
    (folder / "b").mkdir()
    (folder / "b" / "c").write_text("12")
    (folder / "a").symlink_to("b")
    first = (await called(workspace, "list", recursive=True, limit=2)).output
    assert isinstance(first, dict)
    assert first["entries"] == [{"path": "a", "kind": "link"}, {"path": "b", "kind": "folder"}]
    second = (await called(workspace, "list", recursive=True, limit=9, offset=first["nextOffset"])).output
    assert isinstance(second, dict)
    assert second["entries"] == [
        {"path": "b/c", "kind": "file", "bytes": 2},
        {"path": "node_modules", "kind": "folder", "notEntered": True},
    ]
    inside = (await called(workspace, "list", path="node_modules", limit=9)).output
    assert isinstance(inside, dict)
    assert inside["entries"] == [{"path": "node_modules/x", "kind": "file", "bytes": 1}]
