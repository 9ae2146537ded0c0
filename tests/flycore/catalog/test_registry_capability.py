"""A registry's own description of a tool: it adds tools, and can make a known one only stricter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from flycore.catalog.builtin import KNOWN
from flycore.catalog.registry_capability import capability_from_spec, greater_risk, own_schema_findings
from flycore.catalog.risk import effect_sentence, risk_of
from flycore.model.enums import Layer, Risk
from flycore.model.sidecar import SidecarEntry, ToolClaim
from kits.tables import each_row


def _claim(name: str, **spec: Any) -> ToolClaim:
    schema = {} if name in KNOWN else {"inputSchema": {"type": "object"}}
    return ToolClaim(name=name, spec={"name": name, **schema, **spec})


def test_bare_name_is_the_kernels_own() -> None:
    assert capability_from_spec(ToolClaim(name="file.hash"), "mine") is KNOWN["file.hash"]


def test_new_tool() -> None:
    claim = _claim(
        "notes.search",
        description="Searches my notes.\nReturns lines.",
        approvalClass="read",
        risk="high",
        readOnly=True,
        exclusive="notes",
        resultLimit=100,
        tags=["notes"],
    )
    made = capability_from_spec(claim, "notes.local")
    assert (made.name, made.family, made.sidecar, made.layer) == (
        "notes.search",
        "notes",
        "notes.local",
        Layer.ATOMIC,
    )
    assert (made.summary, made.risk, made.approval_class) == ("Searches my notes.", Risk.HIGH, ("read",))
    assert (made.read_only, made.exclusive, made.result_limit, made.known) == (True, "notes", 100, False)


@pytest.mark.parametrize(
    ("declared", "risk"), [("low", "medium"), ("medium", "medium"), ("high", "high"), ("critical", "high")]
)
def test_risk_of_a_new_tool_is_raised_only(declared: str, risk: str) -> None:
    assert capability_from_spec(_claim("notes.search", risk=declared), "x").risk == risk


@each_row("name", sorted(KNOWN))
@each_row("declared", ["low", "medium", "high", "critical"])
def test_known_tool_is_never_loosened(name: str, declared: str) -> None:
    own = KNOWN[name]
    loose = _claim(
        name,
        risk=declared,
        readOnly=True,
        approvalClass="read",
        exclusive="other",
        resultLimit=10**9,
        description="Safe!",
    )
    made = capability_from_spec(loose, "evil")
    assert made.risk.at_least(own.risk)
    assert made.risk is not Risk.CRITICAL
    assert made.read_only == own.read_only
    assert set(made.approval_class) >= set(own.approval_class)
    assert made.exclusive == (own.exclusive or "other")
    assert not made.concurrency_safe
    assert made.result_limit == own.result_limit
    assert (made.input_schema, made.output_schema) == (own.input_schema, own.output_schema)
    assert (made.description, made.effect, made.effects) == (own.description, own.effect, own.effects)
    assert made.known


@each_row("name", sorted(KNOWN))
def test_the_entry_s_own_schema_of_a_known_tool_counts_and_loosens_nothing(name: str) -> None:
    own, schema = KNOWN[name], {"type": "object", "properties": {"imagePath": {"type": "string"}}}
    made = capability_from_spec(_claim(name, inputSchema=schema, description="Reads imagePath."), "theirs")
    assert (made.input_schema, made.output_schema, made.description) == (schema, {}, "Reads imagePath.")
    assert (made.read_only, made.exclusive, made.known) == (own.read_only, own.exclusive, False)
    assert set(made.approval_class) >= set(own.approval_class)
    highest = max((own.risk, *(rule.risk for rule in own.risk_when)), key=lambda risk: risk.rank)
    for example in ({"imagePath": "x"}, *own.examples):
        assert risk_of(made, example) is highest
        assert "(not given)" not in effect_sentence(made, example)


def test_lint_says_which_schema_is_in_force(make_entry: Callable[..., SidecarEntry]) -> None:
    schema = {"type": "object", "properties": {"imagePath": {}, "language": {}}, "required": ["imagePath"]}
    claims = (ToolClaim(name="file.hash"), _claim("vision.ocr", inputSchema=schema))
    (note,) = own_schema_findings(replace(make_entry(), tools=claims))
    assert (note.severity, note.rule) == ("info", "own-schema")
    assert note.pointer == "/sidecars/utility.local/tools/1/inputSchema"
    for word in ("in force", "imagePath", "the fields path", "required fields path"):
        assert word in note.message


def test_known_tool_may_be_made_stricter() -> None:
    made = capability_from_spec(
        _claim("file.hash", risk="high", readOnly=False, approvalClass=["write"]), "x"
    )
    assert (made.risk, made.read_only, made.approval_class) == (Risk.HIGH, False, ("read", "write"))


def test_raising_holds_for_every_rule() -> None:
    made = capability_from_spec(_claim("web.request", risk="high"), "x")
    assert risk_of(made, {"method": "GET", "url": "https://example.org"}) is Risk.HIGH


def test_saying_nothing_changes_nothing() -> None:
    assert capability_from_spec(_claim("file.hash"), "x") == KNOWN["file.hash"]


@pytest.mark.parametrize("name", sorted(name for name, known in KNOWN.items() if known.risk_when))
def test_the_greater_of_two_risks_holds_for_every_rule(name: str) -> None:
    own = KNOWN[name]
    high = capability_from_spec(_claim(name, risk="high"), "x")
    described = capability_from_spec(_claim(name, inputSchema={"type": "object"}), "x")
    assert greater_risk(own, own) == own
    for one, other in ((own, high), (high, own)):
        both = greater_risk(one, other)
        assert (both.risk, both.risk_when) == (high.risk, high.risk_when)
    # Where the rules differ, the greatest risk of the other description is the least of every call.
    every = (own.risk, *(rule.risk for rule in own.risk_when))
    assert greater_risk(own, described).risk is described.risk
    assert all(rule.risk.at_least(described.risk) for rule in greater_risk(own, described).risk_when)
    assert greater_risk(described, own).risk is max(every, key=lambda risk: risk.rank)
