"""P10: a tool of an MCP server, through `flytui mcp` and the kernel, against the server itself, and against
the same server behind fastmcp's proxy.

The server is that of the official SDK with one tool. All servers are processes of their own, and flytui's do
not sync the disk.

The proxy needs fastmcp with its server, which flytui does not. FLYTUI_BENCH_FASTMCP names the interpreter of
an environment that has it; without one, the row says so.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import anyio
from calls import ROUNDS, measure_calls, row
from common import Row
from kernels import PATIENCE_S, no_sync, root, script, trust

from flycore.registry.paths import RootPaths

if TYPE_CHECKING:
    from mcp.client import Client

CALLS = {"quick": 200, "full": 1_500}
ENTRY = "upstream"
VARIABLE = "FLYTUI_BENCH_FASTMCP"
MOST_AGAINST_PROXY, MOST_AGAINST_DIRECT = 1.0, 2.5
MCP_NAME = "bench_stays"
INPUT = {"path": "README.md"}

FLYTUI = """
import os, sys
os.fsync = lambda descriptor: None
from flytui.cli.main import main
main()
"""

SERVER = """#!{python}
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

SCHEMA = {{"type": "object", "properties": {{"path": {{"type": "string"}}}}, "required": ["path"]}}

async def listed(ctx, params):
    tool = Tool(name="bench_stays", description="Answers.", input_schema=SCHEMA)
    return ListToolsResult(tools=[tool])

async def called(ctx, params):
    path = params.arguments["path"]
    text = TextContent(text='{{"path": "' + path + '"}}')
    return CallToolResult(content=[text], structured_content={{"path": path}})

async def main():
    server = Server("bench", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())

anyio.run(main)
"""

PROXY = """
import os
os.environ["FASTMCP_LOG_LEVEL"] = "ERROR"
import sys
from fastmcp.server import create_proxy

config = {"mcpServers": {"upstream": {"command": sys.argv[1], "args": [sys.argv[2]]}}}
create_proxy(config, name="proxy").run(transport="stdio", show_banner=False)
"""


def run(size: str) -> list[Row]:
    """Measure all rows; `size` is `quick` or `full`."""
    with tempfile.TemporaryDirectory() as folder, no_sync():
        base = Path(folder)
        server = base / "project" / "tools" / "server" / "server.py"
        places, environ = _root(base, server)
        anyio.run(trust, places, environ)
        words = {
            "direct": (sys.executable, str(server)),
            "flytui": (sys.executable, "-c", FLYTUI, "--root", str(places.app_root), "mcp"),
        }
        proxy = os.environ.get(VARIABLE, "")
        if proxy:
            words["proxy"] = (proxy, "-c", PROXY, sys.executable, str(server))
        rounds = [
            {name: anyio.run(_p50, command, environ, CALLS[size]) for name, command in words.items()}
            for _ in range(ROUNDS[size])
        ]
    return _rows(rounds)


def _root(base: Path, server: Path) -> tuple[RootPaths, dict[str, str]]:
    places, environ = root(base, {})
    # Alone in its folder, and started in an empty one: so its seal is complete, and a rule may allow it.
    script(server, SERVER)
    entry = {"kind": "mcp", "command": "./tools/server/server.py", "cwd": "empty", "permissions": {}}
    registry = {"schemaVersion": 2, "sidecars": {ENTRY: entry}}
    (places.app_root / "tools" / "external.tools.jsonc").write_text(json.dumps(registry))
    config = base / "config" / "flytui"
    rule = {"tool": f"{ENTRY}.*", "decision": "allow", "because": "it is measured"}
    (config / "policy.jsonc").write_text(json.dumps({"schemaVersion": 1, "rules": [rule]}))
    return places, environ


async def _p50(command: tuple[str, ...], environ: dict[str, str], calls: int) -> float:
    """The median of a call in µs, with the official client."""
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters

    program, *words = command
    server = StdioServerParameters(command=program, args=words, env=environ)
    async with Client(server, mode="legacy") as client:
        name = await _listed(client)

        async def call() -> None:
            result = await client.call_tool(name, INPUT)
            if result.is_error or result.structured_content != INPUT:
                raise RuntimeError(f"{result.content}")

        return (await measure_calls(call, calls, 1)).p50


async def _listed(client: Client) -> str:
    """The name under which the tool is listed, once the server behind has been connected."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            for tool in (await client.list_tools()).tools:
                if tool.name.endswith(MCP_NAME):
                    return tool.name
            await anyio.sleep(0.1)


def _rows(rounds: list[dict[str, float]]) -> list[Row]:
    note = f"direct {median(times['direct'] for times in rounds):.0f} µs"
    against = (
        ("direct", MOST_AGAINST_DIRECT, "the server itself"),
        ("proxy", MOST_AGAINST_PROXY, "fastmcp's proxy"),
    )
    rows = []
    for name, most, words in against:
        title = f"p50 of a call of an upstream tool, against {words}"
        if not all(name in times for times in rounds):
            reason = f"{VARIABLE} names no interpreter with fastmcp's server"
            rows.append(Row.unmeasured(f"P10 {title}", reason))
            continue
        ratios = [(times["flytui"], times["flytui"] / times[name]) for times in rounds]
        rows.append(row(title, "µs", ratios, f"≤ {most} × {words}", note, most=most, goal="P10"))
    return rows
