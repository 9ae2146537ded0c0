"""Turns the input schema of a tool into the fields of a form. A part that no field fits becomes a JSON field.

The fields only help to write an input. The kernel's own validator checks it against the whole schema, so a
keyword that is not drawn here still counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from urllib.parse import unquote

import msgspec

from flycore.model.json import Json, JsonObject, pointer_keys

MAX_FIELDS = 120
"""A form that would have more fields is one JSON field."""
MAX_DEPTH = 6
"""Levels of groups within groups that are drawn; a deeper group is a JSON field."""
MAX_STEPS = 4_000
"""Schemas that are read for one form, because references may branch without end."""
LONG_TEXT_LENGTH = 5_000
"""A text that may have this many characters is written on several lines."""
_JSON_TYPES = ("string", "number", "integer", "boolean", "null", "object", "array")
_BOUND_LABELS = (
    ("minLength", "at least {} character"),
    ("maxLength", "at most {} character"),
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("multipleOf", "a multiple of {}"),
    ("minItems", "at least {} item"),
    ("maxItems", "at most {} item"),
)
_SHAPE_KEYWORDS = ("type", "properties", "enum", "const", "items", "$ref", "allOf", "anyOf", "oneOf")
"""Keywords that describe a value. A branch without any of them only restricts it, and is not drawn."""


class FieldKind(Enum):
    """The kind of value that a field holds."""

    TEXT = auto()
    NUMBER = auto()
    CHOICE = auto()
    """One of `options`: an enum, a constant, a boolean, or null."""
    OBJECT = auto()
    ARRAY = auto()
    UNION = auto()
    """One of `branches`."""
    JSON = auto()
    """Any value, written as JSON."""


class Missing(Enum):
    """The mark for no value, since null is a value."""

    MISSING = auto()


MISSING = Missing.MISSING


class SchemaField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of an input. Its texts come from the schema as they are, and have to be made safe when
    drawn."""

    kind: FieldKind
    name: str = ""
    title: str = ""
    about: str = ""
    bounds: tuple[str, ...] = ()
    required: bool = False
    default: Json | Missing = MISSING
    secret: bool = False
    long: bool = False
    options: tuple[Json, ...] = ()
    fields: tuple[SchemaField, ...] = ()
    item: SchemaField | None = None
    branches: tuple[SchemaField, ...] = ()
    open: bool = False
    """Whether the schema of an object allows other keys in so many words."""


class _SchemaTooLargeError(Exception):
    """The schema makes a form that is too large for a person to use."""


def schema_fields(schema: Json) -> SchemaField:
    """The form for a schema: an object or a union of objects, otherwise one JSON field."""
    # A schema with too many fields is tried again with fewer levels of groups.
    for depth in range(MAX_DEPTH, 0, -1):
        try:
            field = _FieldBuilder(schema).field(schema, "", True, depth)
        except (_SchemaTooLargeError, RecursionError):
            continue
        branches = field.branches if field.kind is FieldKind.UNION else (field,)
        if any(branch.kind is FieldKind.OBJECT for branch in branches):
            return field
        break
    return SchemaField(kind=FieldKind.JSON, required=True)


