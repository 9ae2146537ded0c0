"""Resources and prompts of MCP servers behind flytui: pages, names that do not collide, changes, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PaginatedRequestParams, ResourceListChangedNotification

from kits.kernel import Root, kernel_of, until
from kits.mcp_clients import OLD, client_of
from kits.mcp_servers import capability, server_of, sidecar
from kits.published_servers import approved

SERVER = """
import json, sys

COUNT = 230


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def page(params):
    first = int(params.get("cursor", 0))
    last = min(first + 90, COUNT)
    listed = [{"uri": f"notes://{n:03}", "name": f"note {n}"} for n in range(first, last)]
    return {"resources": listed, **({"nextCursor": str(last)} if last < COUNT else {})}


for line in sys.stdin:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if number is None:
        continue
    if method == "initialize":
        said = {"tools": {}, "resources": {"listChanged": True}, "prompts": {}}
        about = {"name": "notes", "version": "1"}
        say(id=number, result={"protocolVersion": "2025-06-18", "capabilities": said, "serverInfo": about})
    elif method == "tools/list":
        say(id=number, result={"tools": [{"name": "add", "inputSchema": {"type": "object"}}]})
    elif method == "resources/list":
        say(id=number, result=page(params))
    elif method == "prompts/list":
        say(id=number, result={"prompts": []})
    elif method == "resources/read":
        say(id=number, result={"contents": [{"uri": params["uri"], "text": "NAME\\ttwo\\nlines"}]})
    elif method == "tools/call":
        COUNT += 1
        say(method="notifications/resources/list_changed")
        say(id=number, result={"content": [{"type": "text", "text": "added"}]})
    else:
        say(id=number, error={"code": -32601, "message": "no such method"})
"""
DENIED = {"properties": {"uri": {"const": "notes://007"}}, "required": ["uri"]}

pytestmark = pytest.mark.anyio


async def uris(client: Client) -> list[list[str]]:
    """The URIs of each page of the list."""
    pages, cursor = list[list[str]](), None
    while True:
        params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
        listed = await client.session.list_resources(params=params)
        pages.append([one.uri for one in listed.resources])
        cursor = listed.next_cursor
        if cursor is None:
            return pages


async def test_lists_come_in_pages_and_servers_do_not_collide(tmp_path: Path) -> None:
    root = Root(tmp_path)
    for name in ("one", "two"):
        server_of(root, name, SERVER.replace("NAME", name))
    root.policy({"tool": "two.resources.read", "when": DENIED, "decision": "deny", "because": "private"})
    changed = anyio.Event()

    async def note(message: Any) -> None:
        if isinstance(message, ResourceListChangedNotification):
            changed.set()

    async with kernel_of(root) as kernel, approved(kernel):
        for name in ("one", "two"):
            await until(lambda name=name: capability(kernel, f"{name}.resources.read"))
        assert len(sidecar(kernel, "one").lists.resources) == 230
        assert capability(kernel, "one.prompts.get") is None
        async with client_of(root, kernel, OLD, message_handler=note) as client:
            pages = await uris(client)
            assert [len(page) for page in pages] == [100, 100, 100, 100, 60]
            assert len({uri for page in pages for uri in page}) == 460
            for name in ("one", "two"):
                read = await client.session.read_resource(f"flytui://{name}/notes://009")
                assert [one.uri for one in read.contents] == [f"flytui://{name}/notes://009"]
                assert read.contents[0].text == f"{name}\ttwo\nlines"
            with pytest.raises(MCPError, match="policy denies this call"):
                await client.session.read_resource("flytui://two/notes://007")
            # Both servers have it.
            with pytest.raises(MCPError, match="no server has the resource"):
                await client.session.read_resource("notes://007")
            await client.call_tool("one_add", {})
            with anyio.fail_after(60):
                await changed.wait()
            assert sum(map(len, await uris(client))) == 461
    denied = [line for line in root.audit() if line.get("tool") == "two.resources.read"]
    assert denied
