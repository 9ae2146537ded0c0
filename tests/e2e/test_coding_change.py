"""A whole small change of a project, made by an MCP client through `flytui mcp`: it reads, searches, edits,
runs the tests, looks at the difference and commits. A person approves what acts, in a terminal; then one
change is undone. The client is the official one, in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kits.agent import Agent, approve_card
from kits.programs import needs_bubblewrap
from kits.scenes import assert_whole, call
from kits.terminals import Root, Tmux, console, make_root, needs

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
SHOP = """def total(prices):
    return sum(prices) - 1
"""
TESTS = """import unittest
from shop import total

class TotalTest(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(total([1, 2, 3]), 6)
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux", "git", "python3")
    needs_bubblewrap()
    root = make_root(tmp_path, '{"schemaVersion": 2, "sidecars": {}}')
    settings = root.home / "config" / "flytui"
    settings.mkdir(parents=True)
    (settings / "config.jsonc").write_text(json.dumps({"approvals": {"inlineWaitMs": 250_000}}))
    (root.folder / "shop.py").write_text(SHOP)
    (root.folder / "test_shop.py").write_text(TESTS)
    for words in (
        ("init", "-q", "-b", "main"),
        ("config", "user.name", "A Person"),
        ("config", "user.email", "person@example.org"),
        ("add", "."),
        ("commit", "-q", "-m", "Begin"),
    ):
        git(root, *words)
    yield root
    root.end()


def git(root: Root, *words: str) -> str:
    run = subprocess.run(
        ["git", *words], cwd=root.folder, env=root.environ, capture_output=True, text=True, check=True
    )
    return run.stdout


def approved(tmux: Tmux, agent: Agent, name: str, *, shows: str, **given: Any) -> dict[str, Any]:
    """Make a call and approve it once the card shows that."""
    agent.call(name, **given)
    approve_card(tmux, shows)
    return agent.result()


def test_a_change_from_reading_to_the_commit(root: Root) -> None:
    with console(root) as tmux:
        tmux.sees(r"workspace\.read")
        agent = Agent(root)
        try:
            assert agent.free("search_files", pattern="def total")["matches"][0]["path"] == "shop.py"
            assert agent.free("read_file", path="shop.py")["text"] == SHOP
            tests = {"argv": ["python3", "-m", "unittest", "-q"]}
            failing = approved(tmux, agent, "process_run", shows="unittest", **tests)
            assert failing["exitCode"] == 1, failing
            edit = {"path": "shop.py", "old": "sum(prices) - 1", "new": "sum(prices)"}
            edited = approved(tmux, agent, "edit_file", shows=r"\+    return sum\(prices\)", **edit)
            assert edited["files"] == [{"path": "shop.py", "change": "changed", "bytes": 42}]
            passing = approved(tmux, agent, "process_run", shows="unittest", **tests)
            assert passing["exitCode"] == 0, passing
            assert " M shop.py" in agent.free("git_status")["text"]
            assert "-    return sum(prices) - 1" in agent.free("git_diff")["text"]
            commit = {"argv": ["git", "commit", "-q", "-a", "-m", "Add without taking one away"]}
            assert approved(tmux, agent, "process_run", shows="commit", **commit)["exitCode"] == 0
            note = {"path": "notes/done.md", "content": "x\n"}
            noted = approved(tmux, agent, "write_file", shows="notes/done.md", **note)
        finally:
            agent.end()
        assert noted["undo"] is True
        assert git(root, "log", "-1", "--format=%s") == "Add without taking one away\n"
        _undo_in_the_console(root, tmux)
    assert_whole(root)
    _the_log_tells_it(root)


def _undo_in_the_console(root: Root, tmux: Tmux) -> None:
    """The key on the call's page shows the file, and gives it back what it was."""
    tmux.keys("3")
    tmux.sees("ASKED BY|OUTCOME")
    tmux.keys("Home")
    tmux.sees(r"▌.*workspace\.write")
    tmux.keys("Enter")
    tmux.sees("undo")
    tmux.keys("z")
    tmux.sees("Undo the change of workspace.write")
    tmux.sees("notes/done.md")
    tmux.decide()
    tmux.sees("undone: the files are what they were before")
    assert not (root.folder / "notes").exists()


def _the_log_tells_it(root: Root) -> None:
    lines = root.audit()
    ran = [line["tool"] for line in lines if line["event"] == "TOOL_EXECUTED" and line["status"] == "success"]
    assert ran == [
        "workspace.search",
        "workspace.read",
        "process.run",
        "workspace.edit",
        "process.run",
        "git.status",
        "git.diff",
        "process.run",
        "workspace.write",
    ]
    decided = [line["tool"] for line in lines if line["event"] == "APPROVAL_DECIDED"]
    assert decided == ["process.run", "workspace.edit", "process.run", "process.run", "workspace.write"]
    levels = {line["tool"]: line["level"] for line in lines if line["event"] == "TOOL_STARTED"}
    assert {levels[name] for name in ("process.run", "git.status", "git.diff")} == {"enforced"}
    (undone,) = [line for line in lines if line["event"] == "CHANGE_UNDONE"]
    assert (undone["tool"], undone["files"], undone["decision"]) == (
        "workspace.write",
        ["notes/done.md"],
        "undone",
    )


def test_a_change_is_undone_from_the_command_line(root: Root) -> None:
    """Without a kernel, and refused once the file is not what the call left."""
    rule = {"tool": "workspace.write", "decision": "allow", "because": "a test"}
    policy = root.home / "config" / "flytui" / "policy.jsonc"
    policy.write_text(json.dumps({"schemaVersion": 1, "rules": [rule]}))
    before = (root.folder / "shop.py").stat().st_mtime_ns
    code, result = call(root, "workspace.write", {"path": "shop.py", "content": "new\n"})
    assert (code, result["output"]["undo"]) == (0, True)
    (root.folder / "shop.py").write_text("mine\n")
    refused = root.flytui("undo", result["callId"])
    assert (refused.returncode, (root.folder / "shop.py").read_text()) == (4, "mine\n")
    assert "shop.py is not what the call left" in refused.stderr
    (root.folder / "shop.py").write_text("new\n")
    looked = root.flytui("undo", "--check", result["callId"], "--json")
    assert json.loads(looked.stdout)["outcome"] == "possible"
    done = root.flytui("undo", result["callId"])
    assert (done.returncode, done.stdout) == (0, "shop.py is what it was before\n"), done.stderr
    assert (root.folder / "shop.py").read_text() == SHOP
    assert (root.folder / "shop.py").stat().st_mtime_ns == before
    assert root.flytui("undo", result["callId"]).returncode == 4
    assert_whole(root)
    assert [line["decision"] for line in root.audit() if line["event"] == "CHANGE_UNDONE"] == ["undone"]
