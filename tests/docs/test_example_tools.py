"""The programs in docs/examples are whole tools: they run as they are, dropped into a folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.enums import Code, Effective
from kits.command_line import Desk
from kits.executables import user_tools
from kits.kernel import Root, approved_call, kernel_of, request, until

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CALLS = {
    "echo.py": ("echo", {"text": "hi", "times": 2}, {"result": "hi hi", "metadata": {"characters": 5}}),
    "fortune": ("fortune", {"day": 9}, {"saying": "A test that fails is a fault that was found."}),
}


def test_every_example_has_a_case() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == set(CALLS)
    assert all(os.access(EXAMPLES / name, os.X_OK) for name in CALLS)


@pytest.mark.anyio
async def test_dropped_into_a_folder_they_are_tools(tmp_path: Path) -> None:
    root = Root(tmp_path)
    async with kernel_of(root) as kernel:
        for name in CALLS:
            shutil.copy(EXAMPLES / name, user_tools(root) / name)
        for tool, given, output in CALLS.values():
            await until(lambda tool=tool: _available(kernel, tool))
            result = await approved_call(kernel, tool, given)
            assert (result.output, result.warnings) == (output, ())
        too_often = await approved_call(kernel, "echo", {"text": "x", "times": 11})
        assert too_often.error is not None
        assert (too_often.error.code, too_often.error.message) == ("failed", "times must be from 1 to 10")
        no_day = await kernel.call(request(kernel, "fortune", {"day": 32}))
        assert no_day.error is not None
        assert no_day.error.code == Code.INVALID_INPUT


def _available(kernel: Kernel, name: str) -> bool:
    view = kernel.catalog().capability(name)
    known = view is not None and bool(view.capability.definition)
    return known and view is not None and view.stability.effective is Effective.AVAILABLE


@pytest.mark.parametrize("name", sorted(CALLS))
def test_they_pass_the_command_that_tests_a_tool(name: str, tmp_path: Path) -> None:
    tool, given, output = CALLS[name]
    (tmp_path / "root").mkdir()
    desk = Desk(tmp_path / "root", tmp_path / "home")
    tested = desk.run("tools", "test", str(EXAMPLES / name), "--input", json.dumps(given), "--json")
    assert tested.returncode == 0, tested.stderr
    trial = json.loads(tested.stdout)["trial"]
    assert [item["name"] for item in trial["tools"]] == [tool]
    assert trial["call"]["output"] == output


@pytest.mark.parametrize("name", sorted(CALLS))
def test_they_run_by_hand_as_well(name: str) -> None:
    _, given, output = CALLS[name]
    done = subprocess.run(
        [EXAMPLES / name], input=json.dumps(given), capture_output=True, text=True, check=True, timeout=60
    )
    printed = json.loads(done.stdout)
    assert output in (printed, {key: value for key, value in printed.items() if key != "success"})
