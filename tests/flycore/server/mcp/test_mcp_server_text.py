"""What an MCP server behind flytui sends reaches an agent at flytui's own MCP door as it was sent."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import AudioContent, EmbeddedResource, ResourceLink, TextResourceContents

from flycore.model.call import CallError, ToolResult
from flycore.model.enums import Code, Status
from flycore.server.mcp.results import call_result, tool_error
from kits.kernel import Root, kernel_of
from kits.mcp_clients import NEW, client_of, text_of
from kits.mcp_servers import connected, server_of

SERVER = '''
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import AudioContent, EmbeddedResource, ResourceLink, TextContent, TextResourceContents
from mcp_types import ToolAnnotations

server = MCPServer("pages")


@server.tool(structured_output=False)
def plain() -> str:
    """Text without structure."""
    return "first line\\n\\tsecond “line”"


@server.tool(structured_output=False)
def document() -> str:
    """Text that is JSON."""
    return '{\\n  "n": 1\\n}'


@server.tool()
def both() -> str:
    """Text and structure."""
    return "first line\\nsecond line"


@server.tool(structured_output=False)
def parts() -> list[TextContent | EmbeddedResource | ResourceLink | AudioContent]:
    """Several parts."""
    inner = TextResourceContents(uri="notes://1", text="inner")
    return [
        TextContent(text="one"),
        TextContent(text="two"),
        EmbeddedResource(resource=inner),
        ResourceLink(uri="notes://2", name="two", title="Page two", mime_type="text/plain"),
        AudioContent(data="UklGRiQAAABXQVZF", mime_type="audio/wav"),
    ]


@server.tool(title="Look it up", annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
def look() -> str:
    """Only reads."""
    return ""


@server.tool(annotations=ToolAnnotations(read_only_hint=True, destructive_hint=True))
def wipe() -> str:
    """Says that it only reads, and that it destroys."""
    return ""


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("no page:\\n  1. wrong name\\x1b[31m")


server.run("stdio")
'''


PAGE = ("notes://2", "two", "Page two", "text/plain")
SOUND = b"RIFF$\0\0\0WAVE"


@pytest.mark.anyio
async def test_titles_and_hints_of_a_server_are_handed_on_but_none_that_makes_a_risk_look_less(
    tmp_path: Path,
) -> None:
    root = Root(tmp_path)
    server_of(root, "pages", SERVER)
    async with kernel_of(root) as kernel:
        await connected(kernel, "pages")
        async with client_of(root, kernel, NEW) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    look, wipe, plain = tools["pages_look"], tools["pages_wipe"], tools["pages_plain"]
    assert (look.title, plain.title) == ("Look it up", None)
    assert look.annotations is not None
    assert wipe.annotations is not None
    assert look.annotations.model_dump(exclude_none=True) == {
        "read_only_hint": True,
        "open_world_hint": False,
    }
    assert (wipe.annotations.read_only_hint, wipe.annotations.destructive_hint) == (False, True)


@pytest.mark.anyio
async def test_text_stays_text_with_its_lines_and_errors_keep_theirs(tmp_path: Path) -> None:
    root = Root(tmp_path)
    server_of(root, "pages", SERVER)
    root.policy({"tool": "pages.*", "decision": "allow", "because": "test"})
    async with kernel_of(root) as kernel:
        await connected(kernel, "pages")
        async with client_of(root, kernel, NEW) as client:
            await check_answers(client)


async def check_answers(client: Client) -> None:
    """Call every tool of the server once."""

    async def answer(name: str) -> tuple[str, Any]:
        result = await client.call_tool(f"pages_{name}", {})
        return text_of(result), result.structured_content

    assert await answer("plain") == ("first line\n\tsecond “line”", None)
    assert await answer("document") == ('{\n  "n": 1\n}', None)
    both = "first line\nsecond line"
    assert await answer("both") == (both, {"result": both})
    text, structured = await answer("parts")
    assert structured is None
    assert text.startswith("one\ntwo")
    parts = (await client.call_tool("pages_parts", {})).content
    [inner] = [block for block in parts if isinstance(block, EmbeddedResource)]
    assert isinstance(inner.resource, TextResourceContents)
    assert (str(inner.resource.uri), inner.resource.text) == ("notes://1", "inner")
    [link] = [block for block in parts if isinstance(block, ResourceLink)]
    assert (str(link.uri), link.name, link.title, link.mime_type) == PAGE
    [sound] = [block for block in parts if isinstance(block, AudioContent)]
    assert (base64.b64decode(sound.data), sound.mime_type) == (SOUND, "audio/wav")
    failed = await client.call_tool("pages_fail", {})
    assert failed.is_error
    assert text_of(failed) == "Error executing tool fail: no page:\n  1. wrong name\x1b[31m"


def test_lines_of_messages_and_of_stderr_stay_lines() -> None:
    error = CallError(code=Code.FAILED, message="a\nb\tc\r\nd\u202e", hint="e\nf")
    result = ToolResult(
        status=Status.FAILED,
        tool="x.y",
        sidecar="x",
        call_id="1",
        error=error,
        exit_code=3,
        stderr_tail="g\nh",
    )
    told = text_of(call_result(result, None, lambda artifact, left: None))
    assert told == "failed: a\nb\tc\nd⟦U+202E⟧\ne\nf\nstderr: g\nh"
    assert text_of(tool_error("code", "a\nb")) == "code: a\nb"


def test_long_text_of_a_server_is_cut_and_says_so() -> None:
    text = "word " * 40_000
    result = ToolResult(
        status=Status.SUCCESS,
        tool="x.y",
        sidecar="x",
        call_id="1",
        output={"text": text},
        text=text,
        structured=False,
    )
    told = text_of(call_result(result, None, lambda artifact, left: None))
    assert told.startswith("word word")
    assert len(told) < 70_000
    assert "was cut" in told
