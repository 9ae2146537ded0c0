"""The schema of the registry: a hostile entry or manifest is refused with bounded work."""

from __future__ import annotations

import resource
from typing import Any

import pytest

from flycore.registry.checks import schema_fault
from flycore.registry.manifest import parse_manifest
from flycore.registry.schema import MOST_ERRORS, violations


def test_of_a_large_entry_only_the_first_violation_is_made() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    [(pointer, message, _)] = violations({"command": "x", "tools": [0] * 300_000})
    assert pointer.startswith("/tools")
    assert message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_the_violations_of_a_small_entry_are_counted() -> None:
    assert len([*violations({"command": "x", "tools": [0] * 3, "timeoutMs": "x"})]) == 4
    assert len([*violations({"command": "x", "tools": [0] * 1_000})]) == MOST_ERRORS


def test_a_large_manifest_is_refused() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = f"name: search\nkind: http\ntags: [{'0, ' * 20_000}0]\n"
    entry = parse_manifest(text, "tools/search/tool.yml", folder="search")
    assert not entry.valid
    assert len(entry.problems) < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def _doubling() -> dict[str, Any]:
    lines = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(64)}
    return {"$ref": "#/$defs/d0", "$defs": lines}


@pytest.mark.parametrize(
    "schema",
    [_doubling(), {"properties": {f"p{n}": {"pattern": f"^{n}"} for n in range(65)}}],
)
def test_a_schema_that_costs_too_much_is_a_fault(schema: dict[str, Any]) -> None:
    assert schema_fault(schema).startswith("cannot be used")
    assert schema_fault({"properties": {"a": {"$ref": "#"}, "b": {"pattern": "^a"}}}) == ""
