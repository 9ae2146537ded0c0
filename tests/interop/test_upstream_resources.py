"""Resources and prompts of the published server `everything`: the same behind flytui as directly."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from flycore.model.enums import Risk
from kits.command import COMMAND
from kits.kernel import Root, until
from kits.mcp_client_process import answers_of
from kits.mcp_servers import capability, sidecar
from kits.programs import needs, needs_bubblewrap
from kits.published_servers import SERVERS, approved, find_servers, is_installed
from kits.unix_socket import served

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(180)]

STATIC = "demo://resource/static/document/features.md"
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    ("resources/read", {"uri": STATIC}),
    ("resources/read", {"uri": "demo://resource/dynamic/blob/1"}),
    ("resources/read", {"uri": "demo://resource/absent"}),
    ("prompts/get", {"name": "simple-prompt"}),
    ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Köln"}}),
    ("prompts/get", {"name": "resource-prompt", "arguments": {"resourceType": "Text", "resourceId": "3"}}),
    ("prompts/get", {"name": "args-prompt", "arguments": {}}),
]


def behind(method: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The request to flytui."""
    mapped = {key: f"everything_{value}" if key == "name" else value for key, value in params.items()}
    if "uri" in params:
        mapped["uri"] = f"flytui://everything/{params['uri']}"
    return method, mapped


def as_direct(value: Any, method: str) -> Any:
    """The answer with the server's own names and URIs, sorted as flytui sorts lists, and without moments."""
    if isinstance(value, list):
        found = [as_direct(item, method) for item in value]
        keys = {"resources/list": "uri", "resources/templates/list": "uriTemplate", "prompts/list": "name"}
        key = keys.get(method)
        listed = key is not None and all(isinstance(one, dict) and key in one for one in found)
        # The arguments of a prompt have an order of their own.
        return (
            sorted(found, key=lambda one: one[key])
            if listed and value and "required" not in value[0]
            else found
        )
    if isinstance(value, dict):
        return {name: as_direct(item, method) for name, item in value.items()}
    if isinstance(value, str):
        plain = value.removeprefix("flytui://everything/")
        return plain.removeprefix("everything_") if method == "prompts/list" else plain
    return value


def without_moments(method: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without what depends on the moment: dynamic resources say when they were made."""
    for one in answer.get("contents", []):
        if "blob" in one:
            one["blob"] = base64.b64decode(one["blob"]).decode("utf-8", "replace")
    plain: dict[str, Any] = json.loads(re.sub(r"\d{1,2}:\d\d:\d\d( [AP]M)?", "THEN", json.dumps(answer)))
    return plain


def root_of(tmp_path: Path) -> Root:
    """A root whose registry has the server."""
    needs_bubblewrap()
    root = Root(tmp_path)
    find_servers(root)
    if not is_installed(root, SERVERS["everything"]):
        needs("mcp-server-everything")
    root.sidecars["everything"] = {"kind": "mcp", "command": "mcp-server-everything", "permissions": {}}
    root.write()
    return root


async def test_resources_and_prompts_are_the_same_behind_flytui(tmp_path: Path) -> None:
    root = root_of(tmp_path)
    direct = await answers_of(["mcp-server-everything"], root.environ, root.folder, REQUESTS)
    own = "demo://resource/dynamic/text/2"
    async with served(root) as kernel, approved(kernel):
        await until(lambda: capability(kernel, "everything.prompts.get"), patience=90)
        asked = [
            *(behind(*request) for request in REQUESTS),
            ("resources/read", {"uri": own}),
            ("tools/list", {}),
        ]
        argv = COMMAND.launcher("flytui", "--root", str(root.folder), "mcp")
        *answers, by_own_uri, tools = await answers_of(argv, root.environ, root.folder, asked)
        view = capability(kernel, "everything.resources.read")
        note = sidecar(kernel, "everything").stability.evidence.probe
    for (method, params), one, other in zip(REQUESTS, direct, answers, strict=True):
        assert without_moments(method, as_direct(other, method)) == without_moments(
            method, as_direct(one, method)
        ), (method, params)
    # A link in the answer of a tool has the server's own URI, and can be read by it.
    assert by_own_uri["contents"][0]["uri"] == own
    assert "Resource 2" in by_own_uri["contents"][0]["text"]
    assert not [tool["name"] for tool in tools["tools"] if "resources_read" in tool["name"]]
    assert view is not None
    assert (view.capability.risk, view.capability.read_only) == (Risk.LOW, True)
    assert note is not None
    assert "resources, 2 templates, " in note.note
    ran = [line["tool"] for line in root.audit() if line["event"] == "TOOL_EXECUTED"]
    # One for each read, those included that the server refused.
    assert ran.count("everything.resources.read") == 4
    assert ran.count("everything.prompts.get") == 4


async def test_a_rule_can_deny_reads_and_not_prompts(tmp_path: Path) -> None:
    root = root_of(tmp_path)
    root.policy({"tool": "everything.resources.read", "decision": "deny", "because": "not these"})
    asked = [
        behind("resources/list", {}),
        behind("resources/templates/list", {}),
        behind("resources/read", {"uri": STATIC}),
        behind("prompts/get", {"name": "simple-prompt"}),
    ]
    async with served(root) as kernel, approved(kernel):
        await until(lambda: capability(kernel, "everything.prompts.get"), patience=90)
        argv = COMMAND.launcher("flytui", "--root", str(root.folder), "mcp")
        listed, templates, read, prompt = await answers_of(argv, root.environ, root.folder, asked)
    assert (listed["resources"], templates["resourceTemplates"]) == ([], [])
    assert "no server has the resource" in read["error"]["message"]
    assert prompt["messages"]
