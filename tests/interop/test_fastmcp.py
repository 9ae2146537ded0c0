"""The `fastmcp` client: another independent client of `flytui mcp`, with its own results and errors."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from mcp.shared.exceptions import MCPError

from kits.interop import DIGEST, SECRET, interop_root
from kits.kernel import Root

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return interop_root(tmp_path)


@asynccontextmanager
async def client_of(root: Root) -> AsyncIterator[Client[StdioTransport]]:
    words = ["-m", "flytui", "--root", str(root.folder), "mcp"]
    transport = StdioTransport(command=sys.executable, args=words, env=root.environ, keep_alive=False)
    async with Client(transport) as client:
        yield client


async def test_tools_are_listed_and_one_is_called_with_structured_output(root: Root) -> None:
    steps: list[str | None] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        steps.append(message)

    async with client_of(root) as client:
        assert {"file_hash", "data_convert"} <= {tool.name for tool in await client.list_tools()}
        result = await client.call_tool("file_hash", {"path": "read.txt"}, progress_handler=told)
    assert result.structured_content is not None
    assert result.structured_content["digest"] == DIGEST
    assert "running" in steps


async def test_refusals_are_tool_errors_that_say_why(root: Root) -> None:
    async with client_of(root) as client:
        with pytest.raises(ToolError, match="policy: "):
            await client.call_tool("file_hash", {"path": SECRET})
        with pytest.raises(ToolError, match="no-approver: "):
            await client.call_tool("ask_do", {})
        with pytest.raises(ToolError, match="invalid-input: "):
            await client.call_tool("file_hash", {"path": 7})
        with pytest.raises((ToolError, MCPError), match="unknown tool"):
            await client.call_tool("no_such_tool", {})
