"""The inputs and schemas of suite S15: what is dear to read, to check or to keep, made once and reused."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

LIMIT = 1_000_000
"""Bytes of an input just below the limit of a call."""

SHAPES = (
    "one long string",
    "long array",
    "array of arrays",
    "array of strings",
    "many keys",
    "keys in no order",
    "deep nesting",
    "many violations",
    "numbers of many digits",
    "escapes only",
    "combining marks only",
    "a backtracking string",
)

SCHEMAS: dict[str, dict[str, Any]] = {
    "anything": {"type": "object"},
    "strings": {"type": "object", "properties": {"a": {"items": {"type": "string"}}}},
    "unique items": {"type": "object", "properties": {"a": {"uniqueItems": True}}},
    "many contains": {
        "type": "object",
        "properties": {"a": {"allOf": [{"contains": {"const": f"c{number}"}} for number in range(100)]}},
    },
    "fans of references": {
        "type": "object",
        "properties": {"a": {"items": {"$ref": "#/$defs/d0"}}},
        "$defs": {
            **{
                f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2, "minLength": level}
                for level in range(8)
            },
            "d8": {"type": "string", "pattern": "^(a|b|ab)*c$"},
        },
    },
    "patterns that backtrack": {
        "type": "object",
        "properties": {
            "a": {"type": "string", "allOf": [{"pattern": f"^(a+)+{number}$"} for number in range(20)]}
        },
    },
}


@cache
def shape(name: str, size: int = LIMIT) -> str:
    """The JSON text of an object `{"a": …}` of that shape, of about `size` bytes."""
    return f'{{"a": {_value(name, size)}}}'


def _value(name: str, size: int) -> str:
    match name:
        case "one long string":
            return f'"{"x" * size}"'
        case "long array" | "many violations":
            return f"[{'0,' * (size // 2)}0]"
        case "array of arrays":
            return f"[{'[],' * (size // 3)}[]]"
        case "many keys":
            return "{" + ",".join(f'"{number}":0' for number in range(size // 9)) + "}"
        case "array of strings":
            return "[" + '"",' * (size // 3) + '""]'
        case "keys in no order":
            return "{" + ",".join(f'"{number * 7_919 % 1_000_003}":0' for number in range(size // 11)) + "}"
        case "deep nesting":
            return "[" * (size // 2) + "]" * (size // 2)
        case "numbers of many digits":
            return f"[{','.join(['9' * 10_000] * (size // 10_001 or 1))}]"
        case "escapes only":
            return '"' + "\\u0000" * (size // 6) + '"'
        case "combining marks only":
            return json.dumps("a" + "\u0301" * (size // 2), ensure_ascii=False)
        case "a backtracking string":
            return f'"{"a" * size}!"'
    raise ValueError(name)


def within_limits(name: str, size: int = LIMIT) -> str:
    """The same shape, but no more values than are read, so that the schema is what is dear."""
    most = {
        "long array": 190_000,
        "many violations": 190_000,
        "array of arrays": 59_000,
        "array of strings": 280_000,
        "many keys": 880_000,
        "keys in no order": 970_000,
    }
    return shape(name, min(size, most.get(name, size)))
