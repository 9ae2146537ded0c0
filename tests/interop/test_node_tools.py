"""The npm tools that the interop tests drive start, on the Node of their own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kits.programs import node_tool

PACKAGE = json.loads((Path(__file__).parent / "package.json").read_text())["devDependencies"]
TOOLS = {
    "conformance": "@modelcontextprotocol/conformance",
    "mcp-inspector": "@modelcontextprotocol/inspector",
    "wscat": "wscat",
}


@pytest.mark.e2e
@pytest.mark.parametrize("name", TOOLS)
def test_a_node_tool_is_there_in_the_version_that_is_named(name: str) -> None:
    command = node_tool(name)
    package = json.loads((Path(__file__).parent / "node_modules" / TOOLS[name] / "package.json").read_text())
    assert package["version"] == PACKAGE[TOOLS[name]]
    node = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert node.stdout.strip() == f"v{PACKAGE['node']}"
    helped = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False, timeout=100)
    assert "Usage" in helped.stdout
