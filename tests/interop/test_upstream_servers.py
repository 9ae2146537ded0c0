"""MCP servers that other people publish, at the level `enforced`."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flycore.model.enums import Level, Status
from kits.browser import browsing, serving
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
    needs: tuple[str, ...] = ()
    """Programs of the system that it uses."""
    after: tuple[str, dict[str, Any]] | None = None
    """The second call, whose answer counts: its tool and input."""


HEADLESS_SHELL = "/usr/bin/chromium-headless-shell"
PAGE = """<!doctype html><title>A page</title><h1 id="sum"></h1>
<script>document.getElementById("sum").textContent = "the sum is " + (19 + 23)</script>"""


def browser_server(program: str, *args: str) -> Server:
    """The server that drives a browser of the system. It may send nothing to its makers."""
    further = ("--no-page-id-routing", "--no-usage-statistics", "--no-performance-crux")
    return Server(
        "chrome-devtools-mcp",
        "new_page",
        {"url": "SITE/"},
        "the sum is 42",
        (*args, *further),
        {
            "env": {"CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS": "1"},
            "permissions": {"network": True},
            "limits": {"memoryBytes": 4 << 30},
        },
        needs=(program,),
        after=("take_snapshot", {}),
    )


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
    # It drives a browser that runs already, outside of its sandbox.
    "pages": browser_server("chromium", "--browserUrl", "BROWSER"),
    # It starts a browser, inside of its sandbox. That cannot be Debian's whole Chromium, which opens a Unix
    # socket to find another one that runs, and ends where it may not. Nor can a confined program make the
    # namespaces of Chromium's own sandbox.
    "headless": browser_server(
        HEADLESS_SHELL,
        "--headless",
        "--isolated",
        "--chromeArg=--no-sandbox",
        "--executablePath",
        HEADLESS_SHELL,
    ),
}


def in_root(root: Root, value: Any, **places: str) -> Any:
    """The value with the project's folder, and other places, in it."""
    text = json.dumps(value).replace("PROJECT", str(root.folder))
    for name, place in places.items():
        text = text.replace(name.upper(), place)
    return json.loads(text)


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
    needs("git", *server.needs)
    root = project(tmp_path)
    if shutil.which(server.command, path=root.environ["PATH"]) is None:
        pytest.skip(f"NOT TESTED, not installed: {server.command} (tests/interop/install.sh installs it)")
    with ExitStack() as stack:
        places = {}
        if server.after is not None:
            site = stack.enter_context(serving())
            site.pages["/"] = PAGE
            places["site"] = site.url
        if "BROWSER" in server.args:
            places["browser"] = stack.enter_context(browsing(tmp_path)).endpoint
        await use(root, name, server, places)


async def use(root: Root, name: str, server: Server, places: dict[str, str]) -> None:
    """Call the server, behind a kernel that confines it, and look at its answer."""
    root.sidecars[name] = {
        "kind": "mcp",
        "command": server.command,
        "args": in_root(root, server.args, **places),
        **in_root(root, server.entry),
    }
    root.write()
    tool = f"{name}.{server.tool}"
    async with kernel_of(root) as kernel:
        await until(lambda: capability(kernel, tool), patience=90)
        result = await approved_call(kernel, tool, in_root(root, server.input, **places))
        if server.after is not None and result.status is Status.SUCCESS:
            result = await approved_call(kernel, f"{name}.{server.after[0]}", server.after[1])
    assert result.status is Status.SUCCESS, (result.error, result.stderr_tail)
    assert result.sandbox is Level.ENFORCED
    assert server.answer in f"{result.text}{json.dumps(result.output)}"
    if name == "memory":
        assert "confines" in (root.folder / "memory" / "graph.jsonl").read_text()
