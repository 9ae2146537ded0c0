"""Checks inputs and outputs against JSON Schema 2020-12, and reports everything that is wrong, and where.

Nothing is ever fetched: a `$ref` to a file or an address makes a schema unusable. Patterns run in linear
time. Validators are built at first use and kept by the schema's digest. The library's messages quote whole
values; the messages here hold at most a short piece of one.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from flycore.model.base import Value
from flycore.model.json import Json, JsonObject, canonical_json, digest, escape_key, pointer_keys
from flycore.model.json_pieces import weight
from flycore.model.large_values import LARGE_VALUES

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator


# The cost of a schema. Each line of `$ref` can double the work of the line before it, so a few lines could
# keep the kernel busy for hours. No real tool has such a schema.

MOST_VISITS = 50_000
"""Visits of subschemas beyond one visit of each. At this limit a check takes about a second."""
MOST_PATTERNS = 64
"""Different patterns in one schema. Compiling one may take milliseconds, in which nothing else runs."""
LARGEST_PATTERN = 1_048_576
"""Bytes of a compiled pattern."""
_ONLY_NAMED = frozenset(("$defs", "definitions"))
"""Schemas below these keys of the root count only where a reference leads to them."""


def visits_of(schema: Json) -> int | None:
    """Return the visits of subschemas that one part of a value takes at most; None where following every
    `$ref` within the document visits its parts too many times."""
    # A reference back to one of its own parents counts once: how often that is followed depends on the value,
    # not on the schema.
    costs = _SchemaCosts(schema)
    try:
        visits = costs.visits(schema)
    except RecursionError:
        return None
    return visits if visits <= MOST_VISITS + costs.parts else None


def patterns(schema: Json) -> frozenset[str]:
    """Return every text in the schema that may be compiled as a pattern."""
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
    """The anchors of one schema document, and the cost of each of its parts."""

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
        """Return the number of visits of the part and everything below it; 0 for a part that is being
        counted."""
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
        """Return what a reference within the document points to; None where it points to nothing known."""
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


# Checking values.


EXCERPT = 40
"""Characters of a value that a message may quote."""
MESSAGE = 300
VIOLATIONS = 100
"""Violations that are listed."""
MOST_VISITS_HERE = 200_000
"""Visits of subschemas, over all parts of a value, that a check in this process may take; they take some
20 milliseconds, in which nothing else runs."""
PLAIN_CHARACTERS = 4_096
"""Characters of a string that cost as much as one visit, where no pattern looks at them."""
MOST_LISTED_HERE = 5_000
"""The same for listing violations, of which each takes some microseconds."""
KEPT = 4_096
"""Validators that are kept; beyond, the least recently used is dropped."""
KEPT_PATTERNS = 512
"""Compiled patterns that are kept in all: one may take a megabyte."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
ONE_SCHEMA = frozenset(("if", "then", "else", "not", "items", "contains", "propertyNames"))
"""Keywords whose value is a schema."""
ONE_SCHEMA_OR_BOOLEAN = frozenset(("additionalProperties", "unevaluatedItems", "unevaluatedProperties"))
"""Keywords whose value is a schema, and for which people usually write a bare true or false."""
MANY_SCHEMAS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
"""Keywords whose value is a list of schemas."""
NAMED_SCHEMAS = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs"))
"""Keywords whose value is an object of schemas by name."""
_MASK = "\x00"
_ALTERNATIVES = "fits none, or more than one, of the alternatives"


class Violation(Value, frozen=True, kw_only=True):
    """One fault of a value."""

    pointer: str
    """JSON pointer of the faulty part; `""` for the whole value."""
    message: str


class UnusableSchema(ValueError):
    """A schema cannot be used; the message says why."""


