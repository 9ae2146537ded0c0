"""Entries of a registry of the kinds http, command and python: the same `exec` as in manifests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flycore.catalog.registry_capability import capability_from_spec
from flycore.model.enums import Kind, Source
from flycore.model.sidecar import SidecarEntry
from flycore.model.tool_exec import CommandExec, HttpExec, PythonExec
from flycore.registry.manifest import parse_manifest
from flycore.registry.parse_registry import parse_registry
from kits.tables import each_row

TOOL = {
    "name": "weather.now",
    "description": "Weather.",
    "inputSchema": {"type": "object", "properties": {"town": {"type": "string"}}},
    "version": "1.2",
    "approval": {"required": True, "reason": "it costs"},
    "examples": [{"params": {"town": "Bern"}, "expected_output": {"celsius": 12}}],
    "tags": ["weather"],
}
EXECS: dict[str, Any] = {
    "http": {"url": "https://a.example/${town}", "headers": {"X-Key": "${A_KEY}"}},
    "command": {"entrypoint": "./run", "args": ["${town}"]},
    "python": {"module": "m.n", "function": "f", "args": {"town": "${town}"}, "venv": ".venv"},
}
PERMISSIONS = {"network": True, "secrets": {"A_KEY": {"type": "integer", "required": False}}}


def parsed(**entry: Any) -> SidecarEntry:
    text = json.dumps({"schemaVersion": 2, "sidecars": {"weather": entry}})
    entries, problems = parse_registry(text, "tools/external.tools.jsonc", Source.PROJECT, frozenset())
    assert problems == ()
    assert entries is not None
    return entries[0]


def of_kind(kind: str, **more: Any) -> SidecarEntry:
    fields = {"kind": kind, "exec": {kind: EXECS[kind]}, "permissions": PERMISSIONS, "tools": [TOOL]}
    return parsed(**(fields | more))


@pytest.mark.parametrize("kind", EXECS)
def test_each_kind_is_read_as_in_a_manifest(kind: str) -> None:
    entry = of_kind(kind)
    assert entry.problems == ()
    assert entry.kind is Kind(kind)
    manifest = {
        "name": "weather",
        "description": "Weather.",
        "kind": kind,
        "exec": {kind: EXECS[kind]},
        "permissions": PERMISSIONS,
        "inputs": {"schema": TOOL["inputSchema"]},
    }
    same = parse_manifest(json.dumps(manifest), "tool.yml", folder="weather")
    for field in ("exec", "command", "args", "url", "headers", "permissions", "working_dir"):
        assert getattr(entry, field) == getattr(same, field), field
    assert isinstance(entry.exec, HttpExec | CommandExec | PythonExec)


def test_a_tool_has_approval_version_and_examples() -> None:
    capability = capability_from_spec(of_kind("http").tools[0], "weather")
    assert (capability.version, capability.asks_because, capability.tags) == ("1.2", "it costs", ("weather",))
    assert capability.examples == ({"town": "Bern"},)
    assert capability.example_calls[0].expected_output == {"celsius": 12}


@each_row(
    ("change", "rule", "pointer"),
    [
        ({"tools": [TOOL, {**TOOL, "name": "other"}]}, "exec-tools", "/tools"),
        ({"tools": ["web.search"]}, "unknown-tool", "/tools/0"),
        ({"exec": {"command": EXECS["command"]}}, "exec-kind", "/exec"),
        ({"command": "./run"}, "exec-kind", "/command"),
        ({"permissions": {}}, "network-undeclared", "/permissions"),
        ({"exec": {"http": {"url": "https://${x}/"}}}, "placeholder-unknown", "/exec/http/url"),
        ({"exec": {"http": {"url": 3}}}, "schema", "/exec/http/url"),
        ({"permissions": {"network": True, "secrets": {"LD_PRELOAD": {}}}}, "loader-name", ""),
        ({"tools": [{**TOOL, "approval": {"required": True}}]}, "approval-reason", "/tools/0/approval"),
    ],
)
def test_each_fault_is_found(change: dict[str, Any], rule: str, pointer: str) -> None:
    entry = of_kind("http", **change)
    assert not entry.valid
    assert (rule, f"/sidecars/weather{pointer}") in [
        (problem.rule, problem.pointer if pointer else "/sidecars/weather") for problem in entry.problems
    ]


def test_an_exec_belongs_to_its_kinds_and_the_kinds_to_an_exec() -> None:
    assert [
        one.rule for one in parsed(command="./x", exec={"http": EXECS["http"]}, tools=[TOOL]).problems
    ] == ["exec-kind"]
    assert not parsed(kind="python", tools=[TOOL]).valid
