"""Doctor, asked of a kernel that runs: what it says changes with what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.diagnostics import CheckState
from kits.kernel import ECHO, Root, kernel_of

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
