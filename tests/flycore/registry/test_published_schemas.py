"""The published schemas are complete, and they accept whatever the parsers accept."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import referencing
from jsonschema import Draft202012Validator

from flycore.catalog.builtin import KNOWN
from flycore.discovery.kits import parse_kits
from flycore.model.described import Origin
from flycore.model.diagnostics import Severity
from flycore.model.enums import Source
from flycore.policy.files import read_policy
from flycore.policy.rules import RuleLayer
from flycore.registry.edits import starter_text
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.manifest import parse_manifest
from flycore.registry.parse_registry import parse_registry
from flycore.registry.published_schemas import PUBLISHED, published_schema, write_schemas
from flycore.registry.settings import parse_settings
from flycore.registry.yaml_text import read_yaml
from kits.mutations import mutated
from kits.tables import each_row

ROOT = Path(__file__).parents[3]
NAMES = [schema.name for schema in PUBLISHED]
MUTATIONS = 600


def accepts(name: str) -> jsonschema_rs.Draft202012Validator:
    """The validator of a schema, which retrieves nothing."""
    return jsonschema_rs.Draft202012Validator(published_schema(name))


# --- complete


def objects(node: Any, pointer: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All objects of a schema that are schemas of a property, with their pointers."""
    if isinstance(node, list):
        for at, item in enumerate(node):
            yield from objects(item, f"{pointer}/{at}")
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        below = f"{pointer}/{key}"
        if key == "properties" and not re.search(r"/(if|then|else|oneOf|anyOf|not)(/|$)", pointer):
            yield from ((f"{below}/{name}", item) for name, item in value.items())
        if key not in ("examples", "default", "enum", "const"):
            yield from objects(value, below)


@each_row("name", NAMES)
def test_a_schema_is_one_and_explains_every_key(name: str) -> None:
    schema = published_schema(name)
    Draft202012Validator(schema, registry=referencing.Registry()).check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert re.fullmatch(rf"urn:flytui:schema:{name}:[0-9]+", str(schema["$id"]))
    assert str(schema["title"]).startswith("flytui ")
    assert schema["description"]
    definitions: Any = schema.get("$defs", {})

    def explained(node: dict[str, Any]) -> bool:
        # An editor shows the text beside a reference, else that of what it leads to.
        target = definitions.get(str(node.get("$ref", "")).rpartition("/")[2], {})
        return bool(node.get("description") or target.get("description")) or "/properties/" in str(
            node.get("$ref", "")
        )

    assert [pointer for pointer, node in objects(schema) if not explained(node)] == []


@each_row("name", NAMES)
def test_the_examples_of_a_schema_are_accepted_where_they_stand(name: str) -> None:
    schema = published_schema(name)
    for pointer, node in objects(schema):
        checked = {**node, "$defs": schema.get("$defs", {}), "properties": node.get("properties", {})}
        if "#/$defs/sidecar" in json.dumps(node):
            continue
        for example in [*node.get("examples", []), *([node["default"]] if "default" in node else [])]:
            assert jsonschema_rs.Draft202012Validator(checked).is_valid(example), (pointer, example)


# --- what is shipped and shown


