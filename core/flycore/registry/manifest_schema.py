"""The JSON Schema of a tool manifest, and the first violation of it."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from flycore.model.json import Json, JsonObject, pointer_join
from flycore.registry.schema import refuse_retrieval

if TYPE_CHECKING:
    import jsonschema_rs

SCHEMA_FILE = "manifest.schema.json"


@cache
def _validator() -> jsonschema_rs.Draft202012Validator:
    import jsonschema_rs

    text = resources.files("flycore.registry").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    schema: JsonObject = json.loads(text)
    return jsonschema_rs.Draft202012Validator(schema, retriever=refuse_retrieval)


def manifest_violation(value: Json) -> tuple[str, str] | None:
    """Return the JSON pointer and a sentence for the first violation; None where the manifest has none.

    The sentence names no value, which may be a secret.
    """
    error = next(iter(_validator().iter_errors(value)), None)
    if error is None:
        return None
    pointer = ""
    for step in error.instance_path:
        pointer = pointer_join(pointer, step)
    keyword, facts = error.kind.name, error.kind.as_dict()
    where = pointer.lstrip("/").replace("/", ".") or "the manifest"
    if keyword == "required":
        return pointer, f"{where} has no {facts['property']}"
    if keyword == "additionalProperties":
        return pointer, f"{where} has a key that is not known"
    if keyword == "oneOf":
        return "/exec", "exec has not the part that kind names"
    return pointer, f"{where} has a value that is not allowed there ({keyword})"
