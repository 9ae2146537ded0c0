"""Dotted paths into a JSON value, such as `web.results.0.title`, and the projection of a value's fields."""

from __future__ import annotations

import re
from collections.abc import Sequence

from flycore.model.json import Json
from flycore.model.placeholders import ABSENT, Absence
from flycore.model.tool_exec import ResponseField

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def at_path(value: Json, path: str) -> Json | Absence:
    """Return what the path leads to; ABSENT where it leads nowhere. An empty path is the value itself.

    In a list a step is an index from 0; in an object it is a key, also where the key is a number.
    """
    for step in path.split(".") if path else ():
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return ABSENT
    return value


def project(value: Json, fields: Sequence[ResponseField]) -> Json:
    """Return an object with these fields of the value, or a list of them where the value is a list.

    A field whose path leads nowhere is left out. Without fields the value stays as it is.
    """
    if not fields:
        return value
    if isinstance(value, list):
        return [_fields_of(item, fields) for item in value]
    return _fields_of(value, fields)


def _fields_of(item: Json, fields: Sequence[ResponseField]) -> Json:
    found = {field.name: at_path(item, field.path) for field in fields}
    return {name: part for name, part in found.items() if not isinstance(part, Absence)}
