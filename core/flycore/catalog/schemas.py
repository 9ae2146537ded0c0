"""How much work a schema can make of one value. A few lines of `$ref` can double it with each of them: such a
schema would hold up whoever checks a value against it, and no real tool has one."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from flycore.model.base import Value
from flycore.model.json import Json, JsonObject, canonical_json, digest, escape_key, pointer_keys

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator


MOST_VISITS = 50_000
"""Visits of subschemas beyond one visit of each. At this bound a check takes about a second."""
MOST_PATTERNS = 64
"""Different patterns in one schema. Each may take milliseconds to be made, and nothing else goes on then."""
LARGEST_PATTERN = 1_048_576
"""Bytes of a pattern that was made."""
_ONLY_NAMED = frozenset(("$defs", "definitions"))
"""What stands there at the top counts only where a reference leads to it."""


def too_costly(schema: Json) -> bool:
    """Whether following every `$ref` within the document visits its parts too many times. A reference back
    to where it comes from counts once: how often that is followed is the value's size, not the schema's."""
    book = _SchemaCosts(schema)
    try:
        return book.visits(schema) > MOST_VISITS + book.parts
    except RecursionError:
        return True


def patterns(schema: Json) -> frozenset[str]:
    """Every text in it that may be made into a pattern."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            own, named = part.get("pattern"), part.get("patternProperties")
            found.update((own,) if isinstance(own, str) else ())
            found.update(named if isinstance(named, dict) else ())
        waiting.extend(_children(part))
    return frozenset(found)


class _SchemaCosts:
    """What is known of one document: its anchors, and what each part costs."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self._anchors: dict[str, Json] = {}
        self._known: dict[int, int] = {}
        self.parts = 0
        waiting = [root]
        while waiting:
            part = waiting.pop()
            self.parts += 1
            if isinstance(part, dict):
                names = (part.get("$anchor"), part.get("$dynamicAnchor"))
                self._anchors.update((name, part) for name in names if isinstance(name, str))
            waiting.extend(_children(part))

    def visits(self, part: Json) -> int:
        """Visits of the part and of everything below it; a part that is being counted is 0."""
        if not isinstance(part, dict | list):
            return 1
        known = self._known.get(id(part))
        if known is not None:
            return known
        self._known[id(part)] = 0
        used = part
        if part is self._root and isinstance(part, dict):
            used = {key: inner for key, inner in part.items() if key not in _ONLY_NAMED}
        total = 1 + sum(self.visits(inner) for inner in _children(used))
        if isinstance(part, dict):
            references = (part.get("$ref"), part.get("$dynamicRef"))
            total += sum(self.visits(self._target(to)) for to in references if isinstance(to, str))
        self._known[id(part)] = total
        return total

    def _target(self, reference: str) -> Json:
        """What a reference within the document points to; None where nothing is known to be."""
        _, sharp, place = reference.partition("#")
        place = unquote(place)
        if not sharp or not place.startswith("/"):
            return self._anchors.get(place, self._root if reference == "#" else None)
        at = self._root
        for name in pointer_keys(place):
            if isinstance(at, dict):
                at = at.get(name)
            elif isinstance(at, list) and name.isascii() and name.isdigit() and int(name) < len(at):
                at = at[int(name)]
            else:
                return None
        return at


def _children(part: Json) -> Iterator[Json]:
    if isinstance(part, list):
        yield from part
    elif isinstance(part, dict):
        yield from part.values()


# Inputs and outputs against JSON Schema 2020-12: what is wrong, where, all of it.
#
# Nothing is ever retrieved: a `$ref` to a file or an address makes the schema unusable. Patterns run in
# linear time. Validators are built at first use and kept by the schema's digest. The library's own texts
# quote whole values; here a message holds at most a short piece of one.


EXCERPT = 40
"""Characters of a value that a message may quote."""
MESSAGE = 300
VIOLATIONS = 200
"""More are counted, not listed."""
KEPT = 4_096
"""Validators kept; the least lately used goes first."""
KEPT_PATTERNS = 512
"""Patterns in all that are kept: one may take a megabyte."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
ONE_SCHEMA = frozenset(("if", "then", "else", "not", "items", "contains", "propertyNames"))
"""Keywords whose value is a schema."""
ONE_SCHEMA_OR_BOOLEAN = frozenset(("additionalProperties", "unevaluatedItems", "unevaluatedProperties"))
"""The same, where a bare true or false is what people write."""
MANY_SCHEMAS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
"""Keywords whose value is a list of schemas."""
NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs"))
"""Keywords whose value is an object of schemas by name."""
_MASK = "\x00"
_ALTERNATIVES = "fits none, or more than one, of the alternatives"


