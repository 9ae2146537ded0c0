"""`flytui serve --http` and a token, as a person sets them up: independent clients over streamable HTTP."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from fastmcp import Client as FastClient
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from kits.command_line import LONGEST, Desk
from kits.interop import DIGEST, SECRET, interop_root
from kits.mcp_clients import ERAS, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]


class Served(NamedTuple):
    """Where, and with which token."""

    address: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        """Of every request."""
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    root = interop_root(tmp_path)
    desk = Desk(root.folder, root.base)
    token = desk.run("token", "new", "bench").stdout.split()[-1]
    process = desk.start("serve", "--http", "--port", "0")
    assert process.stdout is not None
    try:
        lines = iter(process.stdout.readline, b"")
        address = next(line.split()[-1].decode() for line in lines if line.startswith(b"listens"))
        yield Served(address, token)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate(timeout=LONGEST)
            raise


@pytest.mark.parametrize("era", ERAS)
async def test_the_official_client_comes_in_with_its_token(served: Served, era: str) -> None:
    async with (
        httpx2.AsyncClient(headers=served.headers, timeout=LONGEST) as http,
        Client(streamable_http_client(served.address, http_client=http), mode=era) as client,
    ):
        assert "file_hash" in {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool("file_hash", {"path": "read.txt"})
        assert result.structured_content is not None
        assert result.structured_content["digest"] == DIGEST
        denied = await client.call_tool("file_hash", {"path": SECRET})
        assert denied.is_error
        assert text_of(denied).startswith("policy: ")


async def test_fastmcp_comes_in_with_its_token_and_not_without(served: Served) -> None:
    transport = StreamableHttpTransport(served.address, headers=served.headers)
    async with FastClient(transport) as client:
        result = await client.call_tool("file_hash", {"path": "read.txt"})
        assert result.structured_content is not None
        assert result.structured_content["digest"] == DIGEST
        with pytest.raises(ToolError, match="policy: "):
            await client.call_tool("file_hash", {"path": SECRET})
    async with httpx2.AsyncClient(timeout=LONGEST) as http:
        assert (await http.post(served.address, json={})).status_code == 401
