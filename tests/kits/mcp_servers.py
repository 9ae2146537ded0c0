"""MCP servers for tests: small programs written with the official SDK, and badly behaved ones without it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from flycore.kernel.kernel import Kernel
from flycore.model.catalog import CapabilityView, SidecarView
from kits.kernel import Root, until

NOTES = '''
import os, sys
from pathlib import Path
import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("notes", version="1.2")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def wipe() -> str:
    """Wipes everything."""
    return "wiped"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look() -> str:
    """Looks."""
    return "looked"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("no such note")


@server.tool()
def die() -> str:
    """Dies."""
    print("about to die", file=sys.stderr, flush=True)
    os._exit(7)


@server.tool()
def big(count: int) -> str:
    """Says a lot."""
    return "x" * count


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=b"\\x89PNG not really", format="png")


@server.tool()
async def slow(ctx: Context) -> str:
    """Takes its time."""
    Path("slow.started").touch()
    await ctx.report_progress(1, 4, "one of four")
    try:
        await anyio.sleep(600)
    except anyio.get_cancelled_exc_class():
        Path("slow.cancelled").touch()
        raise
    return "done"


if __name__ == "__main__":
    server.run("stdio")
'''

PLAIN_NOTES = """
import base64, json, os, sys
from pathlib import Path

INTEGER = {"type": "integer"}


def tool(name, annotations=None, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": name, "inputSchema": schema, "annotations": annotations or {}}


TOOLS = [
    tool("add", a=INTEGER, b=INTEGER),
    tool("wipe", {"destructiveHint": True}),
    tool("look", {"readOnlyHint": True}),
    tool("fail"), tool("die"), tool("big", count=INTEGER), tool("picture"), tool("slow"),
]


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def wait_for_cancel():
    Path("slow.started").touch()
    for line in sys.stdin:
        if json.loads(line).get("method") == "notifications/cancelled":
            return


def call(name, given):
    if name == "fail":
        return {"isError": True, "content": [{"type": "text", "text": "no such note"}]}
    if name == "picture":
        data = base64.b64encode(b"\\x89PNG not really").decode()
        return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
    if name == "die":
        print("about to die", file=sys.stderr, flush=True)
        os._exit(7)
    if name == "slow":
        return wait_for_cancel()
    value = {
        "add": lambda: given["a"] + given["b"],
        "wipe": lambda: "wiped",
        "look": lambda: "looked",
        "big": lambda: "x" * given["count"],
    }[name]()
    return {"content": [{"type": "text", "text": str(value)}], "structuredContent": {"result": value}}


for line in sys.stdin:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if number is None:
        continue
    if method == "initialize":
        about = {"name": "notes", "version": "1.2"}
        capabilities = {"tools": {}}
        result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = call(params["name"], params.get("arguments") or {})
    else:
        say(id=number, error={"code": -32601, "message": "no such method"})
        continue
    if result is not None:
        say(id=number, result=result)
"""
"""The same tools without the SDK, which takes long to import, for tests in which the SDK does not count."""


def server_of(root: Root, name: str, script: str, **entry: Any) -> Path:
    """Write the server's program and its entry, as a person would declare `python ./server.py`."""
    program = root.sidecar(name, f"#!{sys.executable}\n{script}", **entry)
    declared = root.sidecars[name]
    declared["kind"] = "mcp"
    if "tools" not in entry:
        del declared["tools"]
    root.write()
    return program


def capability(kernel: Kernel, name: str) -> CapabilityView | None:
    """The tool in the catalog."""
    return kernel.catalog().capability(name)


def sidecar(kernel: Kernel, name: str) -> SidecarView:
    """The entry in the catalog."""
    view = kernel.catalog().sidecar(name)
    assert view is not None
    return view


async def connected(kernel: Kernel, name: str) -> SidecarView:
    """Wait until the kernel has listed the server's tools."""
    await until(lambda: sidecar(kernel, name).stability.probe is not None)
    return sidecar(kernel, name)
