"""Schemas as clients and model APIs take them: the same meaning, without a bare `true` or `false` in the
place of a schema, which several of them refuse or read wrongly."""

from __future__ import annotations

from collections.abc import Mapping

from flycore.catalog.schemas import MANY_SCHEMAS, NAMED_SCHEMAS, ONE_SCHEMA
from flycore.model.json import Json, JsonObject

_SCHEMA_MAP_KEYS = NAMED_SCHEMAS | {"definitions"}  # as drafts before 2020-12 name `$defs`


def without_boolean_schemas(schema: JsonObject) -> JsonObject:
    """The schema with `{}` and `{"not": {}}` where it says `true` and `false`, at every depth.

    `additionalProperties` and `unevaluated…` are left as they are: a boolean is what is usual there.
    """
    return {key: _member(key, value) for key, value in schema.items()}


def _member(key: str, value: Json) -> Json:
    if key in ONE_SCHEMA:
        return _schema(value)
    if key in MANY_SCHEMAS and isinstance(value, list):
        return [_schema(item) for item in value]
    if key in _SCHEMA_MAP_KEYS and isinstance(value, Mapping):
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
