"""A tool's input schema as fields. Pure: nothing is fetched, and what a field cannot hold is a JSON field.

The fields only help to write an input. Whether it fits is said by the kernel's own validator, over the
whole schema, so a keyword that is not drawn here is still checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import unquote

from flycore.model.json import Json, JsonObject, pointer_keys

MAX_FIELDS = 120
"""A form with more is one JSON field."""
MAX_DEPTH = 6
"""Groups within groups that are drawn; what lies deeper is a JSON field."""
MAX_STEPS = 4_000
"""Schemas looked at while one form is made: references may branch without end."""
LONG_TEXT_LENGTH = 5_000
"""A text that may have so many characters is written on several lines."""
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
"""Keywords that say what a value looks like. A branch with none of them only narrows, and is not drawn."""


class FieldKind(Enum):
    """What a field holds."""

    TEXT = auto()
    NUMBER = auto()
    CHOICE = auto()
    """One of `options`: an enum, a constant, true or false, null."""
    OBJECT = auto()
    ARRAY = auto()
    UNION = auto()
    """One of `branches`."""
    JSON = auto()
    """Any value, written as JSON."""


class Missing(Enum):
    """No value, where null is one."""

    MISSING = auto()


MISSING = Missing.MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaField:
    """One place of an input. Texts are as the schema has them: from outside, to be made safe when drawn."""

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
    """Whether an object says that it takes other keys too."""


class _SchemaTooLargeError(Exception):
    """This schema makes no form of a size that a person can use."""


def schema_fields(schema: Json) -> SchemaField:
    """The whole form: an object or a union of objects, else one JSON field. The more fields there are, the
    fewer groups within groups are drawn."""
    for depth in range(MAX_DEPTH, 0, -1):
        try:
            field = _FieldBuilder(schema).field(schema, "", True, depth)
        except (_SchemaTooLargeError, RecursionError):
            continue
        ways = field.branches if field.kind is FieldKind.UNION else (field,)
        if any(way.kind is FieldKind.OBJECT for way in ways):
            return field
        break
    return SchemaField(kind=FieldKind.JSON, required=True)


class _FieldBuilder:
    """One way down the schema, with a bound on its steps."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self._steps = 0
        self._fields = 0

    def field(self, schema: Json, name: str, required: bool, depth: int) -> SchemaField:
        """The field for a schema."""
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
        ways = self._branch_schemas(schema)
        if ways and depth > 0:
            kind, options = FieldKind.UNION, ()
            branches = tuple(self.field(way, "", True, depth - 1) for way in ways)
        elif kind is FieldKind.OBJECT and depth > 0 and (properties := _properties(schema)) is not None:
            needed = schema.get("required")
            needed = needed if isinstance(needed, list) else []
            fields = tuple(
                self.field(rule, key, key in needed, depth - 1) for key, rule in properties.items()
            )
        elif kind is FieldKind.ARRAY and depth > 0 and "prefixItems" not in schema and "items" in schema:
            item = self.field(schema["items"], "", True, depth - 1)
        elif ways or kind in (FieldKind.OBJECT, FieldKind.ARRAY):
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
        """The branches to choose from, each with what holds for all; none where nothing is to choose."""
        types = schema.get("type")
        if isinstance(types, list) and "enum" not in schema and "const" not in schema:
            return [{**schema, "type": kind} for kind in types if kind in _JSON_TYPES]
        if "enum" in schema or "const" in schema:
            return []
        for word in ("oneOf", "anyOf"):
            found = schema.get(word)
            if not isinstance(found, list) or not 0 < len(found) <= MAX_FIELDS:
                continue
            if not all(isinstance(way, dict) and any(key in way for key in _SHAPE_KEYWORDS) for way in found):
                continue
            base = {key: value for key, value in schema.items() if key not in (word, "default", "title")}
            ways = [self._dereferenced(way) for way in found]
            return [self._merged(base, way) for way in ways if way is not None]
        return []

    def _dereferenced(self, schema: Json) -> JsonObject | None:
        """The schema with its references within the document followed and `allOf` laid together."""
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
        """Two schemas that both hold, as far as fields can show it; the second speaks last."""
        made = {**first, **second}
        ours, theirs = _properties(first), _properties(second)
        if ours and theirs:
            self._steps += len(ours)
            made["properties"] = {**ours, **theirs}
        needed, also = first.get("required"), second.get("required")
        if isinstance(needed, list) and isinstance(also, list):
            made["required"] = [*needed, *also]
        return made

    def _reference_target(self, reference: Json) -> Json:
        """What a reference within this document points to; None for any other."""
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
    """Whether an object's keys are known: some are named, or there can be none."""
    properties = _properties(schema)
    return bool(properties) or (schema.get("additionalProperties") is False and properties is not None)


def _properties(schema: Mapping[str, Json]) -> JsonObject | None:
    """The named keys; None where there are too many to draw, or they are no object."""
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
