"""P4: a call of a persistent process through the whole kernel, against a tool call over stdio with the
official MCP client and server.

Both return their input. The sidecar is confined as every tool is.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import anyio
from calls import ROUNDS, measure_calls, row
from common import Row
from kernels import no_sync, root, script
from p01_call import measure_kernel

TOOL = "bench.stays"
CALLS = {"quick": 500, "full": 3_000}
PROGRAM = """#!{python} -IS
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    answer = {{"ok": True, "path": request["input"]["path"], "requestId": request["requestId"]}}
    sys.stdout.write(json.dumps(answer) + "\\n")
    sys.stdout.flush()
"""

MCP_SERVER = """
import logging
from mcp.server.mcpserver import MCPServer

server = MCPServer("bench")

@server.tool()
def stays(path: str) -> str:
    "Answers."
    return path

logging.disable()
server.run()
"""


def run(size: str) -> list[Row]:
    """Measure one row; `size` is `quick` or `full`."""
    calls = CALLS[size]
    with tempfile.TemporaryDirectory() as folder, no_sync():
        program = script(Path(folder) / "stays.py", PROGRAM)
        places, environ = root(Path(folder), {TOOL: program}, kind="process-json-persistent")
        rounds = [
            (anyio.run(_mcp, calls // 5), anyio.run(measure_kernel, places, environ, calls, 1, TOOL).p50)
            for _ in range(ROUNDS[size])
        ]
    p50 = [(ours, ours / mcp) for mcp, ours in rounds]
    return [row("p50 of a call", "µs", p50, "≤ 0.4 × MCP over stdio", "", most=0.4, goal="P4")]


async def _mcp(calls: int) -> float:
    """The p50 in µs of a call with the official client and server over stdio."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=sys.executable, args=["-c", MCP_SERVER])
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()

        async def call() -> None:
            await session.call_tool("stays", {"path": "README.md"})

        return (await measure_calls(call, calls, 1)).p50
