"""Entries as wholes: every problem at once, ids, kinds, what a message may repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flycore.catalog.plan_capabilities import plan_names
from flycore.model.enums import Source
from flycore.model.sidecar import DEFAULT_TIMEOUT_MS
from flycore.registry.names import PLANS

if TYPE_CHECKING:
    from conftest import Root

FRAME = """{{
  // comment with "a": colon
  "schemaVersion": 2,
  "sidecars": {{
    "good.before": {{"command": "true", "tools": ["web.search"]}},
    {entry},
    "good.after": {{"command": "true", "tools": ["web.fetch"]}},
  }},
}}
"""


def test_all_problems_of_an_entry_at_once(root: Root) -> None:
    entry = (
        '"bad": {"timeoutMs": -1, "kind": "x", "passEnv": ["A_TOKEN"], "tols": [], '
        '"tools": ["git.log", "nope"]}'
    )
    bad = root.load(FRAME.format(entry=entry)).entry("bad")
    assert bad is not None
    assert sorted(problem.rule for problem in bad.problems) == [
        "builtin-tool",
        "schema",
        "schema",
        "schema",
        "secret-name",
        "unknown-key",
        "unknown-tool",
    ]
    assert bad.tool_names == ("git.log", "nope")


def test_duplicate_names_both_lines(root: Root) -> None:
    bad = root.load(FRAME.format(entry='"bad": {"command": "x",\n"command": "y"}')).entry("bad")
    assert bad is not None
    assert "line 6 and in line 7" in bad.problems[0].message


@pytest.mark.parametrize("sidecar", ["Bad", "a b", "ä", "x" * 65, "a/b", "~"])
def test_sidecar_ids(root: Root, sidecar: str) -> None:
    entry = root.load(FRAME.format(entry=f'"{sidecar}": {{"command": "x", "tools": ["file.hash"]}}'))
    bad = entry.entry(sidecar)
    assert bad is not None
    assert [problem.rule for problem in bad.problems] == ["sidecar-id"]


def test_a_value_never_shows_in_a_message(root: Root) -> None:
    entry = '"bad": {"command": "x", "env": {"OK": 5318008}, "timeoutMs": "hunter2", "kind": "hunter2"}'
    bad = root.load(FRAME.format(entry=entry)).entry("bad")
    assert bad is not None
    said = " ".join(problem.message + problem.remedy for problem in bad.problems)
    assert "hunter2" not in said
    assert "5318008" not in said


@pytest.mark.parametrize("kind", ["process-json", "process-json-persistent", "executable", "mcp"])
def test_every_kind_parses(root: Root, kind: str) -> None:
    entry = root.load(
        FRAME.format(entry=f'"x": {{"command": "y", "kind": "{kind}", "tools": ["file.hash"]}}')
    )
    found = entry.entry("x")
    assert found is not None
    assert found.problems == ()
    assert found.kind == kind


@pytest.mark.parametrize("cwd", ["app", "project"])
def test_the_users_file_starts_in_the_open_root_and_runs_nothing_of_it(root: Root, cwd: str) -> None:
    entry = f'"bad": {{"command": "./x", "cwd": "{cwd}", "tools": ["file.hash"]}}, '
    entry += f'"there": {{"command": "x", "cwd": "{cwd}", "tools": ["vision.ocr"], "timeoutMs": 0}}'
    text = FRAME.format(entry=entry)
    registry = root.load(None, text)
    bad, good, there = (registry.entry(name) for name in ("bad", "good.before", "there"))
    assert bad is not None
    assert there is not None
    assert (there.problems, there.cwd) == ((), "app")
    assert there.timeout_ms == DEFAULT_TIMEOUT_MS
    assert good is not None
    assert [problem.rule for problem in bad.problems] == ["anchor"]
    assert (good.source, good.cwd) == (Source.USER, "config")
    assert bad.position.file == "~/.config/flytui/tools/external.tools.jsonc"


def test_a_tool_that_flytui_serves_itself_is_kept_with_the_reason(root: Root) -> None:
    tools = '["file.hash", "computer.use"]'
    theirs = f'{{"command": "x", "tools": {tools}}}'
    registry = root.load(f'{{"schemaVersion": 2, "sidecars": {{"theirs": {theirs}}}}}')
    entry = registry.entry("theirs")
    assert entry is not None
    assert entry.valid
    assert entry.tool_names == ("file.hash", "computer.use")
    assert [problem.rule for problem in entry.problems] == ["served-by-flytui"]


def test_the_names_of_plans_are_those_of_the_kernel() -> None:
    assert plan_names() == PLANS