class Violation(Value, frozen=True, kw_only=True):
    """One thing that is wrong with a value."""

    pointer: str
    """JSON pointer of the place, `""` for the whole value."""
    message: str


class UnusableSchema(ValueError):
    """The schema cannot be used; the text says why."""


def check_input(schema: JsonObject, value: JsonObject) -> tuple[JsonObject, tuple[Violation, ...]]:
    """The input with defaults filled in, and everything that is wrong with it. An unusable schema is
    a violation of its own: an input that cannot be checked is not accepted."""
    try:
        canonical_json(value)
    except (ValueError, TypeError, RecursionError) as problem:
        return value, (
            Violation(pointer="", message=f"is not JSON that every program reads: {_why(problem)}"),
        )
    filled = _fill_object(schema, value)
    return filled, _check(schema, filled)


def check_output(schema: JsonObject, value: Json) -> tuple[Violation, ...]:
    """Everything that is wrong with an output; nothing where the schema is empty."""
    return _check(schema, value) if schema else ()


def check_schema(schema: JsonObject) -> tuple[str, ...]:
    """Why the schema cannot be used; nothing where it can."""
    try:
        _validator(schema)
    except UnusableSchema as problem:
        return (str(problem),)
    return ()


def accepts(schema: JsonObject, value: Json) -> bool:
    """Whether the value passes; False for a schema that cannot be used."""
    return not _check(schema, value)


def fill_defaults(schema: Json, value: Json) -> Json:
    """The value with the defaults of absent object properties, in objects and arrays that are there.

    Only `properties` and `items` are followed, not references and alternatives: what is filled in must
    be plain from reading the schema. The value itself is not changed.
    """
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        return _fill_object(schema, value)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        return [fill_defaults(items, item) for item in value]
    return value


def _why(problem: Exception) -> str:
    if isinstance(problem, UnicodeError):
        return "a string holds half of a surrogate pair"
    return (
        "it is too deep"
        if isinstance(problem, RecursionError)
        else "a number or a value JSON has no word for"
    )


