"""The page about manifests and its examples are loaded, called and compared; the page names each key."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from flycore.catalog.registry_capability import capability_from_spec, example_findings
from flycore.model.call import ToolResult
from flycore.model.enums import Status
from flycore.registry.manifest import parse_manifest
from flycore.registry.schema import manifest_schema
from flytui.cli.tool_examples import is_expected
from kits.kernel import Root, answered_call, approve, kernel_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "manifests.md"
EXAMPLES = sorted((ROOT / "docs" / "examples" / "manifests").glob("*/tool.yml"))


def shown() -> str:
    """The manifest of the page."""
    text = PAGE.read_text(encoding="utf-8")
    return text.partition("```yaml manifest\n")[2].partition("```")[0]


def test_the_page_s_manifest_is_read_without_a_word() -> None:
    entry = parse_manifest(shown(), "tool.yml", folder="greet")
    assert entry.problems == ()
    assert entry.args == ("${times}", "--to=${who}")
    assert capability_from_spec(entry.tools[0], entry.id).asks_because == "it speaks to other people"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_each_example_is_read_without_a_word(file: Path) -> None:
    entry = parse_manifest(file.read_text(encoding="utf-8"), file.name, folder=file.parent.name)
    assert entry.problems == ()
    assert example_findings(entry) == ()
    assert capability_from_spec(entry.tools[0], entry.id).example_calls


def test_there_is_an_example_of_each_kind() -> None:
    kinds = [parse_manifest(file.read_text(), "f", folder=file.parent.name).kind for file in EXAMPLES]
    assert sorted(kinds) == ["command", "http", "python"]


def test_the_page_names_every_key() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert sorted(key for key in keys_of(manifest_schema()["$defs"]) if key not in text) == []


def keys_of(node: Any) -> set[str]:
    """The names of the properties that a manifest may have, anywhere."""
    if not isinstance(node, dict):
        return set()
    own = set(node.get("properties", {}))
    skipped = ("examples", "tool")
    return own.union(*(keys_of(value) for key, value in node.items() if key not in skipped))


async def called(root: Root, name: str) -> tuple[ToolResult, Any]:
    """The result of the first example of a tool, and what the example expects."""
    async with kernel_of(root) as kernel:
        view = kernel.catalog().capability(name)
        assert view is not None
        example = view.capability.example_calls[0]
        result = await answered_call(kernel, lambda ask: approve(kernel, ask), name, example.params)
        return result, example.expected_output


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["word_count", "todo_scan"])
async def test_an_example_gives_what_it_expects(tmp_path: Path, name: str) -> None:
    root = Root(tmp_path)
    shutil.copytree(EXAMPLES[0].parent.parent / name, root.folder / "tools" / "manifests" / name)
    (root.folder / "notes.txt").write_text("one two\nthree\n")
    (root.folder / "src").mkdir()
    (root.folder / "src" / "a.py").write_text("x = 1\n# TODO\n")
    (root.folder / "scripts").mkdir()
    (root.folder / "scripts" / "todo_scan.py").write_text(SCAN)
    result, expected = await called(root, name)
    assert result.status is Status.SUCCESS, result
    assert is_expected(expected, result.output), json.dumps(result.output)


SCAN = """
from pathlib import Path

def run(folder, limit=None):
    found = [
        {"file": str(file.relative_to(folder)), "line": number}
        for file in sorted(Path(folder).rglob("*.py"))
        for number, text in enumerate(file.read_text().splitlines(), 1)
        if "TODO" in text
    ]
    return found[:limit]
"""
