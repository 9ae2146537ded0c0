"""A fault in one entry makes that entry invalid, says where and what to write, and harms no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flycore.model.diagnostics import Severity

if TYPE_CHECKING:
    from conftest import Root

FRAME = """{{
  // comment with "a": colon
  "schemaVersion": 2,
  "sidecars": {{
    "good.before": {{"command": "true", "tools": ["web.search"]}},
    {entry},
    "good.after": {{"command": "true", "tools": ["web.fetch"]}},
  }},
}}
"""

E, W = Severity.ERROR, Severity.WARNING

# name, entry with « before the place (+: what follows its command), severity, rule, pointer, in the remedy
ROWS = [
    ("not an object", '"bad": «5', E, "schema", "", "command"),
    ("null", '"bad": «null', E, "schema", "", "command"),
    ("no command", '"bad": «{"tools": ["file.hash"]}', E, "schema", "", '"command"'),
    ("command a number", '"bad": {"command": «7}', E, "schema", "/command", "./"),
    ("command empty", '"bad": {"command": «""}', E, "schema", "/command", "./"),
    ("command with NUL", '"bad": {"command": «"a\\u0000b"}', E, "schema", "/command", "./"),
    ("args a string", '+"args": «"--a"', E, "schema", "/args", "--quiet"),
    ("args hold a number", '+\n "args": ["a", «1]', E, "schema", "/args/1", "--quiet"),
    ("cwd unknown", '+"cwd": «"home"', E, "schema", "/cwd", '"app"'),
    ("cwd config in the project", '+"cwd": «"config"', E, "anchor", "/cwd", "workspace"),
    ("env a list", '+"env": «[]', E, "schema", "/env", "LANG"),
    ("env holds a number", '+"env": {"A": «1}', E, "schema", "/env/A", "C.UTF-8"),
    ("env name", '+"env": {"1-A": «"x"}', E, "schema", "/env/1-A", "LC_ALL"),
    ("env secret", '+"env": {"API_KEY": «"v"}', E, "secret-name", "/env/API_KEY", "secrets"),
    (
        "env reserved",
        '+"env": {"FLYTUI_CALL_ID": «"v"}',
        E,
        "reserved-name",
        "/env/FLYTUI_CALL_ID",
        "another",
    ),
    ("passEnv key", '+"passEnv": ["LANG", «"BRAVE_API_KEY"]', E, "secret-name", "/passEnv/1", "secrets"),
    ("passEnv token", '+"passEnv": [«"gh_token"]', E, "secret-name", "/passEnv/0", "secrets"),
    ("passEnv pass", '+"passEnv": [«"DB_PASSWD"]', E, "secret-name", "/passEnv/0", "secrets"),
    ("passEnv agent", '+"passEnv": [«"SSH_AUTH_SOCK"]', E, "secret-name", "/passEnv/0", "secrets"),
    ("passEnv display", '+"passEnv": [«"XAUTHORITY"]', E, "secret-name", "/passEnv/0", "desktop"),
    ("passEnv loader", '+"passEnv": ["LANG", «"PYTHONPATH"]', E, "loader-name", "/passEnv/1", "env"),
    ("passEnv preload", '+"passEnv": [«"LD_PRELOAD"]', E, "loader-name", "/passEnv/0", "env"),
    ("passEnv path", '+"passEnv": [«"PATH"]', E, "loader-name", "/passEnv/0", "env"),
    (
        "secret loader",
        '+"permissions": {"secrets": [«"NODE_OPTIONS"]}',
        E,
        "loader-name",
        "/permissions/secrets/0",
        "BRAVE_API_KEY",
    ),
    ("passEnv form", '+"passEnv": [«"A B"]', E, "schema", "/passEnv/0", "LC_ALL"),
    ("delegate name", '+"delegates": {"a b": «{"command": "y"}}', E, "schema", "/delegates/a b", "keyboard"),
    ("enabled a string", '+"enabled": «"no"', E, "schema", "/enabled", "true"),
    ("kind unknown", '+"kind": «"grpc"', E, "schema", "/kind", "process-json"),
    ("instances zero", '+"instances": «0', E, "schema", "/instances", "1"),
    ("timeout below zero", '+"timeoutMs": «-1', E, "schema", "/timeoutMs", "30000"),
    ("timeout a fraction", '+"timeoutMs": «1.5', E, "schema", "/timeoutMs", "30000"),
    ("output too big", '+"maxOutputBytes": «1e12', E, "schema", "/maxOutputBytes", "1048576"),
    ("config a list", '+"config": «[]', E, "schema", "/config", "config"),
    (
        "delegate without command",
        '+"delegates": {"keyboard": «{}}',
        E,
        "schema",
        "/delegates/keyboard",
        "command",
    ),
    ("delegates a string", '+"delegates": «"x"', E, "schema", "/delegates", "keyboard"),
    ("core range", '+"compatibleCore": «"about 1"', E, "version", "/compatibleCore", ">=0.1,<1"),
    ("probe mode", '+"probe": {"mode": «"often"}', E, "schema", "/probe/mode", "request"),
    ("probe time", '+"probe": {"timeoutMs": «-1}', E, "schema", "/probe/timeoutMs", "2000"),
    (
        "permission a string",
        '+"permissions": {"network": «"yes"}',
        E,
        "schema",
        "/permissions/network",
        "true",
    ),
    ("fs a list", '+\n  "permissions": {\n "fs": «["."]}', E, "schema", "/permissions/fs", "read"),
    (
        "secret's value",
        '+"permissions": {"secrets": [«"sk-1234"]}',
        E,
        "schema",
        "/permissions/secrets/0",
        "LC_ALL",
    ),
    ("limit", '+"limits": {"openFiles": «1}', E, "schema", "/limits/openFiles", "256"),
    ("seal", '+"seal": «"never"', E, "schema", "/seal", "auto"),
    ("tools a string", '+"tools": «"web.search"', E, "schema", "/tools", "web.search"),
    ("tool a number", '+"tools": [«3]', E, "schema", "/tools/0", "web.search"),
    ("tool unknown", '+"tools": [«"web.serch"]', E, "unknown-tool", "/tools/0", "web.search"),
    ("tool far off", '+"tools": [«"zzz"]', E, "unknown-tool", "/tools/0", "inputSchema"),
    ("tool builtin", '+"tools": [«"workspace.read"]', E, "builtin-tool", "/tools/0", "remove"),
    (
        "tool builtin described",
        '+"tools": [«{"name": "shell.run", "inputSchema": {}}]',
        E,
        "builtin-tool",
        "/tools/0",
        "remove",
    ),
    ("tool without schema", '+"tools": [\n«{"name": "n.a"}]', E, "schema", "/tools/0", "inputSchema"),
    (
        "tool schema wrong",
        '+"tools": [{"name": "n.a", "inputSchema": «{"type": "objekt"}}]',
        E,
        "tool-schema",
        "/tools/0/inputSchema",
        "2020-12",
    ),
    (
        "tool schema fetches",
        '+"tools": [{"name": "n.a", "inputSchema": «{"$ref": "file:///etc/passwd"}}]',
        E,
        "tool-schema",
        "/tools/0/inputSchema",
        "2020-12",
    ),
    (
        "tool schema pattern",
        '+"tools": [{"name": "n", "inputSchema": {}, "outputSchema": «{"pattern": "("}}]',
        E,
        "tool-schema",
        "/tools/0/outputSchema",
        "2020-12",
    ),
    (
        "tool takes a string",
        '+"tools": [{"name": "n.a", "inputSchema": «{"type": "string"}}]',
        E,
        "tool-schema",
        "/tools/0/inputSchema",
        "object",
    ),
    (
        "tool risk critical",
        '+"tools": [{"name": "n.a", "inputSchema": {}, "risk": «"critical"}]',
        E,
        "schema",
        "/tools/0/risk",
        "medium",
    ),
    (
        "tool class",
        '+"tools": [{"name": "n.a", "inputSchema": {}, "approvalClass": «"fun"}]',
        E,
        "schema",
        "/tools/0/approvalClass",
        "read",
    ),
    ("not a number", '+"config": {"a": «NaN}', E, "not-json", "/config/a", "finite"),
    ("key twice", '+\n «"command": "y"', E, "duplicate-key", "/command", "keep one"),
    (
        "key twice deep",
        '+"config": {"a": [{"b": 1,\n\n «"b": 2}]}',
        E,
        "duplicate-key",
        "/config/a/0/b",
        "keep one",
    ),
    (
        "key twice by escape",
        '+"config": {"a": "\\u0022:",\n «"\\u0061": 2}',
        E,
        "duplicate-key",
        "/config/a",
        "keep one",
    ),
    ("id twice", '"bad": {"command": "x"},\n   «"bad": {"command": "y"}', E, "duplicate-key", "", "keep one"),
    ("unknown key", '+"tools": ["file.hash"], "timeoutMS": «5', W, "unknown-key", "/timeoutMS", "timeoutMs"),
    (
        "unknown key below",
        '+"permissions": {"netwrok": «true}',
        W,
        "unknown-key",
        "/permissions/netwrok",
        "network",
    ),
    (
        "unknown key in fs",
        '+"permissions": {"fs": {"reed": «[]}}',
        W,
        "unknown-key",
        "/permissions/fs/reed",
        "read",
    ),
    (
        "unknown key in a tool",
        '+"tools": [{"name": "n.a", "inputSchema": {}, "risky": «1}]',
        W,
        "unknown-key",
        "/tools/0/risky",
        "risk",
    ),
    ("no tools", '"bad": «{"command": "x"}', W, "no-tools", "", "tools"),
    ("tool twice", '+"tools": ["file.hash", «"file.hash"]', W, "tool-twice", "/tools/1", "keep one"),
    ("claimed before", '+\n«"tools": ["web.search"]', W, "tool-conflict", "/tools", "remove web.search"),
    ("single quotes", '"bad": {"command": «\'x\', "tools": ["file.hash"]}', W, "json5-only", "", "double"),
    ("unquoted key", '"bad": {«command: "x", "tools": ["file.hash"]}', W, "json5-only", "", '"command"'),
    ("hexadecimal", '+"timeoutMs": «0xFF', W, "json5-only", "", "decimal"),
    ("plus", '+"timeoutMs": «+5', W, "json5-only", "", "decimal"),
    ("leading dot", '+"config": {"a": «.5}', W, "json5-only", "", "decimal"),
    ("line continued", '"bad": {"command": «"x\\\ny"}', W, "json5-only", "", "\\n"),
]


@pytest.mark.parametrize(
    ("entry", "severity", "rule", "below", "remedy"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_is_told_with_its_place(
    root: Root, entry: str, severity: Severity, rule: str, below: str, remedy: str
) -> None:
    if entry.startswith("+"):
        entry = f'"bad": {{"command": "x", {entry[1:]}}}'
    marked = FRAME.format(entry=entry)
    offset = marked.index("«")
    line, column = marked.count("\n", 0, offset) + 1, offset - (marked.rfind("\n", 0, offset))
    registry = root.load(marked.replace("«", ""))

    bad = registry.entry("bad")
    assert bad is not None
    assert all(problem.message and problem.remedy for problem in bad.problems)
    assert bad.valid == (severity is not Severity.ERROR)
    found = [problem for problem in bad.problems if problem.rule == rule]
    assert [problem.severity for problem in found] == [severity]
    (problem,) = found
    assert problem.position is not None
    assert (problem.position.line, problem.position.column) == (line, column)
    assert problem.pointer == "/sidecars/bad" + below
    assert remedy in problem.remedy
    assert problem.sidecar == "bad"

    good = [registry.entry("good.before"), registry.entry("good.after")]
    assert [entry.valid for entry in good if entry is not None] == [True, True]
    assert [entry.problems for entry in good if entry is not None] == [(), ()]
    assert registry.diagnostics == ()
