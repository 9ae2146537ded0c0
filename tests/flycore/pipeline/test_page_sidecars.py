"""Every program of docs/writing-sidecars.md, called through the kernel as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flycore.model.enums import Status
from kits.kernel import Root, approved_call, kernel_of, tool
from kits.terminals import needs

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[3] / "docs" / "writing-sidecars.md"
PROGRAMS = dict(re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
STAY = {"kind": "process-json-persistent"}
CALLS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "lines.py": ("text.lines", {"path": "notes"}, {"lines": 2}),
    "load.sh": ("host.load", {}, {}),
    "recall.py": ("text.recall", {"text": "a"}, {"texts": ["a", "a"]}),
    "repeat.py": ("text.repeat", {"text": "a", "times": 3}, {"result": "a a a"}),
    "tally.mjs": ("text.tally", {"text": "one two"}, {"words": 4}),
    "upper.py": ("text.upper", {"text": "é"}, {"text": "É"}),
    "uptime.sh": ("host.uptime", {}, {}),
    "words.mjs": ("text.words", {"text": "one two\nthree"}, {"words": 3, "lines": 2}),
}
"""Program to its tool, an input, and what the second call answers."""
READS = {"lines.py": ["notes"]}
"""What a program reads of the project, as its entry has to declare."""
STAYING = ("recall.py", "repeat.py", "tally.mjs", "uptime.sh")


def test_each_program_is_called() -> None:
    assert sorted(CALLS) == sorted(PROGRAMS)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
async def test_a_program_of_the_page(tmp_path: Path, name: str) -> None:
    if name.endswith(".mjs"):
        needs("node")
    called, given, wanted = CALLS[name]
    root = Root(tmp_path)
    (root.folder / "notes").write_text("a\nb\n")
    file = root.folder / "tools" / "bin" / name
    file.parent.mkdir()
    file.write_text(PROGRAMS[name])
    file.chmod(0o755)
    root.sidecars["of.the.page"] = {
        "command": f"./tools/bin/{name}",
        "permissions": {"fs": {"read": READS.get(name, [])}},
        "probe": {"mode": "request"},
        "tools": [tool(called)],
        **(STAY if name in STAYING else {}),
    }
    root.write()
    async with kernel_of(root) as kernel:
        results = [await approved_call(kernel, called, given) for _ in range(2)]
    assert [result.status for result in results] == [Status.SUCCESS] * 2, results
    assert [result.warnings for result in results] == [()] * 2
    output = results[1].output
    assert isinstance(output, dict)
    assert {key: output.get(key) for key in wanted} == wanted
    if "process" in output:
        assert isinstance(results[0].output, dict)
        assert results[0].output["process"] == output["process"]
