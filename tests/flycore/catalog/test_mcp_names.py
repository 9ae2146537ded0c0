"""MCP servers whose tools would have names that belong to the kernel or to another entry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flycore.catalog.mcp_capabilities import with_mcp_tools
from flycore.model.enums import Source
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.model.upstream import McpToolOffer, ToolDefinition
from flycore.registry.parse_registry import parse_registry
from flycore.registry.paths import REGISTRY_FILE


def entry_with_tool(sidecar: str, *tools: str, **more: Any) -> SidecarEntry:
    """The entry of a server with this id, after the server has listed its tools, by default `status`."""
    sidecars = {sidecar: {"kind": "mcp", "command": "serve", **more}}
    text = json.dumps({"schemaVersion": 2, "sidecars": sidecars})
    entries, _ = parse_registry(text, REGISTRY_FILE, Source.PROJECT, frozenset())
    listed = (ToolDefinition(name=name, input_schema={"type": "object"}) for name in tools or ("status",))
    offer = McpToolOffer(accepted=tuple(listed))
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
    assert f"{sidecar}-server" in told[0].remedy
    assert [tool.name for tool in entry_with_tool(f"{sidecar}-server").tools] == [f"{sidecar}-server.status"]


def test_a_tool_has_the_name_that_its_entry_gives() -> None:
    entry = entry_with_tool("notes", "Search.Notes", "add", rename={"Search.Notes": "find", "gone": "lost"})
    assert [tool.name for tool in entry.tools] == ["notes.find", "notes.add"]
    assert [(tool.spec or {})["upstream"] for tool in entry.tools] == ["Search.Notes", "add"]
    assert ["gone" in problem.message for problem in entry.problems] == [True]


def test_a_new_name_that_another_tool_has_is_not_offered_twice() -> None:
    entry = entry_with_tool("notes", "add", "find", rename={"find": "add"})
    assert [tool.name for tool in entry.tools] == ["notes.add"]
    assert ["would be called notes.add" in problem.message for problem in entry.problems] == [True]


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"rename": {"a": "x", "b": "x"}}, "renamed-twice"),
        ({"rename": {"a": "Not a name"}}, "schema"),
        ({"rename": {"a": "b.c"}}, "schema"),
        ({"rename": {"a": "x"}, "tools": ["b"]}, "renamed-unselected"),
    ],
)
def test_a_name_that_cannot_be_given_is_a_problem(more: dict[str, Any], rule: str) -> None:
    problems = entry_with_tool("notes", **more).problems
    assert rule in [problem.rule for problem in problems]
    assert any(problem.pointer.startswith("/sidecars/notes/rename") for problem in problems)
