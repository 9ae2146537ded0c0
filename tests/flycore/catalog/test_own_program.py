"""An entry whose program is missing, and whose id is one of flytui's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flycore.model.enums import Effective, ReasonCode
from flycore.registry.jsonc.parse import parse_jsonc
from kits.kernel import Root, kernel_of

pytestmark = pytest.mark.anyio

THEIRS: dict[str, dict[str, Any]] = {
    "utility.local": {
        "command": "./gone",
        "cwd": "project",
        "config": {"taskCommand": "", "taskArgs": [], "lspCommand": ""},
        "tools": ["file.hash", "archive.create"],
    },
    "media.local": {"command": "./gone", "dialect": "flyflor", "packageId": "p", "tools": ["vision.ocr"]},
}


@pytest.mark.parametrize("sidecar", sorted(THEIRS))
async def test_the_remedy_names_both_ways_and_the_second_one_works(tmp_path: Path, sidecar: str) -> None:
    root = Root(tmp_path)
    root.sidecars[sidecar] = THEIRS[sidecar]
    root.write()
    async with kernel_of(root) as kernel:
        view = kernel.catalog().capability(THEIRS[sidecar]["tools"][0])
        assert view is not None
        (reason,) = view.stability.reasons
    assert reason.code is ReasonCode.COMMAND_NOT_FOUND
    assert reason.fix is not None
    assert any("flytui-sidecar" in line for line in reason.fix.difference)
    written = reason.remedy.partition("or use flytui's own program: ")[2]
    value, problem = parse_jsonc(f"{{{written}}}", "remedy")
    assert problem is None
    assert isinstance(value, dict)
    other = Root(tmp_path / "other")
    other.sidecars = json.loads(json.dumps(value))
    other.write()
    async with kernel_of(other) as kernel:
        whole = kernel.catalog().sidecar(sidecar)
        assert whole is not None
        assert not [item for item in whole.entry.problems if item.severity == "error"]
        assert whole.stability.path == "resolved"
        assert whole.stability.effective is not Effective.DISABLED


async def test_another_id_or_another_tool_has_no_program_of_ours(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.sidecars["mine"] = {"command": "./gone", "tools": ["file.hash"]}
    own = {"name": "mine.do", "inputSchema": {"type": "object"}}
    root.sidecars["utility.local"] = {"command": "./gone", "tools": [own]}
    root.write()
    async with kernel_of(root) as kernel:
        for name in ("file.hash", "mine.do"):
            view = kernel.catalog().capability(name)
            assert view is not None
            assert "flytui-sidecar" not in view.stability.reasons[0].remedy
