"""MCP servers whose tools would have names that belong to the kernel or to another entry."""

from __future__ import annotations

import pytest

from flycore.catalog.mcp_capabilities import with_mcp_tools
from flycore.model.enums import Source
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.model.upstream import McpToolOffer, ToolDefinition
from flycore.registry.parse_registry import parse_registry
from flycore.registry.paths import REGISTRY_FILE


def entry_with_tool(sidecar: str) -> SidecarEntry:
    """The entry of a server with this id, after the server has listed its tool `status`."""
    text = f'{{"schemaVersion": 2, "sidecars": {{"{sidecar}": {{"kind": "mcp", "command": "serve"}}}}}}'
    entries, _ = parse_registry(text, REGISTRY_FILE, Source.PROJECT, frozenset())
    offer = McpToolOffer(accepted=(ToolDefinition(name="status", input_schema={"type": "object"}),))
    (entry,) = with_mcp_tools(
        Registry(app_root="/app", config_dir="/config", workspace="/app", entries=tuple(entries or ())),
        {sidecar: offer},
    ).entries
    return entry


@pytest.mark.parametrize("sidecar", ["git", "shell"])
def test_a_tool_with_a_name_of_the_kernel_is_told_with_another_id(sidecar: str) -> None:
    entry = entry_with_tool(sidecar)
    assert entry.tools == ()
    told = [problem for problem in entry.problems if problem.rule == "upstream-tool"]
    assert [f"would be called {sidecar}.status" in problem.message for problem in told] == [True]
    assert f"mcp-{sidecar}" in told[0].remedy
    assert [tool.name for tool in entry_with_tool(f"mcp-{sidecar}").tools] == [f"mcp-{sidecar}.status"]
