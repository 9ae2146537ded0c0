"""The version of a package, from the files of its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from flycore.model.enums import Effective
from kits.kernel import ECHO, Root, kernel_of, tool

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("file", "text", "state"),
    [
        ("sidecar.json", '{"version": "1.4.0"}', Effective.AVAILABLE),
        ("package.json", '{"name": "p", "version": "1.4"}', Effective.AVAILABLE),
        ("package.jsonc", '{"version": "1.4.0",} // ours', Effective.AVAILABLE),
        ("package.json", '{"version": "1.3.0"}', Effective.DEGRADED),
        ("package.json", '{"version": 7}', Effective.AVAILABLE),
        ("package.json", "no json", Effective.AVAILABLE),
        ("readme.txt", "", Effective.AVAILABLE),
    ],
)
async def test_only_another_version_than_the_declared_one_degrades(
    tmp_path: Path, file: str, text: str, state: Effective
) -> None:
    root = Root(tmp_path)
    folder = root.folder / "tools" / "packages" / "p"
    folder.mkdir(parents=True)
    (folder / file).write_text(text)
    root.sidecar("theirs", ECHO, tool("theirs.do"), packageId="p", packageVersion="1.4.0")
    async with kernel_of(root) as kernel:
        view = kernel.catalog().capability("theirs.do")
        assert view is not None
        assert view.stability.effective is state
        assert [reason.code for reason in view.stability.reasons] == (
            ["version-unknown"] if state is Effective.DEGRADED else []
        )


async def test_a_link_out_of_the_project_states_no_version(tmp_path: Path) -> None:
    root = Root(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "package.json").write_text('{"version": "1.3.0"}')
    (root.folder / "tools" / "packages").mkdir()
    (root.folder / "tools" / "packages" / "p").symlink_to(tmp_path / "elsewhere")
    root.sidecar("theirs", ECHO, tool("theirs.do"), packageId="p", packageVersion="1.4.0")
    async with kernel_of(root) as kernel:
        view = kernel.catalog().capability("theirs.do")
        assert view is not None
        assert view.stability.effective is Effective.AVAILABLE
