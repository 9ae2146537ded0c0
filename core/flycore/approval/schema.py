"""The JSON Schema of `policy.jsonc`, for editors and for `flytui schema policy`."""

from __future__ import annotations

import json
from importlib import resources

from flycore.model.canonical import JsonObject

SCHEMA_FILE = "policy.schema.json"


def policy_schema() -> JsonObject:
    """The JSON Schema (2020-12); a new copy each time. What it accepts may still be refused: a schema
    cannot say that an example holds or that a pattern names a tool."""
    text = resources.files("flycore.approval").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    schema: JsonObject = json.loads(text)
    return schema
