"""What a kernel keeps for the next console: when it is written, and that no other files pass for these."""

from __future__ import annotations

import stat
from pathlib import Path

import anyio.lowlevel
import pytest

from flycore.model.kept_catalog import MAX_KEPT_BYTES, KeptCatalog
from flycore.offline.console_files import read_kept_catalog
from kits.kernel import ECHO, Root, kernel_of, tool, until

pytestmark = pytest.mark.anyio


def names(kept: KeptCatalog | None) -> set[str]:
    return {row.tool for row in kept.rows} if kept is not None else set()


async def test_it_is_written_once_it_has_settled_and_again_after_a_change(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.sidecar("mock.one", ECHO, tool("one.do"))
    file = root.places.kept_catalog_file
    async with kernel_of(root) as kernel:
        await until(lambda: "one.do" in names(read_kept_catalog(root.places)))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        kept = read_kept_catalog(root.places)
        assert kept is not None
        shown = {view.capability.name: view.stability.effective for view in kernel.catalog().capabilities}
        assert {row.tool: row.effective for row in kept.rows if row.tool} == shown
        root.sidecar("mock.two", ECHO, tool("two.do"))
        # From this moment until the kernel has read the files and written the catalog, nothing is shown.
        assert read_kept_catalog(root.places) is None
        await until(lambda: "two.do" in names(read_kept_catalog(root.places)))
    assert "two.do" in names(read_kept_catalog(root.places))


async def test_files_that_were_changed_without_a_kernel_show_nothing_old(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.sidecar("mock.one", ECHO, tool("one.do"))
    async with kernel_of(root):
        await until(lambda: read_kept_catalog(root.places) is not None)
    assert read_kept_catalog(root.places) is not None
    policy = root.places.config_dir / "policy.jsonc"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text('{"schemaVersion": 1, "rules": []}')
    assert read_kept_catalog(root.places) is None
    policy.unlink()
    assert read_kept_catalog(root.places) is not None
    root.sidecars.clear()
    root.write()
    assert read_kept_catalog(root.places) is None


async def test_a_link_a_folder_and_a_file_too_large_count_as_absent(tmp_path: Path) -> None:
    root = Root(tmp_path)
    async with kernel_of(root):
        await until(lambda: read_kept_catalog(root.places) is not None)
    file = root.places.kept_catalog_file
    good = file.read_bytes()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(good)
    file.unlink()
    file.symlink_to(elsewhere)
    assert read_kept_catalog(root.places) is None
    file.unlink()
    file.mkdir()
    assert read_kept_catalog(root.places) is None
    file.rmdir()
    file.write_bytes(good + b" " * MAX_KEPT_BYTES)
    assert read_kept_catalog(root.places) is None
    file.write_bytes(good)
    assert read_kept_catalog(root.places) is not None


async def test_a_kernel_for_one_command_keeps_nothing(tmp_path: Path) -> None:
    root = Root(tmp_path)
    async with kernel_of(root, role="on-demand", trusted=False):
        await anyio.lowlevel.checkpoint()
    assert not root.places.kept_catalog_file.exists()
