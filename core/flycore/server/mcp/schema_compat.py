"""Schemas of tools in the form that the interfaces of models accept, whose rules `client_rules` has.

This module takes care of the combinators (`anyOf`, `allOf`, `if` and others) at the root of a schema, and
`client_schema` of what lies below it. What they say goes into the description of the tool, and the kernel
checks each call against the whole schema all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from flycore.catalog.schemas import MANY_SCHEMAS, ONE_SCHEMA
from flycore.model.json import Json, JsonObject
from flycore.server.mcp.client_rules import MAX_DEPTH, ROOT_COMBINATORS, SCHEMA_MAPS, client_faults
from flycore.server.mcp.client_schema import ListedSchema, client_schema

_ALTERNATIVES = ("anyOf", "oneOf")
_CONDITIONAL = ("if", "then", "else")
LONGEST_RULE = 1_000
"""Characters of a rule that is told as JSON. A longer one is only mentioned."""
LONGEST_TEXT = 4_000
"""Characters of all rules of one tool. The rules of a hostile schema could fill the context of a model."""
_FURTHER = "The input has to fit further rules, which the answer to an input that breaks them names."


def without_boolean_schemas(schema: JsonObject) -> JsonObject:
    """Return the schema with `{}` for each `true` and `{"not": {}}` for each `false`, at every depth.

    The meaning is the same, but several clients and APIs of models refuse boolean schemas or misread them.
    `additionalProperties` and `unevaluated…` stay as they are, because booleans are usual there.
    """
    return {key: _member(key, value) for key, value in schema.items()}


def _member(key: str, value: Json) -> Json:
    if key in ONE_SCHEMA:
        return _schema(value)
    if key in MANY_SCHEMAS and isinstance(value, list):
        return [_schema(item) for item in value]
    if key in SCHEMA_MAPS and isinstance(value, Mapping):
        return {name: _schema(item) for name, item in value.items()}
    if key == "additionalProperties" and isinstance(value, Mapping):
        return _schema(value)
    return value


def _schema(value: Json) -> Json:
    if value is True:
        return {}
    if value is False:
        return {"not": {}}
    return without_boolean_schemas(value) if isinstance(value, dict) else value


def listed_input(schema: JsonObject) -> ListedSchema:
    """Return the schema that a tool is listed with, and sentences for its description."""
    listed = client_schema(_without_root_combinators(schema))
    # A schema that breaks a rule all the same would end every request of a client, not only these calls.
    if client_faults("tool", listed.schema):
        return ListedSchema({"type": "object"}, (_FURTHER,))
    return listed


def _without_root_combinators(schema: JsonObject) -> JsonObject:
    # Properties that only an alternative names are listed as well: a model knows of no others.
    named = _properties_of({key: value for key, value in schema.items() if key != "properties"})
    kept = {key: value for key, value in schema.items() if key not in ROOT_COMBINATORS}
    own = _mapping(schema.get("properties"))
    if named.keys() - own.keys():
        kept["properties"] = {**named, **own}
    return {**kept, "type": "object"}


def listed_output_schema(schema: JsonObject) -> JsonObject:
    """Return the schema that outputs are listed with; each output that fits the whole schema fits it."""
    kept = {key: value for key, value in schema.items() if key not in ROOT_COMBINATORS}
    # Without the alternatives, the properties that they name would count as unevaluated.
    if len(kept) < len(schema):
        kept.pop("unevaluatedProperties", None)
    return without_boolean_schemas(kept)


def rule_text(schema: JsonObject) -> str:
    """Return in sentences what the combinators at the root of the schema say; empty where there are none."""
    told: list[str] = []
    length = 0
    for sentence in _rules(schema):
        length += len(sentence)
        if length > LONGEST_TEXT:
            return " ".join([*told, _FURTHER])
        told.append(sentence)
    return " ".join(told)


def _rules(schema: JsonObject) -> Iterable[str]:
    for key in _ALTERNATIVES:
        if key in schema:
            names = _alternatives(schema[key])
            only = "exactly one of: " if key == "oneOf" else ""
            yield f"Needs {only}{names}." if names else _as_json({key: schema[key]})
    if "if" in schema:
        yield _conditional(schema)
    for part in _list(schema.get("allOf")):
        told = isinstance(part, dict) and set(part) <= set(_CONDITIONAL) | set(_ALTERNATIVES)
        if told and isinstance(part, dict):
            yield from _rules(part)
        else:
            yield _as_json(part)
    for key in ("not", "enum", "const", "dependentSchemas", "dependentRequired"):
        if key in schema:
            yield _as_json({key: schema[key]})


def _conditional(schema: JsonObject) -> str:
    condition = _condition(schema["if"])
    then, otherwise = _consequence(schema.get("then", True)), _consequence(schema.get("else", True))
    if condition is None or then is None or otherwise is None:
        return _as_json({key: schema[key] for key in _CONDITIONAL if key in schema})
    sentences = [f"If {condition}: {then}."] if then else []
    sentences += [f"If not ({condition}): {otherwise}."] if otherwise else []
    return " ".join(sentences)


def _condition(part: Json) -> str | None:
    """Return a condition about given properties and their values in words; None for any other condition."""
    if not isinstance(part, dict) or not set(part) <= {"properties", "required", "type"}:
        return None
    words, properties = [], _mapping(part.get("properties"))
    for name, value in properties.items():
        if not isinstance(value, dict) or len(value) != 1 or not set(value) <= {"const", "enum"}:
            return None
        values = _list(value.get("enum")) if "enum" in value else [value["const"]]
        words.append(f"{name} is {_any_of(json.dumps(one, ensure_ascii=False) for one in values)}")
    words += [f"{name} is given" for name in _names(part.get("required")) if name not in properties]
    return " and ".join(words) or None


def _consequence(part: Json) -> str | None:
    """Return in words what has to hold; empty for nothing, None for what has no words here."""
    if part is True:
        return ""
    if not isinstance(part, dict) or not set(part) <= {"required", "properties", "anyOf"}:
        return None
    properties = _mapping(part.get("properties"))
    if any(value is not False for value in properties.values()):
        return None
    words = []
    if names := _names(part.get("required")):
        words.append(f"needs {' and '.join(names)}")
    if "anyOf" in part:
        if not (alternatives := _alternatives(part["anyOf"])):
            return None
        words.append(f"needs {alternatives}")
    if properties:
        words.append(f"takes no {_any_of(properties)}")
    return "; ".join(words)


def _alternatives(parts: Json) -> str:
    """Return the alternatives that only name required properties, such as `path or url`; else nothing."""
    listed = _list(parts)
    if not listed or not all(isinstance(part, dict) and set(part) == {"required"} for part in listed):
        return ""
    return _any_of(" with ".join(_names(part["required"])) for part in listed if isinstance(part, dict))


def _any_of(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _as_json(rule: Json) -> str:
    text = json.dumps(rule, ensure_ascii=False)
    if len(text) > LONGEST_RULE:
        return _FURTHER
    return f"The input has to match this JSON Schema as well: {text}"


def _properties_of(part: JsonObject, depth: int = 0) -> JsonObject:
    """Return each property that the schema or a part below its combinators names.

    A property has its schema where that holds for every input that fits `part`, and only its texts otherwise.
    """
    found: JsonObject = {}
    if depth > MAX_DEPTH:
        return found
    properties = _mapping(part.get("properties"))
    groups = [{name: _schema(value) for name, value in properties.items() if value is not False}]
    groups += [_properties_of(item, depth + 1) for item in _list(part.get("allOf")) if isinstance(item, dict)]
    groups += [_of_alternatives(_list(part[key]), depth) for key in _ALTERNATIVES if key in part]
    conditional = [
        *(part.get(key) for key in ("then", "else")),
        *_mapping(part.get("dependentSchemas")).values(),
    ]
    for item in conditional:
        if isinstance(item, dict):
            groups.append({name: _texts_of(value) for name, value in _properties_of(item, depth + 1).items()})
    for group in groups:
        for name, value in group.items():
            found[name] = value if found.get(name, value) == value else _texts_of(value)
    return found


def _of_alternatives(items: list[Json], depth: int) -> JsonObject:
    items = [item for item in items if item is not False]
    described = [_properties_of(item, depth + 1) if isinstance(item, dict) else {} for item in items]
    # An alternative that forbids a property agrees with each of the others about what it holds.
    forbidden = [
        {name for name, value in _mapping(_mapping(item).get("properties")).items() if value is False}
        for item in items
    ]
    found: JsonObject = {}
    for name in dict.fromkeys(name for group in described for name in group):
        values = [
            group.get(name)
            for group, absent in zip(described, forbidden, strict=True)
            if name in group or name not in absent
        ]
        known = next(value for value in values if value is not None)
        found[name] = known if all(value == known for value in values) else _texts_of(known)
    return found


def _texts_of(value: Json) -> JsonObject:
    return {key: text for key, text in _mapping(value).items() if key in ("title", "description")}


def _mapping(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _names(value: Json) -> list[str]:
    return [name for name in _list(value) if isinstance(name, str)]
