"""MCP servers that other people publish, at the level `enforced`."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flycore.model.enums import Level, Status
from kits.kernel import Root, approved_call, kernel_of, until
from kits.mcp_servers import capability
from kits.programs import NODE_MODULES, PYTHON_SERVERS, needs, needs_bubblewrap

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(180)]


@dataclass(frozen=True)
class Server:
    """A published server: its command, what it needs, one call, and a part of the answer."""

    command: str
    tool: str
    input: dict[str, Any]
    answer: str
    args: tuple[str, ...] = ()
    entry: dict[str, Any] = field(default_factory=dict)


SERVERS = {
    "filesystem": Server(
        "mcp-server-filesystem",
        "read_text_file",
        {"path": "PROJECT/docs/note.txt"},
        "a note",
        ("PROJECT/docs",),
        {"permissions": {"fs": {"read": ["docs"]}}},
    ),
    "memory": Server(
        "mcp-server-memory",
        "create_entities",
        {"entities": [{"name": "flytui", "entityType": "program", "observations": ["confines"]}]},
        "confines",
        entry={
            "env": {"MEMORY_FILE_PATH": "PROJECT/memory/graph.jsonl"},
            "permissions": {"fs": {"write": ["memory"]}},
        },
    ),
    "repository": Server(
        "mcp-server-git",
        "git_status",
        {"repo_path": "PROJECT"},
        "branch",
        ("--repository", "PROJECT"),
        {"permissions": {"fs": {"read": ["."]}}},
    ),
    "time": Server(
        "mcp-server-time", "get_current_time", {"timezone": "UTC"}, "UTC", entry={"permissions": {}}
    ),
}


def in_root(root: Root, value: Any) -> Any:
    """The value with the project's folder in it."""
    return json.loads(json.dumps(value).replace("PROJECT", str(root.folder)))


def project(tmp_path: Path) -> Root:
    """A root with a note and one commit."""
    root = Root(tmp_path)
    (root.folder / "docs").mkdir()
    (root.folder / "docs" / "note.txt").write_text("a note")
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "docs"], [*identity, "commit", "-qm", "the first commit"]):
        subprocess.run(["git", *words], cwd=root.folder, env=root.environ, check=True)
    found = [NODE_MODULES / ".bin", PYTHON_SERVERS / "bin"]
    root.environ["PATH"] = ":".join([*map(str, found), root.environ["PATH"]])
    return root


@pytest.mark.parametrize("name", SERVERS)
async def test_a_published_server_works_with_what_it_declares(tmp_path: Path, name: str) -> None:
    server = SERVERS[name]
    needs_bubblewrap()
    needs("git")
    root = project(tmp_path)
    if shutil.which(server.command, path=root.environ["PATH"]) is None:
        pytest.skip(f"NOT TESTED, not installed: {server.command} (tests/interop/install.sh installs it)")
    root.sidecars[name] = {
        "kind": "mcp",
        "command": server.command,
        "args": in_root(root, server.args),
        **in_root(root, server.entry),
    }
    root.write()
    tool = f"{name}.{server.tool}"
    async with kernel_of(root) as kernel:
        await until(lambda: capability(kernel, tool), patience=90)
        result = await approved_call(kernel, tool, in_root(root, server.input))
    assert result.status is Status.SUCCESS, (result.error, result.stderr_tail)
    assert result.sandbox is Level.ENFORCED
    assert server.answer in f"{result.text}{json.dumps(result.output)}"
    if name == "memory":
        assert "confines" in (root.folder / "memory" / "graph.jsonl").read_text()
