"""P10: a call of a warm tool that does nothing, through MCP and through the Unix socket.

MCP over stdio: `flytui mcp` with a kernel of its own, against a bare server of the official SDK with one
tool, both with the same client. WebSocket: `tool.call` to `flytui serve` over the Unix socket, against a bare
`websockets` echo server on such a socket. In both, the server part is measured alone as well: with a kernel
that answers at once, and by `ping`. All servers are processes of their own, and none syncs the disk.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
from calls import ROUNDS, measure_calls, row
from common import Row
from kernels import PATIENCE_S, no_sync, root, running, unconfined
from p04_staying import PROGRAM

from flycore.client.client import connect_unix
from flycore.model.enums import Status
from flycore.registry.paths import RootPaths

TOOL = "bench.stays"
MCP_NAME = "bench_stays"
INPUT = {"path": "README.md"}
CALLS = {"quick": 200, "full": 1_500}

FLYTUI = """
import os, sys
os.fsync = lambda descriptor: None
from flytui.cli.main import main
main()
"""

BARE_MCP = """
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

async def listed(ctx, params):
    tool = Tool(name="bench_stays", description="Answers.", input_schema=SCHEMA)
    return ListToolsResult(tools=[tool])

async def called(ctx, params):
    path = params.arguments["path"]
    text = TextContent(text='{"path": "' + path + '"}')
    return CallToolResult(content=[text], structured_content={"path": path})

async def main():
    server = Server("bench", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())

anyio.run(main)
"""

DOOR_ALONE = """
import sys
from contextlib import asynccontextmanager
import anyio, msgspec
from flycore.model.call import ToolResult
from flycore.model.catalog import Catalog
from flycore.model.enums import Status
from flycore.server.mcp.stdio import serve_stdio

with open(sys.argv[1], "rb") as file:
    CATALOG = msgspec.json.decode(file.read(), type=Catalog)

class Door:
    async def catalog(self):
        return CATALOG

    async def call(self, tool, input, **more):
        return ToolResult(
            status=Status.SUCCESS, tool=tool, sidecar=tool, call_id="1", output={"path": input["path"]}
        )

    @asynccontextmanager
    async def events(self, classes=None):
        async def none():
            await anyio.sleep_forever()
            yield
        yield none()

anyio.run(serve_stdio, Door(), lambda artifact, limit: None)
"""

BARE_ECHO = """
import asyncio, sys
from websockets.asyncio.server import unix_serve

async def echo(connection):
    async for message in connection:
        await connection.send(message)

async def main():
    async with unix_serve(echo, sys.argv[1], compression=None):
        print("listens", flush=True)
        await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""


def run(size: str) -> list[Row]:
    """Measure all rows; `size` is `quick` or `full`."""
    calls, rounds = CALLS[size], ROUNDS[size]
    with tempfile.TemporaryDirectory() as base, no_sync(), unconfined():
        places, environ = root(Path(base), {TOOL: _program(Path(base))}, kind="process-json-persistent")
        scene = _Scene(Path(base), places, environ, calls)
        anyio.run(scene.prepare)
        mcp = [anyio.run(scene.mcp) for _ in range(rounds)]
        sockets = [anyio.run(scene.sockets) for _ in range(rounds)]
    rows = []
    for goal, bare, figures in (("MCP", "a bare SDK server", mcp), ("WebSocket", "a bare echo", sockets)):
        for note, which in (("the door alone", 1), ("the whole kernel", 2)):
            ratios = [(times[which], times[which] / times[0]) for times in figures]
            target = f"≤ 1.3 × {bare}"
            rows.append(row(f"p50 of a call, {goal}", "µs", ratios, target, note, most=1.3, goal="P10"))
    return rows


def _program(base: Path) -> Path:
    path = base / "stays.py"
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    return path


class _Scene:
    """A trusted root whose servers are measured. Figures are p50 in µs: bare, the server part alone, the
    whole."""

    def __init__(self, base: Path, places: RootPaths, environ: dict[str, str], calls: int) -> None:
        self._base, self._places, self._environ, self._calls = base, places, environ, calls
        self._catalog = base / "catalog.json"

    async def prepare(self) -> None:
        """Trust everything, and save the catalog for the measurement of the server part alone."""
        import msgspec

        async with running(self._places, self._environ) as kernel:
            self._catalog.write_bytes(msgspec.json.encode(kernel.catalog()))

    async def mcp(self) -> tuple[float, float, float]:
        """Measure MCP over stdio with the official client."""
        flytui = ("-c", FLYTUI, "--root", str(self._places.app_root), "mcp")
        return (
            await self._over_mcp("-c", BARE_MCP),
            await self._over_mcp("-c", DOOR_ALONE, str(self._catalog)),
            await self._over_mcp(*flytui),
        )

    async def _over_mcp(self, *words: str) -> float:
        from mcp.client import Client
        from mcp.client.stdio import StdioServerParameters

        server = StdioServerParameters(command=sys.executable, args=list(words), env=self._environ)
        async with Client(server, mode="legacy") as client:

            async def call() -> None:
                result = await client.call_tool(MCP_NAME, INPUT)
                if result.is_error or result.structured_content != INPUT:
                    raise RuntimeError(f"{result.content}")

            return await self._p50(call)

    async def sockets(self) -> tuple[float, float, float]:
        """Measure Unix sockets."""
        from websockets.asyncio.client import unix_connect

        path = self._base / "echo.sock"
        path.unlink(missing_ok=True)
        message = '{"protocol": "flyflor.ws.v1", "id": "r1", "type": "ping", "at": 0.0, "payload": {}}'
        with self._server("-c", BARE_ECHO, str(path)):
            opening = unix_connect(str(path), uri="ws://localhost/ws", compression=None)
            async with opening as connection:

                async def echoed() -> None:
                    await connection.send(message)
                    await connection.recv()

                bare = await self._p50(echoed)
        flytui = ("-c", FLYTUI, "--root", str(self._places.app_root), "serve")
        with self._server(*flytui):
            async with connect_unix(self._places.socket) as client:

                async def pinged() -> None:
                    await client.ask_for("ping")

                async def called() -> None:
                    result = await client.call(TOOL, INPUT)
                    if result.status is not Status.SUCCESS:
                        raise RuntimeError(f"{result.error}")

                return bare, await self._p50(pinged), await self._p50(called)

    @contextmanager
    def _server(self, *words: str) -> Iterator[None]:
        """Start a process and wait for its first line, which it writes when it listens."""
        process = subprocess.Popen(
            [sys.executable, *words],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise RuntimeError("the server did not start")
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            process.stdout.close()

    async def _p50(self, call: Callable[[], Awaitable[None]]) -> float:
        return (await measure_calls(call, self._calls, 1)).p50
