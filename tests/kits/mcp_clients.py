"""MCP clients of the official SDK, in both eras of the protocol, over the real command and over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult

from flycore.kernel.kernel import Kernel
from flycore.server.local import LocalClient
from flycore.server.mcp.media import media_reader
from flycore.server.mcp.server import build_server
from kits.command import COMMAND
from kits.kernel import Root, a_caller

OLD = "legacy"
NEW = "2026-07-28"
ERAS = (OLD, NEW)
"""The `mode` of a client: a session that begins with `initialize`, or requests that stand alone."""


def command(root: Root, *words: str) -> StdioServerParameters:
    """The command by which a client starts `flytui mcp` on that root, forked."""
    program, *args = COMMAND.launcher("flytui", "--root", str(root.folder), "mcp", *words)
    return StdioServerParameters(command=program, args=args, env=root.environ)


@asynccontextmanager
async def over_stdio(root: Root, era: str, *words: str, **more: Any) -> AsyncIterator[Client]:
    """A client of `flytui mcp` as a process."""
    async with Client(command(root, *words), mode=era, **more) as client:
        yield client


def text_of(result: CallToolResult) -> str:
    """All text of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def about(result: CallToolResult) -> dict[str, Any]:
    """The kernel's `_meta` fields of a result."""
    assert result.meta is not None
    told: dict[str, Any] = result.meta["flytui/result"]
    return told


@asynccontextmanager
async def client_of(root: Root, kernel: Kernel, era: str, **more: Any) -> AsyncIterator[Client]:
    """A client of an MCP server in this process. Its calls come from an agent."""
    server = build_server(LocalClient(kernel, a_caller()), media_reader(root.places))
    async with Client(server, mode=era, **more) as client:
        yield client


class ProgressRecorder:
    """The progress events that a client received."""

    def __init__(self) -> None:
        self.numbers: list[float] = []
        self.totals: list[float | None] = []
        self.words: list[str] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.numbers.append(progress)
        self.totals.append(total)
        self.words.append(message or "")

    @property
    def grows(self) -> bool:
        """Whether each number is larger than the one before."""
        return all(a < b for a, b in pairwise(self.numbers))
