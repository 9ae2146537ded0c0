"""Entries of MCP servers: what is refused or warned about, and where."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from flycore.approval.entry_summary import describe_entry
from flycore.model.diagnostics import Severity

if TYPE_CHECKING:
    from conftest import Root

E, W = Severity.ERROR, Severity.WARNING
NET = {"network": True}
HOST = "https://mcp.example.com/mcp"


def at(url: str, **more: Any) -> dict[str, Any]:
    return {"url": url, "permissions": NET, **more}


# name, entry without its kind, severity, rule, pointer
ROWS: list[tuple[str, dict[str, Any], Severity, str, str]] = [
    ("neither", {"env": {}}, E, "mcp-reached", ""),
    ("both", at(HOST, command="x"), E, "mcp-reached", ""),
    ("itself", {"command": "flytui", "args": ["mcp"]}, E, "flytui-itself", "/command"),
    ("itself by uvx", {"command": "uvx", "args": ["flytui==0.1", "mcp"]}, E, "flytui-itself", "/command"),
    ("no network", {"url": HOST}, E, "network-undeclared", "/url"),
    ("another scheme", at("file:///etc/passwd"), E, "schema", "/url"),
    ("in the clear", at("http://mcp.example.com/mcp"), E, "in-the-clear", "/url"),
    ("in the clear nearby", at("http://10.0.0.7/mcp"), E, "in-the-clear", "/url"),
    ("like localhost", at("http://localhost.example.com/"), E, "in-the-clear", "/url"),
    ("a login", at("https://a:b@mcp.example.com/"), E, "url", "/url"),
    ("a secret in it", at(HOST + "?api_key=x"), E, "secret-name", "/url"),
    (
        "secrets that are no names",
        {"url": HOST, "headers": {"X-A": "b"}, "permissions": {"network": True, "secrets": [{}]}},
        E,
        "schema",
        "/permissions/secrets/0",
    ),
    ("headers alone", {"command": "x", "headers": {"A": "b"}}, E, "headers", "/headers"),
    (
        "a secret header",
        at(HOST, headers={"Authorization": "Bearer x"}),
        E,
        "secret-name",
        "/headers/Authorization",
    ),
    ("undeclared", at(HOST, headers={"X-A": "${TOKEN}"}), E, "secret-undeclared", "/headers/X-A"),
    ("our header", at(HOST, headers={"Host": "x"}), E, "own-header", "/headers/Host"),
    ("desktop", {"command": "x", "permissions": {"desktop": True}}, E, "desktop", "/permissions/desktop"),
    (
        "of the input",
        {"command": "x", "permissions": {"fs": {"read": ["${input.path}"]}}},
        E,
        "of-the-input",
        "/permissions/fs/read/0",
    ),
    ("not of the kind", {"command": "x", "idleMs": 5}, W, "not-used", "/idleMs"),
    ("not of a url", at(HOST, env={"A": "b"}), W, "not-used", "/env"),
    ("no answer to whether", {"command": "x", "sampling": "yes"}, E, "schema", "/sampling"),
    ("no tools", {"command": "x", "tools": []}, W, "no-tools", "/tools"),
    ("twice", {"command": "x", "tools": ["a", "a"]}, W, "tool-twice", "/tools/1"),
    (
        "described",
        {"command": "x", "tools": [{"name": "a", "inputSchema": {}}]},
        W,
        "unknown-key",
        "/tools/0/inputSchema",
    ),
]


def written(entry: dict[str, Any]) -> str:
    return json.dumps({"schemaVersion": 2, "sidecars": {"one": {"kind": "mcp", **entry}}})


@pytest.mark.parametrize(
    ("entry", "severity", "rule", "below"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS]
)
def test_is_told_with_its_place(
    root: Root, entry: dict[str, Any], severity: Severity, rule: str, below: str
) -> None:
    read = root.load(written(entry)).entry("one")
    assert read is not None
    assert read.valid == (severity is not Severity.ERROR)
    (problem,) = [problem for problem in read.problems if problem.rule == rule]
    assert (problem.severity, problem.pointer) == (severity, f"/sidecars/one{below}")
    assert problem.remedy


def test_requests_to_a_model_are_for_servers_and_change_what_is_trusted(root: Root) -> None:
    server = {"command": "notes-server"}
    without, given = (
        root.load(written({**server, **more})).entry("one") for more in ({}, {"sampling": True})
    )
    assert without is not None
    assert given is not None
    assert (without.samples, given.samples) == (False, True)
    assert without.digest != given.digest
    assert any("asks the models" in line for line in describe_entry(given, {}))
    assert not any("asks the models" in line for line in describe_entry(without, {}))
    other = root.load(written({**server, "kind": "process-json", "tools": ["web.search"], "sampling": True}))
    read = other.entry("one")
    assert read is not None
    assert [problem.pointer for problem in read.problems] == ["/sidecars/one/sampling"]


@pytest.mark.parametrize(
    "entry",
    [
        {
            "command": "notes-server",
            "args": ["--folder", "notes"],
            "sampling": True,
            "tools": ["search", {"name": "x", "risk": "high"}],
        },
        at("http://127.0.0.1:8000/mcp"),
        at("http://[::1]:8000/mcp"),
        at("http://localhost/mcp"),
        {
            "url": HOST,
            "headers": {"Authorization": "Bearer ${A_TOKEN}"},
            "permissions": {"network": True, "secrets": ["A_TOKEN"]},
        },
    ],
)
def test_is_read_without_a_word(root: Root, entry: dict[str, Any]) -> None:
    read = root.load(written(entry)).entry("one")
    assert read is not None
    assert read.problems == ()
