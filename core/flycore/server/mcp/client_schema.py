"""Schemas in the form that every model's functions interface takes; `client_rules` has the rules.

What a schema cannot say in that form is left out, so a listed schema takes at least what the tool takes. It
is told in words instead: at the description of the property, or in that of the tool. The kernel checks each
call against the whole schema all the same.
"""

from __future__ import annotations

from typing import NamedTuple

from flycore.catalog.schemas import MANY_SCHEMAS, ONE_SCHEMA, ONE_SCHEMA_OR_BOOLEAN
from flycore.model.json import Json, JsonObject, canonical_json
from flycore.server.mcp.client_rules import (
    BASE_KEYWORDS,
    DIALECT,
    KNOWN_FORMATS,
    LOOKAROUND,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_PROPERTIES,
    PROPERTY_NAME,
    SCHEMA_MAPS,
    is_plain_enum,
    leads_inside,
    mapping,
    takes,
)

MAX_WORDS = 300
"""Characters of what one place says in words."""
_ABBREVIATED = "The input has further members than the schema shows; the answer to a wrong input names them."
_REVERSING = ("not", "if", "oneOf", "contains")
"""Keywords that may refuse more where the schema below them takes more."""
_DATA = ("default", "examples", "enum", "const", "example")
"""Keywords whose value is no schema."""
_SHAPE = ("type", "description", "title")
"""What is left of a schema that lies too deep."""


class ListedSchema(NamedTuple):
    """The schema to list, and sentences for the description of the tool."""

    schema: JsonObject
    words: tuple[str, ...] = ()


def client_schema(schema: JsonObject) -> ListedSchema:
    """Return the schema of an object in a form that keeps every rule about what lies below its root.

    The combinators of its root have been taken out before.
    """
    for depth in (MAX_DEPTH, 6, 4, 2, 1):
        made = _Projection(schema, depth)
        listed, words = made.root()
        if len(canonical_json(listed)) <= MAX_BYTES:
            return ListedSchema(listed, (*words, *((_ABBREVIATED,) if made.is_cut else ())))
    return ListedSchema({"type": "object"}, (_ABBREVIATED,))


