"""Doctor, asked of a kernel that runs: what it says changes with what is there."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from flycore.approval.tool_blocks import ToolBlockStore
from flycore.kernel import lock
from flycore.kernel.doctor import check_blocks, check_writable
from flycore.kernel.kernel import Kernel
from flycore.kernel.lock import RootLock
from flycore.model.diagnostics import CheckState
from flycore.model.enums import KernelRole
from flycore.model.errors import StateUnwritable
from kits.kernel import ECHO, Root, kernel_of
from kits.values import sample_catalog

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO)
    return root


async def states(kernel: Kernel) -> dict[str, CheckState]:
    """State by name; of several of one name the last."""
    return {check.name: check.state for check in await kernel.checks()}


async def test_everything_is_looked_at_again_each_time(root: Root) -> None:
    async with kernel_of(root) as kernel:
        before = await states(kernel)
        assert (before["sidecar echo"], before["stop"]) == (CheckState.OK, CheckState.OK)
        assert (before["trust"], before["policy"], before["audit"]) == (CheckState.OK,) * 3
        assert "terminal" not in before
        root.sidecar("new", ECHO)
        root.policy({"tool": 7})
        await kernel.panic("a test")
        after = await states(kernel)
        assert (after["trust"], after["stop"]) == (CheckState.WARN, CheckState.WARN)
        assert after["policy"] is not CheckState.OK


async def test_a_log_that_was_changed_fails_while_the_kernel_runs(root: Root) -> None:
    async with kernel_of(root) as kernel:
        (log,) = (root.places.audit_dir).glob("*.jsonl")
        log.write_bytes(log.read_bytes().replace(b'"event"', b'"Event"', 1))
        (check,) = [check for check in await kernel.checks() if check.name == "audit"]
        assert check.state is CheckState.FAIL
        assert check.fix


async def test_a_fix_stands_beside_everything_that_is_not_well(root: Root) -> None:
    root.sidecar("gone", ECHO).unlink()
    async with kernel_of(root) as kernel:
        found = await kernel.checks()
        assert any(check.name == "sidecar gone" for check in found if check.state is not CheckState.OK)
        assert all(check.fix for check in found if check.state is not CheckState.OK)


def test_a_folder_that_takes_no_byte_is_found_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    assert check_writable(tmp_path).state is CheckState.OK
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # as on a full disk, a write fails
    try:
        check = check_writable(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert check.state is CheckState.FAIL
    assert check.fix
    assert list(tmp_path.iterdir()) == []
    assert check_writable(tmp_path / "none").state is CheckState.OK


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_a_root_whose_state_cannot_be_written_says_what_to_do(
    root: Root, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(path: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(lock, "private_folder", refuse)
    with (
        pytest.raises(StateUnwritable, match=r"state-unwritable: .*XDG_STATE_HOME"),
        RootLock.acquire(root.places, KernelRole.HEADLESS),
    ):
        pass


def test_a_block_of_no_tool_is_named(tmp_path: Path) -> None:
    store = ToolBlockStore(tmp_path / "blocks.json")
    known = sample_catalog().capabilities[0].capability.name
    store.block(known, 1.0)
    store.block("web.fetcg", 2.0)
    (check,) = check_blocks(store, sample_catalog())
    assert check.state is CheckState.WARN
    assert "web.fetcg is blocked, and no tool has that name" in check.message
    (tmp_path / "blocks.json").write_text("{")
    (check,) = check_blocks(ToolBlockStore(tmp_path / "blocks.json"), sample_catalog())
    assert check.state is CheckState.FAIL
