"""A root for independent clients, and their `.mcp.json`."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import anyio

from kits.command import COMMAND, forked_bin
from kits.kernel import ECHO, Root, kernel_of, tool
from kits.programs import node_tool

LONGEST = 100.0
TEXT = b"what the clients hash\n"
DIGEST = hashlib.sha256(TEXT).hexdigest()
SECRET = "private.txt"
"""A file that a rule denies `file.hash` of."""


def interop_root(base: Path) -> Root:
    """A root with `file.hash` (allowed for all files but one), `data.convert`, and a tool that asks."""
    root = Root(base)
    for name in ("read.txt", SECRET):
        (root.folder / name).write_bytes(TEXT)
    root.sidecars["utility.local"] = {
        "command": "flytui-sidecar",
        "args": ["utility.local"],
        "permissions": {"fs": {"read": ["."]}},
        "tools": ["file.hash", "data.convert"],
    }
    root.sidecar("ask", ECHO, tool("ask.do", risk="medium"))
    private = {"properties": {"path": {"const": SECRET}}, "required": ["path"]}
    root.policy(
        {"tool": "file.hash", "decision": "allow", "because": "it only reads"},
        {"tool": "file.hash", "when": private, "decision": "deny", "because": "that file is private"},
    )
    anyio.run(_trust, root)
    return root


async def _trust(root: Root) -> None:
    async with kernel_of(root):
        pass


def mcp_json(root: Root, *, forked: bool = False) -> Path:
    """The `.mcp.json` that flytui prints for the root, with the root's own folders in the environment. The
    client finds the command on the PATH that stands there: the installed one, or the forked one."""
    argv = ["flytui", "--root", str(root.folder), "mcp", "--print-config", "claude-code"]
    printed = COMMAND.run(argv, root.environ, root.folder, b"", LONGEST)
    assert printed.returncode == 0, printed.stderr
    config = json.loads(printed.stdout)
    path = f"{forked_bin()}:{root.environ['PATH']}" if forked else root.environ["PATH"]
    config["mcpServers"]["flytui"]["env"] = {**root.environ, "PATH": path}
    file = root.folder / ".mcp.json"
    file.write_text(json.dumps(config))
    return file


def inspect(root: Root, *words: str, forked: bool = True) -> tuple[int, dict[str, Any], str]:
    """Run the Inspector's command line; returns exit code, stdout and stderr. The server that it starts is
    forked unless the test is one of its start."""
    command = [
        *node_tool("mcp-inspector"),
        *(
            "--cli",
            "--config",
            str(mcp_json(root, forked=forked)),
            "--server",
            "flytui",
            "--quiet",
            "--format",
            "json",
        ),
        *words,
    ]
    done = subprocess.run(
        command,
        env=root.environ,
        cwd=root.folder,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}, done.stderr