def check_input(schema: JsonObject, value: JsonObject) -> tuple[JsonObject, tuple[Violation, ...]]:
    """Return the input with defaults filled in, and its violations. An unusable schema is a violation, too:
    an input that cannot be checked is not accepted."""
    try:
        canonical_json(value)
    except (ValueError, TypeError, RecursionError) as problem:
        return value, (
            Violation(pointer="", message=f"is not JSON that every program reads: {_why(problem)}"),
        )
    filled = _fill_object(schema, value)
    return filled, _check(schema, filled)


def needs_process(schema: JsonObject, value: Json) -> bool:
    """Return whether a check of the value is done in a process of its own, and so must not be made on an
    event loop."""
    try:
        return _check_is_costly(_validator(schema), value)
    except UnusableSchema:
        return False


def check_output(schema: JsonObject, value: Json) -> tuple[Violation, ...]:
    """Return the violations of an output; none where the schema is empty."""
    return _check(schema, value) if schema else ()


def check_schema(schema: JsonObject) -> tuple[str, ...]:
    """Return why the schema cannot be used; nothing where it can."""
    try:
        _validator(schema)
    except UnusableSchema as problem:
        return (str(problem),)
    return ()


def accepts(schema: JsonObject, value: Json) -> bool:
    """Return whether the schema accepts the value; False for a schema that cannot be used."""
    try:
        held = _validator(schema)
        if _check_is_costly(held, value):
            return not _check(schema, value)
        return held.validator.is_valid(value)
    except (UnusableSchema, ValueError, TypeError, RecursionError):
        return False