class _FieldBuilder:
    """Builds the fields of one schema, and stops when it takes too many steps."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self._steps = 0
        self._fields = 0

    def field(self, schema: Json, name: str, required: bool, depth: int) -> SchemaField:
        """Build the field for a part of the schema. Raises _SchemaTooLargeError."""
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise _SchemaTooLargeError
        plain = self._dereferenced(schema)
        if plain is None:
            return SchemaField(kind=FieldKind.JSON, name=name, required=required)
        return self._shaped(plain, name, required, depth)

    def _shaped(self, schema: JsonObject, name: str, required: bool, depth: int) -> SchemaField:
        kind, options = _kind(schema)
        fields: tuple[SchemaField, ...] = ()
        item: SchemaField | None = None
        branches: tuple[SchemaField, ...] = ()
        schemas = self._branch_schemas(schema)
        if schemas and depth > 0:
            kind, options = FieldKind.UNION, ()
            branches = tuple(self.field(branch, "", True, depth - 1) for branch in schemas)
        elif kind is FieldKind.OBJECT and depth > 0 and (properties := _properties(schema)) is not None:
            required_keys = schema.get("required")
            required_keys = required_keys if isinstance(required_keys, list) else []
            fields = tuple(
                self.field(rule, key, key in required_keys, depth - 1) for key, rule in properties.items()
            )
        elif kind is FieldKind.ARRAY and depth > 0 and "prefixItems" not in schema and "items" in schema:
            item = self.field(schema["items"], "", True, depth - 1)
        elif schemas or kind in (FieldKind.OBJECT, FieldKind.ARRAY):
            kind = FieldKind.JSON
        return SchemaField(
            kind=kind,
            name=name,
            title=_text_keyword(schema, "title"),
            about=_text_keyword(schema, "description"),
            bounds=tuple(_bound_labels(schema)),
            required=required,
            default=schema.get("default", MISSING),
            secret=schema.get("writeOnly") is True,
            long=kind is FieldKind.TEXT and _is_long(schema),
            options=options,
            fields=fields,
            item=item,
            branches=branches,
            open=bool(schema.get("additionalProperties")) or "patternProperties" in schema,
        )

    def _branch_schemas(self, schema: JsonObject) -> list[JsonObject]:
        """The branches to choose from, each merged with what holds for all; none where there is no choice."""
        types = schema.get("type")
        if isinstance(types, list) and "enum" not in schema and "const" not in schema:
            return [{**schema, "type": kind} for kind in types if kind in _JSON_TYPES]
        if "enum" in schema or "const" in schema:
            return []
        for word in ("oneOf", "anyOf"):
            found = schema.get(word)
            if not isinstance(found, list) or not 0 < len(found) <= MAX_FIELDS:
                continue
            if not all(
                isinstance(each, dict) and any(key in each for key in _SHAPE_KEYWORDS) for each in found
            ):
                continue
            base = {key: value for key, value in schema.items() if key not in (word, "default", "title")}
            plain = [self._dereferenced(each) for each in found]
            return [self._merged(base, each) for each in plain if each is not None]
        return []

    def _dereferenced(self, schema: Json) -> JsonObject | None:
        """The schema with its references within the document followed and its `allOf` merged; None where a
        reference leads elsewhere."""
        # References may form a circle: the count of steps ends it.
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _SchemaTooLargeError
        if not isinstance(schema, dict) or "$dynamicRef" in schema:
            return None
        if "$ref" in schema:
            target = self._dereferenced(self._reference_target(schema["$ref"]))
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return None if target is None else self._dereferenced(self._merged(target, rest))
        parts = schema.get("allOf")
        if not isinstance(parts, list):
            return schema
        whole = {key: value for key, value in schema.items() if key != "allOf"}
        for part in parts:
            plain = self._dereferenced(part)
            if plain is None:
                return None
            whole = self._merged(plain, whole)
        return whole

    def _merged(self, first: JsonObject, second: JsonObject) -> JsonObject:
        """One schema for two that both hold, as far as fields can show it; the second one wins."""
        made = {**first, **second}
        ours, theirs = _properties(first), _properties(second)
        if ours and theirs:
            self._steps += len(ours)
            made["properties"] = {**ours, **theirs}
        required, more = first.get("required"), second.get("required")
        if isinstance(required, list) and isinstance(more, list):
            made["required"] = [*required, *more]
        return made

    def _reference_target(self, reference: Json) -> Json:
        """What a reference within this document points to; None for any other reference."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        at: Json = self._root
        for name in pointer_keys(unquote(reference[1:])):
            if isinstance(at, dict):
                at = at.get(name)
            elif isinstance(at, list) and name.isascii() and name.isdigit() and int(name) < len(at):
                at = at[int(name)]
            else:
                return None
        return at if reference == "#" or reference.startswith("#/") else None


def _kind(schema: JsonObject) -> tuple[FieldKind, tuple[Json, ...]]:
    if "const" in schema:
        return FieldKind.CHOICE, (schema["const"],)
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return FieldKind.CHOICE, tuple(options)
    match schema.get("type"):
        case "string":
            return FieldKind.TEXT, ()
        case "number" | "integer":
            return FieldKind.NUMBER, ()
        case "boolean":
            return FieldKind.CHOICE, (True, False)
        case "null":
            return FieldKind.CHOICE, (None,)
        case "array":
            return FieldKind.ARRAY, ()
        case "object":
            return (FieldKind.OBJECT if _has_fields(schema) else FieldKind.JSON), ()
        case None if _has_fields(schema) and _properties(schema):
            return FieldKind.OBJECT, ()
    return FieldKind.JSON, ()


def _has_fields(schema: JsonObject) -> bool:
    """Whether the keys of an object are known: some are named, or none is allowed."""
    properties = _properties(schema)
    return bool(properties) or (schema.get("additionalProperties") is False and properties is not None)


def _properties(schema: Mapping[str, Json]) -> JsonObject | None:
    """The named keys of an object; None where there are too many to draw, or `properties` is no object."""
    properties = schema.get("properties", {})
    return properties if isinstance(properties, dict) and len(properties) <= MAX_FIELDS else None


def _text_keyword(schema: JsonObject, key: str) -> str:
    words = schema.get(key)
    return words if isinstance(words, str) else ""


def _is_long(schema: JsonObject) -> bool:
    most, default = schema.get("maxLength"), schema.get("default")
    return (isinstance(most, int) and most >= LONG_TEXT_LENGTH) or (
        isinstance(default, str) and "\n" in default
    )


def _bound_labels(schema: JsonObject) -> Iterator[str]:
    for key, words in _BOUND_LABELS:
        bound = schema.get(key)
        if isinstance(bound, int | float) and not isinstance(bound, bool):
            counted = key.startswith(("minL", "maxL", "minI", "maxI")) and bound != 1
            yield words.format(bound) + ("s" if counted else "")
    if schema.get("type") == "integer":
        yield "whole"
    if schema.get("uniqueItems") is True:
        yield "no item twice"
    for key, words in (("format", "{}"), ("pattern", "pattern {}")):
        if text := _text_keyword(schema, key):
            yield words.format(text)
