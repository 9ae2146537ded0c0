"""P20, the catalog: a kernel of a root with 200 MCP servers starts, until it lists the tools of all, against
one with 2 servers. Both kernels had them before.

The servers are programs of a few lines, which answer at once. At the quick size there are fewer of them.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import anyio
from common import Row, spread
from kernels import PATIENCE_S, no_sync, root, running, script, trust
from p09_console import process_tree

from flycore.registry.paths import RootPaths
from flycore.server.mcp.tool_list import tool_list_of

FEW, MANY = 2, {"quick": 20, "full": 200}
ROUNDS = {"quick": 2, "full": 5}
MOST = 2.0
TOOLS = 20
PROGRAM = "server.py"
SERVER = """#!{python} -IS
import json, sys
SCHEMA = {{"type": "object", "properties": {{"path": {{"type": "string"}}}}}}
TOOLS = [{{"name": "tool%d" % at, "description": "Answers.", "inputSchema": SCHEMA}} for at in range(20)]
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
    """Measure both roots in turn."""
    rounds: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as few, tempfile.TemporaryDirectory() as many, no_sync():
        roots = {FEW: _root(Path(few), FEW), MANY[size]: _root(Path(many), MANY[size])}
        for places, environ in roots.values():
            anyio.run(trust, places, environ)  # its kernel keeps what the servers are
        for _ in range(ROUNDS[size]):
            (small, _), (large, started) = (anyio.run(_start, *made, count) for count, made in roots.items())
            rounds.append((large, large / small))
    taken, ratios = zip(*rounds, strict=True)
    note = f"{MANY[size]} servers"
    ratio, target = median(ratios), f"≤ {MOST:.0f} × {FEW} servers"
    name, value = "a kernel lists the tools of 200 MCP servers", median(taken) * 1e3
    return [
        Row("P20", name, value, "ms", ratio, target, ratio <= MOST, note, spread(ratios)),
        Row("P20", "servers that it starts for that", started, "", 0, "0", started == 0, note),
    ]


def _root(base: Path, count: int) -> tuple[RootPaths, dict[str, str]]:
    places, environ = root(base, {})
    tools = Path(places.app_root) / "tools"
    sidecars = {}
    for number in range(count):
        script(tools / f"server{number}" / PROGRAM, SERVER)
        command = f"./tools/server{number}/{PROGRAM}"
        sidecars[f"server{number}"] = {"kind": "mcp", "command": command, "cwd": "empty", "permissions": {}}
    (tools / "external.tools.jsonc").write_text(json.dumps({"schemaVersion": 2, "sidecars": sidecars}))
    return places, environ


async def _start(places: RootPaths, environ: dict[str, str], count: int) -> tuple[float, int]:
    """The seconds until the tools of all servers are listed, and how many servers run then."""
    begun = time.perf_counter()
    async with running(places, environ) as kernel:
        with anyio.fail_after(10 * PATIENCE_S), kernel.bus.subscribe() as changes:
            while sum(view.sidecar is not None for view in kernel.catalog().capabilities) < count * TOOLS:
                await anext(aiter(changes))
        tool_list_of(kernel.catalog())
        return time.perf_counter() - begun, sum(map(_is_server, process_tree(os.getpid())))


def _is_server(pid: int) -> bool:
    """Whether the process is a server itself, not the bwrap that confines it."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    return words[-1].endswith(PROGRAM.encode()) and not words[0].endswith(b"bwrap")
