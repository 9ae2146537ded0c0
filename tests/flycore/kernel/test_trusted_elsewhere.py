"""Trust of another worktree in a running kernel: said to a person, hidden from agents, and of no effect."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flycore.model.enums import ProgramComparison, ReasonCode, Status
from flycore.server.queries import Queries
from kits.kernel import Root, approver_of, kernel_of, request
from kits.programs import needs
from kits.values import CALLER

pytestmark = pytest.mark.anyio
RUN = "#!/bin/sh\nread -r request\nprintf '{\"ok\": true}\\n'\n"
COMMIT = ("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "begin")


def git(folder: Path, *words: str) -> None:
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["git", *words], cwd=folder, env=environ, check=True, capture_output=True, timeout=60)


async def test_a_worktree_is_told_what_is_trusted_and_runs_nothing_of_it(tmp_path: Path) -> None:
    needs("git")
    root = Root(tmp_path)
    root.sidecar("own", RUN, cwd="app", permissions={})
    shop, tree = root.folder, tmp_path / "tree"
    git(shop, "init", "-q", "-b", "main")
    git(shop, "add", "-A")
    git(shop, *COMMIT)
    async with kernel_of(root, trusted=False) as kernel:
        (item,) = kernel.pending_trust()
        assert item.elsewhere is None
        assert (await approver_of(kernel).trust(((item.sidecar, item.digest),))).accepted
    git(shop, "worktree", "add", "-q", "-b", "tree", str(tree))
    root.folder = tree
    async with kernel_of(root, trusted=False) as kernel:
        (item,) = kernel.pending_trust()
        assert item.elsewhere is not None
        assert (item.elsewhere.root, item.elsewhere.same) == (str(shop), True)
        assert item.elsewhere.programs is ProgramComparison.SAME
        result = await kernel.call(request(kernel, "own.do"))
        assert (result.status, result.error and result.error.code) == (
            Status.UNAVAILABLE,
            ReasonCode.FOLDER_UNTRUSTED,
        )
        agent = Queries(kernel, CALLER, viewer=False)
        assert [one.elsewhere for one in await agent.pending_trust()] == [None]
        assert await Queries(kernel, CALLER, viewer=True).pending_trust() == (item,)
