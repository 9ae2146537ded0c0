"""An anchor that the running kernel could not leave: status, Doctor and `flytui audit verify` report it."""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from flycore.audit.log import ANCHOR_EVERY
from flycore.kernel.kernel import Kernel
from flycore.model.diagnostics import CheckState
from kits.command_line import Desk
from kits.kernel import ECHO, Root
from kits.unix_socket import served

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO)
    return root


def log_until_an_anchor_is_due(kernel: Kernel) -> None:
    for number in range(ANCHOR_EVERY):
        kernel.record_token_change(f"t{number}", "made", "a test")


async def anchor_checks(kernel: Kernel) -> list[tuple[CheckState, str, str]]:
    found = await kernel.checks()
    return [(check.state, check.message, check.fix) for check in found if check.name == "anchors"]


async def test_it_is_reported_everywhere_until_an_anchor_is_left(root: Root) -> None:
    desk, folder = Desk(root.folder, root.base), root.places.data_dir / "anchors"
    async with served(root) as kernel:
        log_until_an_anchor_is_due(kernel)
        assert kernel.status().anchor_problem == ""
        assert await anchor_checks(kernel) == []
        done = await run_sync(desk.run, "audit", "verify")
        assert (done.returncode, "anchors:" in done.stdout) == (0, False)

    (root.places.data_dir / "kept").mkdir()
    folder.rename(root.places.data_dir / "kept" / "anchors")
    async with served(root) as kernel:
        folder.write_text("in the way")
        log_until_an_anchor_is_due(kernel)
        problem = kernel.status().anchor_problem
        assert problem.startswith("no anchor can be written to ")
        ((state, message, fix),) = await anchor_checks(kernel)
        assert (state, message.startswith(problem), bool(fix)) == (CheckState.WARN, True, True)
        done = await run_sync(desk.run, "audit", "verify")
        assert f"anchors: {problem}" in done.stdout
        assert (await run_sync(desk.document, "audit", "verify"))["anchorProblem"] == problem
        assert f"warn  anchors: {problem}" in (await run_sync(desk.run, "doctor")).stdout

        folder.unlink()
        kernel.record_token_change("last", "made", "a test")
        assert kernel.status().anchor_problem == ""
        assert await anchor_checks(kernel) == []
        assert (await run_sync(desk.document, "audit", "verify"))["anchorProblem"] == ""


async def test_without_a_kernel_there_is_nothing_to_report(root: Root) -> None:
    async with served(root):
        pass
    assert (await run_sync(Desk(root.folder, root.base).document, "audit", "verify"))["anchorProblem"] == ""