def blocks(info: str) -> list[str]:
    """The blocks of all pages with that info."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    pattern = re.compile(rf"^```\w+ {info}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = [text for page in pages for text in pattern.findall(page.read_text())]
    assert found, info
    return found


def shown() -> Iterator[tuple[str, str]]:
    """(schema, text) of everything that is shipped or shown as a good example."""
    yield "registry", (ROOT / "tools" / "external.tools.jsonc").read_text()
    yield "registry", starter_text()
    yield "kits", (ROOT / "core" / "flycore" / "discovery" / "kits.jsonc").read_text()
    for name in ("registry", "policy", "settings", "kits", "manifest", "tools-config"):
        yield from ((name, text) for text in blocks(name))
    for file in sorted((ROOT / "docs" / "examples" / "manifests").glob("*/tool.yml")):
        yield "manifest", file.read_text()


def value_of(name: str, text: str) -> Any:
    return read_yaml(text, name).value if name == "manifest" else parse_jsonc(text, name)[0]


@each_row(("name", "text"), list(shown()), ids=lambda value: str(value)[:12])
def test_what_is_shipped_and_shown_is_accepted(name: str, text: str) -> None:
    value = value_of(name, text)
    assert [str(error) for error in accepts(name).iter_errors(value)] == []


MANIFEST = {"name": "x", "description": "x", "kind": "command", "exec": {"command": {"entrypoint": "./x"}}}
REQUEST = {
    **MANIFEST,
    "kind": "http",
    "exec": {"http": {"url": "https://x.example/"}},
    "permissions": {"network": True},
}
FUNCTION = {**MANIFEST, "kind": "python", "exec": {"python": {"module": "m", "function": "f"}}}
HOSTILE = [
    ("registry", {"schemaVersion": 2, "sidecars": {"a": {"command": "\x00", "tools": []}}}),
    ("registry", {"schemaVersion": 2, "sidecars": {"A B": {"command": "x", "tools": []}}}),
    ("registry", {"schemaVersion": 2, "sidecars": {"a": {"tools": ["web.search"]}}}),
    ("registry", []),
    ("policy", {"schemaVersion": 1, "rules": [{"tool": "*", "decision": "allow", "because": " "}]}),
    ("policy", {"schemaVersion": 1, "rules": [], "allow": "*"}),
    ("settings", {"approvals": {"timeoutMs": {"low": 0}}}),
    ("settings", {"sandbox": {"minimum": {"x": "off"}}}),
    ("tools-config", {"externalTools": {"searchPaths": "~/x"}}),
    ("tools-config", {"security": {"max_permissions": {"network": "yes"}}}),
    (
        "kits",
        {"schemaVersion": 1, "kits": [{"id": "a", "kind": "cli", "name": "a", "version": "1", "run": "x"}]},
    ),
    ("manifest", {**MANIFEST, "exec": {"command": {"entrypoint": "/bin/sh"}}}),
    ("manifest", {**MANIFEST, "exec": {"http": {"url": "https://x"}}}),
    ("manifest", {**MANIFEST, "exec": {"command": {"entrypoint": "x"}, "http": {"url": "https://x"}}}),
    ("manifest", {**MANIFEST, "permissions": {"fs": {"read": ["/etc"]}}}),
    ("manifest", {**MANIFEST, "permissions": {"secrets": ["A"]}}),
    ("manifest", {**MANIFEST, "approval": {"required": True}}),
    ("manifest", {**MANIFEST, "name": "../x"}),
    ("manifest", {**MANIFEST, "approval": {"required": True, "reason": " "}}),
    ("manifest", {**MANIFEST, "exec": {"command": {"entrypoint": "./x", "cwd": "a/../.."}}}),
    ("manifest", {**MANIFEST, "permissions": {"fs": {"write": ["~/x"]}}}),
    ("manifest", {**MANIFEST, "inputs": {"schema": {"type": "string"}}}),
    ("manifest", {**MANIFEST, "kind": "http", "exec": {"http": {"url": "https://x"}}}),
    ("manifest", {**REQUEST, "exec": {"http": {"url": "https://x", "body": {}}}}),
    ("manifest", {**REQUEST, "exec": {"http": {"url": "https://x", "body": {}, "method": "HEAD"}}}),
    ("request", {"tool": "x", "input": {}}),
    ("result", {"status": "fine", "tool": "x", "sidecar": None, "callId": "1"}),
]


@each_row(("name", "value"), HOSTILE)
def test_hostile_values_are_refused(name: str, value: Any) -> None:
    assert all(map(accepts("manifest").is_valid, (MANIFEST, REQUEST, FUNCTION)))
    assert not accepts(name).is_valid(value)


# --- the same as the parsers


def registry_takes(text: str) -> bool:
    entries, found = parse_registry(text, "x", Source.PROJECT, frozenset(KNOWN))
    problems = [*found, *(problem for entry in entries or () for problem in entry.problems)]
    return no_error(problems)


def policy_takes(text: str) -> bool:
    return no_error(read_policy(text.encode(), RuleLayer.USER, "x", frozenset(KNOWN))[1])


def settings_takes(text: str) -> bool:
    return no_error(parse_settings(text, "x").problems)


def kits_takes(text: str) -> bool:
    return no_error([problem for kit in parse_kits(text, "x", Origin.PROJECT) for problem in kit.reasons])


def manifest_takes(text: str) -> bool:
    return no_error(parse_manifest(text, "x", folder="").problems)


def no_error(problems: Any) -> bool:
    return all(problem.severity is not Severity.ERROR for problem in problems)


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("registry", registry_takes),
        ("policy", policy_takes),
        ("settings", settings_takes),
        ("kits", kits_takes),
        ("manifest", manifest_takes),
    ],
)
def test_whatever_the_parser_takes_the_schema_takes(name: str, takes: Callable[[str], bool]) -> None:
    chance = random.Random(7)
    validator = accepts(name)
    seeds = [value_of(known, text) for known, text in shown() if known == name]
    taken = refused = 0
    for _ in range(MUTATIONS):
        value = mutated(chance.choice(seeds), chance)
        if takes(json.dumps(value)):
            taken += 1
            assert [str(error) for error in validator.iter_errors(value)] == [], json.dumps(value)[:2_000]
        else:
            refused += 1
    assert min(taken, refused) > MUTATIONS // 20


# --- copies for an editor


def test_copies_are_written_once_and_nothing_else_is_replaced(tmp_path: Path) -> None:
    written, why_not = write_schemas(tmp_path)
    assert why_not == ""
    assert set(written) == {
        f"tools/schemas/{schema.name}.schema.json" for schema in PUBLISHED if schema.describes
    }
    assert write_schemas(tmp_path) == ((), "")
    copied = tmp_path / "tools" / "schemas" / "kits.schema.json"
    copied.write_text('{"$id": "urn:flytui:schema:kits:0"}')
    assert write_schemas(tmp_path) == (("tools/schemas/kits.schema.json",), "")
    assert json.loads(copied.read_text()) == published_schema("kits")
    copied.write_text("mine")
    assert "another file" in write_schemas(tmp_path)[1]
    assert copied.read_text() == "mine"


def test_copies_are_not_written_through_a_link_that_leads_out(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (root / "tools").mkdir(parents=True)
    (root / "tools" / "schemas").symlink_to(outside)
    assert "cannot be written" in write_schemas(root)[1]
    assert list(outside.iterdir()) == []
    shutil.rmtree(root)
    root.mkdir()
    (root / "tools").symlink_to(outside)
    assert "cannot be written" in write_schemas(root)[1]
    assert list(outside.iterdir()) == []