def _fill_object(schema: JsonObject, value: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return value
    filled = dict(value)
    for name, rule in properties.items():
        if name in filled:
            filled[name] = fill_defaults(rule, filled[name])
        elif isinstance(rule, dict) and "default" in rule:
            filled[name] = rule["default"]
    return filled


_validators: OrderedDict[str, Validator] = OrderedDict()
_weights: dict[str, int] = {}
"""How many patterns those of `_validators` hold that hold any."""
_keeping = threading.Lock()
"""Schemas are read in several threads."""
_by_object: dict[int, tuple[JsonObject, Validator]] = {}
"""The same by the very object, which is held, so that its number stays its own. No schema is ever changed."""


def _check(schema: JsonObject, value: Json) -> tuple[Violation, ...]:
    try:
        validator = _validator(schema)
        if validator.is_valid(value):
            return ()
        found = [_violation(error) for error in validator.iter_errors(value)]
    except UnusableSchema as problem:
        return (Violation(pointer="", message=f"the tool's own schema cannot be used: {problem}"[:MESSAGE]),)
    except (ValueError, TypeError, RecursionError) as problem:
        return (Violation(pointer="", message=f"cannot be checked: {type(problem).__name__}"),)
    listed = tuple(dict.fromkeys(found[:VIOLATIONS]))
    if len(found) > VIOLATIONS:
        more = Violation(pointer="", message=f"and {len(found) - VIOLATIONS} more")
        return (*listed, more)
    return listed


def _validator(schema: JsonObject) -> Validator:
    held = _by_object.get(id(schema))
    if held is not None:
        return held[1]
    validator = _by_digest(schema)
    if len(_by_object) >= KEPT:
        _by_object.clear()
    _by_object[id(schema)] = schema, validator
    return validator


def _by_digest(schema: JsonObject) -> Validator:
    try:
        key = digest(schema)
    except (ValueError, TypeError, RecursionError) as problem:
        raise UnusableSchema("it is no JSON") from problem
    with _keeping:
        known = _validators.get(key)
        if known is not None:
            _validators.move_to_end(key)
            return known
    made, count = _build(schema), len(patterns(schema))
    with _keeping:
        if count and sum(_weights.values()) + count > KEPT_PATTERNS:
            _forget()
        _validators[key] = made
        if count:
            _weights[key] = count
        if len(_validators) > KEPT:
            oldest, _ = _validators.popitem(last=False)
            _weights.pop(oldest, None)
    return made


def _forget() -> None:
    """Keep no validator that holds patterns."""
    for key in _weights:
        del _validators[key]
    _weights.clear()
    _by_object.clear()


def _build(schema: JsonObject) -> Validator:
    import jsonschema_rs

    if schema.get("$schema", DIALECT) != DIALECT:
        raise UnusableSchema(f"its $schema is not {DIALECT}")
    if too_costly(schema):
        raise UnusableSchema("its references repeat its parts too many times")
    if len(patterns(schema)) > MOST_PATTERNS:
        raise UnusableSchema(f"it has more than {MOST_PATTERNS} patterns")
    try:
        return jsonschema_rs.Draft202012Validator(
            schema,
            retriever=_refuse,
            mask=_MASK,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=LARGEST_PATTERN),
        )
    except jsonschema_rs.ValidationError as problem:
        raise UnusableSchema(_message(problem)[:MESSAGE]) from problem
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as problem:
        raise UnusableSchema(str(problem).splitlines()[0][:MESSAGE]) from problem


def _refuse(address: str) -> Json:
    raise LookupError(f"nothing is fetched for a $ref; write {address[:EXCERPT]} below $defs instead")


def _violation(error: ValidationError) -> Violation:
    return Violation(pointer=_pointer(error), message=_message(error)[:MESSAGE])


def _pointer(error: ValidationError) -> str:
    return "".join(f"/{escape_key(step)}" for step in error.instance_path)[:MESSAGE]


def _message(error: ValidationError) -> str:
    """The library's sentence with the value's place taken by a short piece of it."""
    kind = error.kind.name
    if kind == "falseSchema":
        return "is not allowed here together with the other fields"
    if kind in ("anyOf", "oneOf"):
        ways = [_alternative(errors) for errors in getattr(error.kind, "context", ())]
        return "fits none of these: " + "; or ".join(way for way in ways if way) if ways else _ALTERNATIVES
    text = error.message.replace(_MASK, excerpt(error.instance)).strip()
    return text.partition("\n")[0]


def _alternative(errors: list[ValidationError]) -> str:
    """Why one alternative does not fit, in its first two findings."""
    return " and ".join(f"{_pointer(error)} {_message(error)}".strip() for error in errors[:2])


def excerpt(value: object) -> str:
    """A value in at most a few words: a short piece of a string, the kind of anything that holds others."""
    if isinstance(value, dict):
        return "the object"
    if isinstance(value, list):
        return "the array"
    text = json.dumps(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1]}…"
