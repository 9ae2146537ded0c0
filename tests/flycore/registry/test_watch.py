"""Each change is noticed, and nothing else; also of files and folders that come later."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from flycore.registry.folder_notices import folder_notices
from flycore.registry.paths import REGISTRY_FILE, SETTINGS_FILE
from flycore.registry.stamps import Stamp, file_stamps, stamp_of
from flycore.registry.watch import watch_files

if TYPE_CHECKING:
    from conftest import Root

WAIT = 10.0
"""Seconds a change may take here; the promise is one, this is slack for a busy machine."""


class Seen:
    """Counts what the watch yields."""

    def __init__(self) -> None:
        self.count = 0
        self.condition = anyio.Condition()

    async def until(self, count: int) -> None:
        """Wait for that many changes in all; raises TimeoutError."""
        with anyio.fail_after(WAIT):
            async with self.condition:
                while self.count < count:
                    await self.condition.wait()


@asynccontextmanager
async def watching(root: Root) -> AsyncIterator[Seen]:
    """A watch over the root; began before the body."""
    seen, stop, began = Seen(), anyio.Event(), anyio.Event()

    async def watch() -> None:
        changes = watch_files(root.places, file_stamps(root.places), stop)
        began.set()
        async for _ in changes:
            async with seen.condition:
                seen.count += 1
                seen.condition.notify_all()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await began.wait()
        await anyio.lowlevel.checkpoint()
        yield seen
        stop.set()


def replace(root: Root, text: str) -> None:
    """What editors do: write beside, then rename over."""
    root.write("tools/.new", text)
    os.replace(root.app / "tools/.new", root.app / REGISTRY_FILE)


@pytest.mark.anyio
async def test_atomic_replace_and_half_written_files(root: Root) -> None:
    good = '{"schemaVersion": 2, "sidecars": {"a": {"command": "true", "tools": ["file.hash"]}}}'
    first = root.load(good)
    async with watching(root) as seen:
        replace(root, good.replace('"a"', '"b"'))
        await seen.until(1)
        second = root.load(previous=first)
        assert [entry.id for entry in second.entries] == ["b"]
        root.write(REGISTRY_FILE, good[:40])
        await seen.until(2)
        half = root.load(previous=second)
        assert half.entries == second.entries
        assert [problem.rule for problem in half.diagnostics] == ["syntax"]
        (root.app / REGISTRY_FILE).unlink()
        await seen.until(3)
        assert root.load(previous=half).entries == ()


@pytest.mark.anyio
async def test_other_files_are_no_change(root: Root) -> None:
    root.load('{"schemaVersion": 2}')
    async with watching(root) as seen:
        root.write("tools/other.txt", "x")
        root.write(root.places.config_dir / SETTINGS_FILE, "{}")
        await seen.until(1)
        assert seen.count == 1


@pytest.mark.anyio
async def test_a_file_that_became_another_and_the_same_again_is_a_change(root: Root) -> None:
    """Whoever read between the two holds the other one."""
    good = '{"schemaVersion": 2}'
    root.load(good)
    async with watching(root) as seen:
        replace(root, '{"schemaVersion": 1}')
        replace(root, good)
        await seen.until(1)


@pytest.mark.anyio
async def test_what_changed_before_the_watch_began_is_noticed(root: Root) -> None:
    before = file_stamps(root.places)
    root.write(REGISTRY_FILE, "{}")
    with anyio.fail_after(WAIT):
        async for _ in watch_files(root.places, before, anyio.Event()):
            break


@pytest.mark.anyio
async def test_files_in_folders_that_appear_later(root: Root) -> None:
    async with watching(root) as seen:
        root.write(REGISTRY_FILE, "{}")
        await seen.until(1)
        root.write(root.places.config_dir / SETTINGS_FILE, "{}")
        await seen.until(2)
        root.write(root.places.policy_file, "{}")
        await seen.until(3)
        root.write("tools/policy.jsonc", "{}")
        await seen.until(4)


@pytest.mark.anyio
async def test_stops_when_told(root: Root) -> None:
    stop = anyio.Event()
    stop.set()
    with anyio.fail_after(WAIT):
        assert [change async for change in watch_files(root.places, file_stamps(root.places), stop)] == []


@pytest.mark.anyio
async def test_further_files_and_folders_are_watched_like_the_own_ones(root: Root) -> None:
    folder = root.places.app_root / "more" / "bin"

    def further() -> tuple[tuple[Path, Stamp], ...]:
        paths = (folder, *(folder.iterdir() if folder.is_dir() else ()))
        return tuple((path, stamp_of(path)) for path in paths)

    seen, stop = Seen(), anyio.Event()

    async def watch() -> None:
        async for _ in watch_files(root.places, file_stamps(root.places, further), stop, further):
            async with seen.condition:
                seen.count += 1
                seen.condition.notify_all()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await anyio.lowlevel.checkpoint()
        folder.mkdir(parents=True)
        await seen.until(1)
        (folder / "tool").write_text("one")
        await seen.until(2)
        (folder / "tool").unlink()
        await seen.until(3)
        stop.set()


@pytest.mark.anyio
async def test_changes_are_noticed_without_inotify_as_well(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flycore.registry.folder_notices.sys.platform", "elsewhere")
    async with watching(root) as seen:
        replace(root, "{}")
        await seen.until(1)
        replace(root, '{"schemaVersion": 2}')
        await seen.until(2)


@pytest.mark.anyio
async def test_a_watch_wakes_nobody_while_nothing_changes(root: Root) -> None:
    """The notices of a folder come while it waits, and none without a change."""
    folder = root.places.app_root / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    stop, woken = anyio.Event(), anyio.Event()
    with folder_notices([folder]) as notices:

        async def wait() -> None:
            await notices.wait(stop)
            woken.set()

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert not woken.is_set()
            (folder / "new").write_text("x")
            with anyio.fail_after(WAIT):
                await woken.wait()
