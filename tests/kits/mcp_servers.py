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
ROOT = Path(__file__).parent


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
    return "looked at pid %d" % os.getpid()


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
    (ROOT / "slow.started").write_text(str(os.getpid()))
    await ctx.report_progress(1, 4, "one of four")
    try:
        await anyio.sleep(600)
    except anyio.get_cancelled_exc_class():
        (ROOT / "slow.cancelled").write_text("")
        raise
    return "done"


if __name__ == "__main__":
    server.run("stdio")
'''


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
