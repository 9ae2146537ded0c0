"""Schemas as clients and model APIs take them: the same meaning, without a bare `true` or `false` in the
place of a schema, which several of them refuse or read wrongly."""

from __future__ import annotations

from collections.abc import Mapping

from flycore.model.canonical import Json, JsonObject

_ONE = frozenset(("if", "then", "else", "not", "items", "contains", "propertyNames"))
_LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))


def portable(schema: JsonObject) -> JsonObject:
    """The schema with `{}` and `{"not": {}}` where it says `true` and `false`, at every depth.

    `additionalProperties` and `unevaluated…` are left as they are: a boolean is what is usual there.
    """
    return {key: _member(key, value) for key, value in schema.items()}


def _member(key: str, value: Json) -> Json:
    if key in _ONE:
        return _schema(value)
    if key in _LISTS and isinstance(value, list):
        return [_schema(item) for item in value]
    if key in _NAMED and isinstance(value, Mapping):
        return {name: _schema(item) for name, item in value.items()}
    if key == "additionalProperties" and isinstance(value, Mapping):
        return _schema(value)
    return value


def _schema(value: Json) -> Json:
    if value is True:
        return {}
    if value is False:
        return {"not": {}}
    return portable(value) if isinstance(value, dict) else value
