"""Log messages of an MCP server behind flytui: to the client whose call it works on, bounded and masked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp_types import (
    EmptyResult,
    LoggingMessageNotificationParams,
    SetLevelRequest,
    SetLevelRequestParams,
)

from kits.kernel import Root, kernel_of, until
from kits.mcp_clients import NEW, OLD, client_of
from kits.mcp_servers import capability, server_of

SERVER = """
import json, os, sys

LEVEL = None


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def log(level, data):
    say(method="notifications/message", params={"level": level, "logger": "notes", "data": data})


for line in sys.stdin:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if number is None:
        continue
    if method == "initialize":
        said = {"tools": {}, "logging": {}}
        about = {"name": "notes", "version": "1"}
        say(id=number, result={"protocolVersion": "2025-06-18", "capabilities": said, "serverInfo": about})
    elif method == "logging/setLevel":
        LEVEL = params["level"]
        say(id=number, result={})
        log("error", "outside of a call")
    elif method == "tools/list":
        say(id=number, result={"tools": [{"name": "write", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        log("info", {"level": LEVEL, "rows": [1, 2]})
        log("warning", "token " + os.environ["NOTES_TOKEN"])
        log("error", "x" * 40_000)
        say(id=number, result={"content": [{"type": "text", "text": "written"}]})
    else:
        say(id=number, error={"code": -32601, "message": "no such method"})
"""
SECRET = "tok-4711-4711-4711"

pytestmark = pytest.mark.anyio


def root_of(tmp_path: Path) -> Root:
    """A root with the server, whose tool needs nobody's approval."""
    root = Root(tmp_path)
    server_of(root, "notes", SERVER, permissions={"secrets": ["NOTES_TOKEN"]})
    root.environ["NOTES_TOKEN"] = SECRET
    root.policy({"tool": "notes.*", "decision": "allow", "because": "test"})
    return root


async def test_messages_reach_the_client_from_its_level_on(tmp_path: Path) -> None:
    root = root_of(tmp_path)
    got: list[LoggingMessageNotificationParams] = []

    async def note(message: LoggingMessageNotificationParams) -> None:
        got.append(message)

    async with kernel_of(root) as kernel:
        await until(lambda: capability(kernel, "notes.write"))
        async with client_of(root, kernel, OLD, logging_callback=note) as client:
            assert client.server_capabilities.logging is not None
            await client.call_tool("notes_write", {})
            await until(lambda: len(got) == 3, 5)
            assert [(one.level, one.logger) for one in got] == [
                ("info", "notes"),
                ("warning", "notes"),
                ("error", "notes"),
            ]
            assert got[0].data == {"level": "info", "rows": [1, 2]}
            assert SECRET not in str(got[1].data)
            assert "too large" in got[2].data
            request = SetLevelRequest(params=SetLevelRequestParams(level="error"))
            await client.session.send_request(request, EmptyResult)
            await client.call_tool("notes_write", {})
            await until(lambda: len(got) == 4)
            assert got[3].level == "error"


@pytest.mark.parametrize(("level", "count"), [(None, 0), ("warning", 2)])
async def test_a_request_of_the_newer_protocol_names_its_level(
    tmp_path: Path, level: Any, count: int
) -> None:
    root = root_of(tmp_path)
    got: list[LoggingMessageNotificationParams] = []

    async def note(message: LoggingMessageNotificationParams) -> None:
        got.append(message)

    async with kernel_of(root) as kernel:
        await until(lambda: capability(kernel, "notes.write"))
        async with client_of(root, kernel, NEW, logging_callback=note, log_level=level) as client:
            answer = await client.call_tool("notes_write", {})
            assert not answer.is_error
            await until(lambda: len(got) == count)
    assert all(one.level in ("warning", "error") for one in got)
