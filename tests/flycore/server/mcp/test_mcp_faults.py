"""A fault of flytui's own inside an MCP request: the client is told no more than that, the log its type."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from flycore.server.local import LocalClient
from kits.kernel import Root, kernel_of
from kits.mcp_clients import ERAS, client_of

pytestmark = pytest.mark.anyio
SECRET = "/secret/place"
BROKEN = f"""
import contextlib, anyio
from flycore.server.mcp.stdio import serve_stdio

class Door:
    async def catalog(self):
        raise KeyError({SECRET!r})

    @contextlib.asynccontextmanager
    async def events(self, classes=None):
        yield await anyio.sleep_forever()

anyio.run(serve_stdio, Door(), None)
"""


async def broken(*args: object, **more: object) -> None:
    """A door's call with a fault of our own."""
    raise KeyError(SECRET)


@pytest.mark.parametrize("era", ERAS)
async def test_a_fault_of_our_own_is_told_by_its_type_in_the_log_alone(
    tmp_path: Path, era: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = Root(tmp_path)
    monkeypatch.setattr(LocalClient, "call", broken)
    async with kernel_of(root) as kernel, client_of(root, kernel, era) as client:
        with caplog.at_level(logging.DEBUG), pytest.raises(MCPError) as raised:
            await client.call_tool("file_read", {})
    assert (raised.value.error.code, raised.value.error.message) == (INTERNAL_ERROR, "internal error")
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (line.name, "KeyError" in line.getMessage(), line.exc_info) == ("flytui.mcp", True, None)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("era", ERAS)
async def test_over_standard_input_it_is_one_line_of_prose(tmp_path: Path, era: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-c", BROKEN])
    with (tmp_path / "stderr").open("w+") as stderr:
        async with Client(stdio_client(server, errlog=stderr), mode=era) as client:
            for asked in (client.list_tools, lambda: client.call_tool("file_read", {})):
                with pytest.raises(MCPError) as raised:
                    await asked()
                assert (raised.value.error.code, raised.value.error.message) == (
                    INTERNAL_ERROR,
                    "internal error",
                )
    lines = (tmp_path / "stderr").read_text().splitlines()
    assert [line.startswith("flytui mcp: ") and line.endswith("KeyError") for line in lines] == [True, True]
