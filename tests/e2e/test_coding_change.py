"""A whole small change of a project, made by an MCP client through `flytui mcp`: it reads, searches, edits,
runs the tests, looks at the difference and commits. A person approves what acts, in a terminal; then one
change is undone. The client is the official one, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from kits.command import PYTHON, forked_bin
from kits.programs import needs_bubblewrap
from kits.scenes import assert_whole, call
from kits.terminals import PATIENCE, Root, Tmux, console, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
READY = "keys ready ●"
LETTER = r"confirm with ‹(.)›"
READING_SECONDS = 0.6
"""What a person takes to find the letter: pressed sooner than 0.3 s it does not count."""

AGENT = """
import json, os, sys
import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

FLYTUI, ROOT = sys.argv[1:]

async def main():
    server = StdioServerParameters(command=FLYTUI, args=["--root", ROOT, "mcp"], env=dict(os.environ))
    async with Client(server, mode="2026-07-28") as client:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            name, given = json.loads(line)
            result = await client.call_tool(name, given)
            text = result.content[0].text if result.content else ""
            said = dict(output=result.structured_content, error=result.is_error, text=text)
            print(json.dumps(said), flush=True)

anyio.run(main)
"""
SHOP = """def total(prices):
    return sum(prices) - 1
"""
TESTS = """import unittest
from shop import total

class TotalTest(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(total([1, 2, 3]), 6)
"""


class Agent:
    """The client; `call` makes one call, and `result` waits for its end."""

    def __init__(self, root: Root) -> None:
        words = [f"{forked_bin()}/flytui", str(root.folder)]
        self.process = Popen(
            PYTHON.launcher("agent", AGENT, *words), env=root.environ, stdin=PIPE, stdout=PIPE, text=True
        )

    def call(self, name: str, **given: Any) -> None:
        """Begin a call."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, given]) + "\n")
        self.process.stdin.flush()

    def result(self) -> dict[str, Any]:
        """The output of the call that was begun last."""
        assert self.process.stdout is not None
        said: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert not said["error"], said["text"]
        output: dict[str, Any] = said["output"]
        return output

    def free(self, name: str, **given: Any) -> dict[str, Any]:
        """A call that nobody is asked about."""
        self.call(name, **given)
        return self.result()

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


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
    tmux.sees("1 waiting")
    if READY not in tmux.screen():
        tmux.keys("C-o")
    tmux.sees(shows)
    tmux.read_card()
    if "confirm with" not in tmux.screen():
        tmux.decide()
        return agent.result()
    letter = tmux.sees(LETTER)[1]

    def pressed() -> bool:
        # A key that came while the console stood still is dropped, and the card armed anew.
        if READY in tmux.screen():
            tmux.keys("a")
            time.sleep(READING_SECONDS)
            tmux.keys(letter)
            time.sleep(READING_SECONDS)
        return READY not in tmux.screen() and "confirm with" not in tmux.screen()

    until("the letter has decided", pressed)
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
    tmux.sees("HOW IT GOES")
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
