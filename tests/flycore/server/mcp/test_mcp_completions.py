"""Completions of MCP servers behind flytui: calls that policy judges, and about which nobody is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from kits.kernel import Root, kernel_of, until
from kits.mcp_clients import ERAS, OLD, client_of
from kits.mcp_servers import capability, server_of

SERVER = """
import json, sys

PROMPTS = [{"name": "greet", "arguments": [{"name": "city"}]}]
TEMPLATES = [{"uriTemplate": "notes://{day}", "name": "a day"}]


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def complete(ref, argument, context=None):
    word = argument["value"]
    if word == "many":
        return {"values": [f"{n}" for n in range(100)] , "total": 5_000, "hasMore": True}
    known = [ref.get("name") or ref["uri"], argument["name"], json.dumps(context), "x" * 2_000]
    return {"values": [word + " " + one for one in known]}


for line in sys.stdin:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if number is None:
        continue
    if method == "initialize":
        said = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
        about = {"name": "notes", "version": "1"}
        say(id=number, result={"protocolVersion": "2025-06-18", "capabilities": said, "serverInfo": about})
    elif method == "tools/list":
        say(id=number, result={"tools": []})
    elif method == "resources/list":
        say(id=number, result={"resources": []})
    elif method == "resources/templates/list":
        say(id=number, result={"resourceTemplates": TEMPLATES})
    elif method == "prompts/list":
        say(id=number, result={"prompts": PROMPTS})
    elif method == "completion/complete":
        params.pop("_meta", None)
        if params["argument"]["value"] == "bad":
            say(id=number, error={"code": -32602, "message": "no such argument"})
        else:
            say(id=number, result={"completion": complete(**params)})
    else:
        say(id=number, error={"code": -32601, "message": "no such method"})
"""
NAME = "notes.completion.complete"

pytestmark = pytest.mark.anyio


async def completed(client: Client, ref: Any, value: str, **context: str) -> tuple[list[str], Any]:
    """The values, and whether there are more."""
    argument = {"name": "city", "value": value}
    answer = await client.complete(ref, argument, context_arguments=context or None)
    return answer.completion.values, answer.completion.has_more


@pytest.mark.parametrize("era", ERAS)
async def test_a_word_is_completed_by_the_server_of_the_prompt_or_template(tmp_path: Path, era: str) -> None:
    root = Root(tmp_path)
    server_of(root, "notes", SERVER)
    root.policy({"tool": NAME, "decision": "allow", "because": "test"})
    prompt = PromptReference(name="notes_greet")
    template = ResourceTemplateReference(uri="flytui://notes/notes://{day}")
    async with kernel_of(root) as kernel:
        await until(lambda: capability(kernel, NAME))
        async with client_of(root, kernel, era) as client:
            # A client of the newer protocol makes single requests and has not asked what the server can do.
            assert era != OLD or client.server_capabilities.completions is not None
            assert not any("complet" in tool.name for tool in (await client.list_tools()).tools)
            # The value that is too long is left out.
            values, more = await completed(client, prompt, "a", day="1")
            assert values == ["a greet", "a city", 'a {"arguments": {"day": "1"}}']
            assert more
            values, _ = await completed(client, template, "b")
            assert values[0] == "b notes://{day}"
            values, more = await completed(client, prompt, "many")
            assert (len(values), more) == (100, True)
            with pytest.raises(MCPError, match="no such argument"):
                await completed(client, prompt, "bad")
            with pytest.raises(MCPError, match="no server has"):
                await completed(client, PromptReference(name="other"), "a")
    assert {line["tool"] for line in root.audit() if line["event"] == "TOOL_STARTED"} == {NAME}


async def test_nobody_is_asked_about_a_completion(tmp_path: Path) -> None:
    root = Root(tmp_path)
    server_of(root, "notes", SERVER)
    root.policy({"tool": NAME, "decision": "ask", "because": "test"})
    async with kernel_of(root) as kernel:
        await until(lambda: capability(kernel, NAME))
        async with client_of(root, kernel, OLD) as client:
            assert await completed(client, PromptReference(name="notes_greet"), "a") == ([], None)
        assert kernel.asks() == ()