def fill_defaults(schema: Json, value: Json) -> Json:
    """Return a copy of the value with the defaults of absent object properties filled in.

    Only `properties` and `items` are followed, not references and alternatives, so that a reader of the
    schema can see what is filled in. Objects and arrays that are absent are not created.
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


class _HeldValidator(NamedTuple):
    """A validator, with what one part of a value costs it."""

    validator: Validator
    visits: int
    patterns: int


_validators: OrderedDict[str, _HeldValidator] = OrderedDict()
_lock = threading.Lock()
"""Guards the dictionary above: schemas are read in several threads."""
_by_object: dict[int, tuple[JsonObject, _HeldValidator]] = {}
"""The validators by the id of the schema object, without computing a digest. The schema is stored beside its
validator, so that its id is not reused. No schema object is ever changed."""


def _check_is_costly(held: _HeldValidator, value: Json, most: int = MOST_VISITS_HERE) -> bool:
    """Return whether a check may take more than `most` visits, or the value is large."""
    # A pattern runs over every character, in linear time but up to 100 times slower than the rest.
    per_characters = max(1, 64 // held.patterns) if held.patterns else PLAIN_CHARACTERS
    limit = min(LARGE_VALUES, max(1, most // held.visits))
    return weight(value, limit, per_characters) >= limit


def _check(schema: JsonObject, value: Json) -> tuple[Violation, ...]:
    try:
        held = _validator(schema)
        if not _check_is_costly(held, value):
            if held.validator.is_valid(value):
                return ()
            # Listing costs far more than checking: each violation has its path and a copy of its value.
            if not _check_is_costly(held, value, MOST_LISTED_HERE):
                return list_violations(schema, value)
        from flycore.catalog.check_process import check_in_process  # it imports this module

        return check_in_process(schema, value)
    except UnusableSchema as problem:
        return (Violation(pointer="", message=f"the tool's own schema cannot be used: {problem}"[:MESSAGE]),)
    except (ValueError, TypeError, RecursionError) as problem:
        return (Violation(pointer="", message=f"cannot be checked: {type(problem).__name__}"),)


def first_violation(schema: JsonObject, value: Json) -> Violation | None:
    """Return one violation of the value, None where it fits. Raises UnusableSchema, and what the validator
    raises for a value that is not JSON."""
    import jsonschema_rs

    try:
        _validator(schema).validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return _violation(error)
    return None


def list_violations(schema: JsonObject, value: Json) -> tuple[Violation, ...]:
    """Return the first violations of the value. Raises like `first_violation`."""
    errors = _validator(schema).validator.iter_errors(value)
    listed = tuple(dict.fromkeys(_violation(error) for error in islice(errors, VIOLATIONS)))
    if next(errors, None) is None:
        return listed
    return (*listed, Violation(pointer="", message=f"and more: only the first {VIOLATIONS} are listed"))


def _validator(schema: JsonObject) -> _HeldValidator:
    held = _by_object.get(id(schema))
    if held is not None:
        return held[1]
    validator = _by_digest(schema)
    if len(_by_object) >= KEPT:
        _by_object.clear()
    _by_object[id(schema)] = schema, validator
    return validator


def _by_digest(schema: JsonObject) -> _HeldValidator:
    try:
        key = digest(schema)
    except (ValueError, TypeError, RecursionError) as problem:
        raise UnusableSchema("it is not JSON") from problem
    with _lock:
        known = _validators.get(key)
        if known is not None:
            _validators.move_to_end(key)
            return known
    # Built outside the lock, since that may take milliseconds; two threads may build the same one, and the
    # second replaces the first.
    made = _build(schema)
    with _lock:
        if (
            made.patterns
            and sum(held.patterns for held in _validators.values()) + made.patterns > KEPT_PATTERNS
        ):
            _drop_patterns()
        _validators[key] = made
        if len(_validators) > KEPT:
            _validators.popitem(last=False)
    return made


def _drop_patterns() -> None:
    """Drop every validator that has patterns."""
    for key in [key for key, held in _validators.items() if held.patterns]:
        del _validators[key]
    _by_object.clear()


def _build(schema: JsonObject) -> _HeldValidator:
    import jsonschema_rs

    if schema.get("$schema", DIALECT) != DIALECT:
        raise UnusableSchema(f"its $schema is not {DIALECT}")
    visits, count = visits_of(schema), len(patterns(schema))
    if visits is None:
        raise UnusableSchema("its references repeat its parts too many times")
    if count > MOST_PATTERNS:
        raise UnusableSchema(f"it has more than {MOST_PATTERNS} patterns")
    try:
        validator = jsonschema_rs.Draft202012Validator(
            schema,
            retriever=_refuse,
            mask=_MASK,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=LARGEST_PATTERN),
        )
    except jsonschema_rs.ValidationError as problem:
        raise UnusableSchema(_message(problem)[:MESSAGE]) from problem
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as problem:
        raise UnusableSchema(str(problem).splitlines()[0][:MESSAGE]) from problem
    return _HeldValidator(validator, visits, count)


def _refuse(address: str) -> Json:
    raise LookupError(f"nothing is fetched for a $ref; write {address[:EXCERPT]} below $defs instead")


def _violation(error: ValidationError) -> Violation:
    return Violation(pointer=_pointer(error), message=_message(error)[:MESSAGE])


def _pointer(error: ValidationError) -> str:
    return "".join(f"/{escape_key(step)}" for step in error.instance_path)[:MESSAGE]


def _message(error: ValidationError) -> str:
    """Return the library's sentence, with the value in it replaced by a short piece of it."""
    kind = error.kind.name
    if kind == "falseSchema":
        return "is not allowed here together with the other fields"
    if kind in ("anyOf", "oneOf"):
        ways = [_alternative(errors) for errors in getattr(error.kind, "context", ())]
        return "fits none of these: " + "; or ".join(way for way in ways if way) if ways else _ALTERNATIVES
    text = error.message.replace(_MASK, excerpt(error.instance)).strip()
    return text.partition("\n")[0]


def _alternative(errors: list[ValidationError]) -> str:
    """Return why one alternative does not fit, by its first two errors."""
    return " and ".join(f"{_pointer(error)} {_message(error)}".strip() for error in errors[:2])


def excerpt(value: object) -> str:
    """Return a value in a few words: a short piece of a string, or the kind of an object or array."""
    if isinstance(value, dict):
        return "the object"
    if isinstance(value, list):
        return "the array"
    text = json.dumps(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1]}…"