class _Projection:
    """One walk through a schema."""

    def __init__(self, schema: JsonObject, max_depth: int) -> None:
        self._schema, self._max_depth = schema, max_depth
        self._losses = 0
        """Number of constraints that were left out so far."""
        self.is_cut = False
        """Whether a part was left out for its depth or its number of properties."""

    def root(self) -> tuple[JsonObject, tuple[str, ...]]:
        """Return the whole schema, and what its root says in words."""
        words: list[str] = []
        listed = self._object(self._schema, 0, words)
        # A reference is kept only where it leads to a part that is still there.
        return _without_dangling(listed, listed), tuple(words)

    def _part(self, value: Json, depth: int) -> Json:
        if isinstance(value, bool):
            return {} if value else {"not": {}}
        if not isinstance(value, dict):
            return value
        if depth >= self._max_depth:
            self.is_cut |= len(value.keys() - set(_SHAPE)) > 0
            self._losses += 1
            return _shape_of(value, depth)
        words: list[str] = []
        listed = self._object(value, depth, words)
        if words:
            own = listed.get("description")
            listed["description"] = " ".join([*([own] if isinstance(own, str) and own else []), *words])
        return listed

    def _object(self, part: JsonObject, depth: int, words: list[str]) -> JsonObject:
        listed: JsonObject = {}
        reversed_keys: list[str] = []
        for key, value in part.items():
            before = self._losses
            if key == "$schema" and value == DIALECT and part is self._schema:
                listed[key] = value
            elif key in BASE_KEYWORDS:
                self._losses += key in ("$dynamicRef", "$recursiveRef")
            elif key == "$ref" and not leads_inside(value, self._schema):
                self._losses += 1
            elif key == "pattern" and isinstance(value, str) and LOOKAROUND.search(value):
                self._tell(words, f"Matches the pattern {value}")
            elif key == "format" and value not in KNOWN_FORMATS:
                self._tell(words, f"Format: {value}.")
            elif key in ("enum", "const"):
                self._enum(listed, part, words)
            elif key == "required" and isinstance(value, list):
                listed[key] = list(value)
            else:
                listed[key] = self._member(key, value, depth)
                reversed_keys += [key] * (key in _REVERSING and self._losses > before)
        before = self._losses
        self._properties(listed, words)
        _drop_reversed(listed, reversed_keys)
        if self._losses > before or reversed_keys:
            for key in ("unevaluatedProperties", "unevaluatedItems"):
                listed.pop(key, None)
        if takes(listed, "array") and "items" not in listed:
            listed["items"] = {}
        return listed

    def _member(self, key: str, value: Json, depth: int) -> Json:
        if key in ONE_SCHEMA or (key in ONE_SCHEMA_OR_BOOLEAN and isinstance(value, dict)):
            return self._part(value, depth + 1)
        if key in MANY_SCHEMAS and isinstance(value, list):
            return [self._part(item, depth + 1) for item in value]
        if key in SCHEMA_MAPS and isinstance(value, dict):
            return {name: self._part(item, depth + 1) for name, item in value.items()}
        return value

    def _enum(self, listed: JsonObject, part: JsonObject, words: list[str]) -> None:
        self._losses += "const" in part and "enum" in part
        if "enum" in listed:
            return
        values = part["enum"] if "enum" in part else [part["const"]]
        if is_plain_enum(values):
            listed["enum"] = values
        else:
            shown = values if isinstance(values, list) else []
            self._tell(words, f"One of: {', '.join(canonical_json(one) for one in shown)}.")

    def _properties(self, listed: JsonObject, words: list[str]) -> None:
        """Keep the properties and the patterns of names that may be listed, and list what is required."""
        properties = dict(mapping(listed.get("properties")))
        patterns = dict(mapping(listed.get("patternProperties")))
        unfit = [name for name in properties if PROPERTY_NAME.fullmatch(name) is None]
        over = list(properties)[MAX_PROPERTIES:]
        lost = {*unfit, *over, *(pattern for pattern in patterns if LOOKAROUND.search(pattern))}
        if lost:
            self.is_cut |= bool(over)
            self._losses += 1
            listed.pop("additionalProperties", None)  # it would forbid what is not listed any more
            listed.pop("unevaluatedProperties", None)
            self._tell(words, f"Also takes: {', '.join(sorted(lost))}.")
            for key, members in (("properties", properties), ("patternProperties", patterns)):
                if key in listed:
                    listed[key] = {name: value for name, value in members.items() if name not in lost}
        required = listed.get("required")
        if isinstance(required, list):
            named = mapping(listed.get("properties"))
            wanted = [name for name in required if isinstance(name, str) and name not in lost]
            fit = [name for name in wanted if name in named or PROPERTY_NAME.fullmatch(name)]
            missing: JsonObject = {name: {} for name in fit if name not in named}
            if missing:
                listed["properties"] = {**named, **missing}
            self._losses += len(fit) < len(required)
            listed["required"] = list[Json](fit)

    def _tell(self, words: list[str], sentence: str) -> None:
        self._losses += 1
        words.append(sentence if len(sentence) <= MAX_WORDS else f"{sentence[: MAX_WORDS - 1]}…")


def _shape_of(part: JsonObject, depth: int) -> JsonObject:
    """Return what is listed of a schema at the greatest depth."""
    kept = {key: part[key] for key in _SHAPE if key in part}
    if not takes(kept, "array"):
        return kept
    # An array has to say what its items are, which lies one deeper.
    if depth < MAX_DEPTH:
        return {**kept, "items": {}}
    return {key: value for key, value in kept.items() if key != "type"}


def _drop_reversed(listed: JsonObject, keys: list[str]) -> None:
    """Take out what would refuse more now, because a schema below it takes more than before."""
    for key in keys:
        alternatives = listed.pop(key, None)
        if key == "oneOf" and "anyOf" not in listed:
            listed["anyOf"] = alternatives
        elif key == "if":
            listed.pop("then", None)
            listed.pop("else", None)
        elif key == "contains":
            listed.pop("maxContains", None)


def _without_dangling(value: Json, root: JsonObject) -> JsonObject:
    """Return the schema without references to parts that were left out."""
    listed = _checked(value, root)
    return listed if isinstance(listed, dict) else {}


def _checked(value: Json, root: JsonObject) -> Json:
    if isinstance(value, list):
        return [_checked(item, root) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item if key in _DATA else _checked(item, root)
        for key, item in value.items()
        if key != "$ref" or not isinstance(item, str) or leads_inside(item, root)
    }
