"""The protocol's page ends with the schemas as the code has them, and its examples are of these shapes."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import jsonschema_rs

from flycore.rpc.schema import protocol_schema
from kits.tables import each_row

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = (DOCS / "protocol.md").read_text(encoding="utf-8")
SENT = [json.loads(text) for text in re.findall(r"^```json send\n(.*?)^```$", TEXT, re.M | re.S)]


def test_the_page_has_the_schemas_of_the_code() -> None:
    made = runpy.run_path(str(DOCS / "make_protocol.py"))
    assert made["page"](TEXT) == TEXT


def test_every_reference_of_the_page_leads_somewhere() -> None:
    parts = [json.loads(text) for text in re.findall(r"^```json schemas\n(.*?)^```$", TEXT, re.M | re.S)]
    assert len(parts) == 4
    named = set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(parts)))
    assert named <= set(parts[-1])


REFUSED = ("approved", "ask.decide")
"""What the examples that are answered by an error bring."""


@each_row("message", SENT, ids=lambda one: one["id"])
def test_what_the_page_sends_is_of_these_shapes_unless_it_is_refused(message: dict[str, Any]) -> None:
    validator = jsonschema_rs.validator_for(protocol_schema())
    refused = any(word in json.dumps(message) for word in REFUSED)
    assert validator.is_valid(message) is not refused
