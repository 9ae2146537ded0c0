"""Every registry entry that flytui prints has its permissions, and a registry accepts it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flycore.catalog.builtin import BUNDLED_TOOLS, KNOWN
from flycore.catalog.proposed_entries import proposed_permissions, undeclared_permissions
from flycore.catalog.reasons import not_configured
from flycore.discovery.server_import import import_proposal
from flycore.model.enums import Layer, Source
from flycore.registry.edits import starter_text
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.parse_registry import parse_registry
from flytui.cli.demo_root import registry as demo_registry
from kits.tables import each_row

ROOT = Path(__file__).parents[2]
PAGES = (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
BLOCK = re.compile(r"^```jsonc?\b(?! lint )[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""Blocks of JSON, except the faulty ones of docs/lint.md."""
OTHERS = {"delegates", "mcpServers", "hooks", "mcp", "properties"}
"""Keys below which a "command" is none of a registry entry: delegates, files of other programs, schemas."""
SOURCES = sorted(path for folder in ("core", "tui", "sidecars") for path in (ROOT / folder).rglob("*.py"))
NO_ENTRIES = {
    "core/flycore/discovery/servers.py": "about another client's file",
    "core/flycore/registry/resolve.py": "about the key alone",
    "sidecars/flysidecars/computer/probe.py": "a delegate",
    "sidecars/flysidecars/utility/probe.py": "a delegate",
    "tui/flytui/cli/client_configs.py": "another client's file",
    "core/flycore/rpc/schemas.py": "a schema",
}
PRINTED = re.compile(r'"command"\s*:')


def entries_in(value: Any, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The registry entries within a document, with their ids."""
    if isinstance(value, dict):
        # The metadata of a package has a version of its own, and more keys than an entry.
        if isinstance(value.get("command"), str) and not {"schemaVersion", "id"} <= value.keys():
            yield key, value
        for name, item in value.items():
            if name not in OTHERS:
                yield from entries_in(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from entries_in(item, key)


def check(sidecar: str, entry: dict[str, Any]) -> None:
    """The entry has permissions, and a registry has nothing to say about it."""
    assert "permissions" in entry, sidecar
    text = json.dumps({"schemaVersion": 2, "sidecars": {sidecar: entry}})
    entries, found = parse_registry(text, "printed.jsonc", Source.PROJECT, frozenset(KNOWN))
    assert entries is not None
    assert [*found, *entries[0].problems, *undeclared_permissions(entries)] == []


@each_row("name", sorted(name for name, item in KNOWN.items() if item.layer is Layer.ATOMIC))
def test_the_remedy_of_a_tool_that_nothing_offers_is_an_entry_that_offers_it(name: str) -> None:
    remedy = not_configured(KNOWN[name]).remedy
    printed = remedy[remedy.index(': "') + 2 :]
    ((sidecar, entry),) = json.loads(f"{{{printed}}}").items()
    if name not in BUNDLED_TOOLS:
        # A tool of somebody's own is described by its program's author; here it is a known one.
        assert entry["tools"] == [name]
    check(sidecar, entry)


@each_row("page", PAGES, ids=lambda page: page.name)
def test_the_entries_of_a_page_have_permissions(page: Path) -> None:
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if not PRINTED.search(block):
            continue
        text = block if block.lstrip().startswith("{") else f"{{{block}}}"
        value, problem = parse_jsonc(text, page.name)
        if value is None:
            # Several messages one below the other: none of them is a registry.
            assert '"tools"' not in block or '"event"' in block, problem
            continue
        for sidecar, entry in entries_in(value):
            check(sidecar, entry)


def test_the_starter_the_project_and_the_demo_declare_permissions() -> None:
    project = (ROOT / "tools" / "external.tools.jsonc").read_text(encoding="utf-8")
    for text in (starter_text(), project, json.dumps(demo_registry())):
        entries, _ = parse_registry(text, "x.jsonc", Source.PROJECT, frozenset(KNOWN))
        assert entries
        assert undeclared_permissions(entries) == ()
    assert '"permissions"' in starter_text().split("// A tool of your own")[1]


def test_a_text_of_the_program_that_prints_an_entry_prints_its_permissions() -> None:
    for path in SOURCES:
        source = path.read_text(encoding="utf-8")
        if not PRINTED.search(source) or str(path.relative_to(ROOT)) in NO_ENTRIES:
            continue
        for statement in ast.walk(ast.parse(source)):
            texts = texts_of(statement)
            if any(PRINTED.search(text) for text in texts):
                assert any('"permissions"' in text for text in texts), f"{path}: {ast.unparse(statement)}"


def texts_of(node: ast.AST) -> list[str]:
    """The constant texts of a statement or a call; none of any other node."""
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return | ast.Call):
        return []
    constants = (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant))
    return [value for value in constants if isinstance(value, str)]


def test_an_imported_server_has_permissions_also_where_it_needs_none() -> None:
    found = import_proposal("notes", {"command": "notes-server"}, "/project", frozenset(KNOWN))
    assert found.entry["permissions"] == {}
    check(found.id, found.entry)


def test_what_an_entry_lacks_is_proposed_from_what_its_tools_need() -> None:
    entries = {
        "own": {"command": "flytui-sidecar", "args": ["web.search"], "tools": ["web.search", "file.hash"]},
        "foreign": {"command": "./run", "tools": ["web.search"]},
        "declared": {"command": "./run", "permissions": {}, "tools": ["web.fetch"]},
    }
    text = json.dumps({"schemaVersion": 2, "sidecars": entries})
    parsed, _ = parse_registry(text, "x.jsonc", Source.PROJECT, frozenset(KNOWN))
    assert parsed is not None
    assert proposed_permissions(parsed[0]) == {"fs": {"read": ["."]}, "network": True}
    own, foreign = undeclared_permissions(parsed)
    assert '"permissions": {"fs": {"read": ["."]}, "network": true},' in own.remedy
    assert '"permissions": {},' in foreign.remedy
    assert (own.rule, own.sidecar, foreign.sidecar) == ("no-permissions", "own", "foreign")
