"""The entry that the README gives for `.mcp.json`, used by the official client as it stands there."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from kits.kernel import Root, kernel_of
from kits.mcp_clients import about

ROOT = Path(__file__).resolve().parents[2]
ENTRY = "```json .mcp.json\n"

pytestmark = pytest.mark.anyio


async def test_the_entry_of_the_readme_starts_a_server_with_the_tools_of_the_project(tmp_path: Path) -> None:
    root = Root(tmp_path)
    shutil.copy(ROOT / "tools" / "external.tools.jsonc", root.folder / "tools")
    (root.folder / "README.md").write_text("# shop\n")
    root.policy({"tool": "file.hash", "decision": "allow", "because": "test"})
    async with kernel_of(root):
        pass
    entry = json.loads((ROOT / "README.md").read_text().partition(ENTRY)[2].partition("```")[0])
    server = entry["mcpServers"]["flytui"]
    started = StdioServerParameters(
        command=str(Path(sys.executable).parent / server["command"]),
        args=server["args"],
        env=root.environ,
        cwd=root.folder,
    )
    async with Client(started) as client:
        assert "file_hash" in {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool("file_hash", {"path": "README.md"})
    assert about(result)["status"] == "success", result
