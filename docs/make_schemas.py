"""Writes the JSON Schema of a call's result from its value: python docs/make_schemas.py

The descriptions are the docstrings of the value's fields, which msgspec does not put into its schemas.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import textwrap
from pathlib import Path
from typing import Any

import msgspec

import flycore.model.call
from flycore.model import call, caller, enums, refusals
from flycore.model.call import ToolResult

FILE = Path(flycore.model.call.__file__).with_name("result.schema.json")
SAID = {
    "ToolResult": {
        "status": "Whether the call succeeded, and if not, which kind of end it had.",
        "tool": "The name of the tool that was called.",
        "sidecar": "The id of the entry that offers the tool; null where nothing does.",
        "callId": "The id of the call.",
        "output": "The output of a call that succeeded.",
        "error": "Why there is no output.",
        "artifacts": "The files that the call made for the caller.",
        "waitedMs": "Milliseconds of waiting, for a person, a slot or a program.",
        "stderrTail": "The end of what the program wrote to standard error.",
        "warnings": "What the caller should know although the call succeeded.",
    },
    "CallError": {
        "message": "What went wrong, as a sentence.",
        "hint": "What the reader can do about it.",
        "details": "Further facts, such as an exit code or each violation.",
    },
    "RefusedPath": {"write": "Whether it was to be written."},
    "Artifact": {
        "path": "Where the file is.",
        "mimeType": "The kind of its contents.",
        "bytes": "Its size.",
    },
}
"""Descriptions of fields whose names say enough to who reads the code."""


def result_schema() -> dict[str, Any]:
    """Returns the schema of a call's result."""
    (root,), definitions = msgspec.json.schema_components([ToolResult], ref_template="#/$defs/{name}")
    for name, shape in definitions.items():
        for key, node in shape.get("properties", {}).items():
            node.setdefault("title", _title(key))
            node["description"] = _description(name, key)
    result = definitions.pop("ToolResult")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:flytui:schema:result:1",
        **result,
        "title": "flytui result of a call",
        "$defs": definitions,
        **({} if "$ref" in root else root),
    }
    read: dict[str, Any] = json.loads(json.dumps(schema))  # a default that is a tuple becomes a list
    return read


def _title(key: str) -> str:
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", key).lower()
    return words[:1].upper() + words[1:]


def _description(owner: str, key: str) -> str:
    said = SAID.get(owner, {}).get(key) or _docstrings(owner).get(key)
    if not said:
        raise LookupError(f"{owner}.{key} has no description: write one beside the field, or in SAID")
    return " ".join(said.split())


def _docstrings(owner: str) -> dict[str, str]:
    """Returns the docstring of each field of a value, by its name on the wire."""
    kind = next(
        getattr(module, owner) for module in (call, caller, enums, refusals) if hasattr(module, owner)
    )
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef))
    found: dict[str, str] = {}
    for field, after in itertools.pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            first, *rest = field.target.id.split("_")
            found[first + "".join(word.capitalize() for word in rest)] = str(after.value.value)
    return found


if __name__ == "__main__":
    FILE.write_text(f"{json.dumps(result_schema(), indent=2)}\n", encoding="utf-8")
