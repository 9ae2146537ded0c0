"""P16, the MCP servers: how the start of a kernel and its catalog grow with the servers behind it.

The servers are programs of a few lines, which answer at once. The start ends when the tools of all are there.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import anyio
from common import Row
from growth import linear, timed
from kernels import PATIENCE_S, no_sync, root, running

from flycore.catalog.document import catalog_document
from flycore.registry.paths import RootPaths
from flycore.server.mcp.tool_list import tool_list_of

SIZES = {"quick": (1, 4, 16), "full": (1, 10, 50)}
TOOLS = 20
SERVER = """#!{python} -IS
import json, sys
SCHEMA = {{"type": "object", "properties": {{"path": {{"type": "string"}}}}}}
TOOLS = [{{"name": "tool%d" % at, "description": "Answers.", "inputSchema": SCHEMA}} for at in range({tools})]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {{}}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        about = {{"name": "bench", "version": "1"}}
        result = {{"protocolVersion": version, "capabilities": {{"tools": {{}}}}, "serverInfo": about}}
    elif message["method"] == "tools/list":
        result = {{"tools": TOOLS}}
    print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}), flush=True)
"""


def run(size: str) -> list[Row]:
    """Measure with so many servers, one after the other."""
    starts: dict[int, float] = {}
    lists: dict[int, float] = {}
    for count in SIZES[size]:
        with tempfile.TemporaryDirectory() as folder, no_sync():
            places, environ = _root(Path(folder), count)
            anyio.run(_start, places, environ, count)  # trusts the servers, and keeps what they are
            starts[count], lists[count] = anyio.run(_start, places, environ, count)
    return [
        linear("a kernel starts with all tools, by MCP servers", starts),
        linear("the tools of all as a client lists them, by MCP servers", lists),
    ]


def _root(base: Path, count: int) -> tuple[RootPaths, dict[str, str]]:
    places, environ = root(base, {})
    tools = Path(places.app_root) / "tools"
    sidecars = {}
    for number in range(count):
        program = tools / f"server{number}" / "server.py"
        program.parent.mkdir()
        program.write_text(SERVER.format(python=sys.executable, tools=TOOLS))
        program.chmod(0o755)
        command = f"./tools/server{number}/server.py"
        sidecars[f"server{number}"] = {"kind": "mcp", "command": command, "cwd": "empty", "permissions": {}}
    (tools / "external.tools.jsonc").write_text(json.dumps({"schemaVersion": 2, "sidecars": sidecars}))
    return places, environ


async def _start(places: RootPaths, environ: dict[str, str], count: int) -> tuple[float, float]:
    """The seconds until the catalog has the tools of all servers, and those to list them."""
    begun = time.perf_counter()
    async with running(places, environ) as kernel:
        with anyio.fail_after(10 * PATIENCE_S), kernel.bus.subscribe() as changes:
            while sum(view.sidecar is not None for view in kernel.catalog().capabilities) < count * TOOLS:
                await anext(aiter(changes))
        taken = time.perf_counter() - begun
        catalog = kernel.catalog()
    return taken, timed(lambda: (tool_list_of(catalog).tools, catalog_document(catalog)), 3)
