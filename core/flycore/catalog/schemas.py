"""Checks inputs and outputs against JSON Schema 2020-12, and reports everything that is wrong, and where.

Nothing is ever fetched: a `$ref` to a file or an address makes a schema unusable. Patterns run in linear
time. Validators are built at first use and kept by the schema's digest. The library's messages quote whole
values; the messages here hold at most a short piece of one.

Whether a value fits is found out before why it does not, which may cost far more. Each of the two is done in
this process only where the cost of the schema for the value, which is known before, is small; else in a
process of its own with limits of memory and time.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from flycore.model.base import Value
from flycore.model.json import Json, JsonObject, canonical_json, digest, escape_key
from flycore.model.json_pieces import weight
from flycore.model.large_values import LARGE_VALUES, is_large
from flycore.model.schema_cost import LARGEST_PATTERN, CostlySchemaError, SchemaCost, depth_of

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator


EXCERPT = 40
"""Characters of a value that a message may quote."""
MESSAGE = 300
VIOLATIONS = 100
"""Violations that are listed."""
MOST_VISITS_HERE = 400_000
"""Visits of subschemas, over all parts of a value, that a check in this process may take; they take some
5 milliseconds, in which nothing else runs."""
PLAIN_CHARACTERS = 4_096
"""Characters of a string that cost as much as one visit, where no pattern looks at them."""
MOST_EXPLAINED_HERE = 30_000
"""The same for listing violations, of which each takes some microseconds and has a copy of its part."""
COPIED_CHARACTERS = 64
"""Characters of a string that cost as much as one visit, where they are copied."""
MOST_DEFAULTS = 262_144
"""Characters and parts that the defaults of a schema may add to one value: an array of small objects has each
of them as often as it has items."""
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
_MOST_WITHIN = 2
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
    if faults := _faults(schema):
        return value, faults
    filled = _fill_object(schema, value)
    if is_large(filled):
        most = weight(value, sys.maxsize, 1) + MOST_DEFAULTS
        if weight(filled, most, 1) >= most:
            return value, (Violation(pointer="", message="the defaults of the schema make it too large"),)
    return filled, check_output(schema, filled)


def check_output(schema: JsonObject, value: Json) -> tuple[Violation, ...]:
    """Return the violations of a value; none where the schema is empty."""
    if not schema:
        return ()
    try:
        held = _validator(schema)
        if not _is_costly(held, value):
            if held.validator.is_valid(value):
                return ()
            if not _explanation_is_costly(held, value):
                return list_violations(held.validator, value)
        from flycore.catalog.check_process import check_in_process  # it imports this module

        return check_in_process(schema, value)
    except UnusableSchema:
        return _faults(schema)
    except (ValueError, TypeError, RecursionError) as problem:
        return (Violation(pointer="", message=f"cannot be checked: {type(problem).__name__}"),)


def _faults(schema: JsonObject) -> tuple[Violation, ...]:
    """Return why the schema cannot be used, as a violation of whatever is checked."""
    about = "the tool's own schema cannot be used"
    return tuple(Violation(pointer="", message=f"{about}: {why}"[:MESSAGE]) for why in check_schema(schema))


def fits(schema: JsonObject, value: Json) -> bool | None:
    """Return whether the schema accepts the value; None where that cannot be found out: the schema cannot be
    used, the value is not JSON, or the check takes too much time or memory."""
    try:
        held = _validator(schema)
        if not _is_costly(held, value):
            return held.validator.is_valid(value)
        from flycore.catalog.check_process import fits_in_process  # it imports this module

        return fits_in_process(schema, value)
    except (UnusableSchema, ValueError, TypeError, RecursionError):
        return None


def accepts(schema: JsonObject, value: Json) -> bool:
    """Return whether it is certain that the schema accepts the value."""
    return fits(schema, value) is True


def needs_process(schema: JsonObject, value: Json) -> bool:
    """Return whether `fits` and `accepts` would start a process, and so must not be called on an event
    loop."""
    try:
        return _is_costly(_validator(schema), value)
    except UnusableSchema:
        return False


def check_needs_process(schema: JsonObject, value: Json) -> bool:
    """Return the same for `check_output`, which lists what is wrong with a value that does not fit. True also
    for a schema of which no validator was built yet, since building it may take long as well."""
    if not schema:
        return False
    if not _is_built(schema):
        return True
    try:
        held = _validator(schema)
        if _is_costly(held, value):
            return True
        return _explanation_is_costly(held, value) and not held.validator.is_valid(value)
    except (UnusableSchema, ValueError, TypeError, RecursionError):
        return False


def input_needs_process(schema: JsonObject, value: JsonObject) -> bool:
    """Return the same for `check_input`."""
    # Where a check costs little, so does filling in the defaults.
    if check_needs_process(schema, value):
        return True
    return not check_schema(schema) and check_needs_process(schema, _fill_object(schema, value))


def check_schema(schema: JsonObject) -> tuple[str, ...]:
    """Return why the schema cannot be used; nothing where it can."""
    try:
        _validator(schema)
    except UnusableSchema as problem:
        return (str(problem),)
    return ()


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
    """A validator, with what a check by it costs."""

    validator: Validator
    cost: SchemaCost


_validators: OrderedDict[str, _HeldValidator] = OrderedDict()
_lock = threading.Lock()
"""Guards the dictionary above: schemas are read in several threads."""
_by_object: dict[int, tuple[JsonObject, _HeldValidator]] = {}
"""The validators by the id of the schema object, without computing a digest. The schema is stored beside its
validator, so that its id is not reused. No schema object is ever changed."""


def _is_costly(held: _HeldValidator, value: Json) -> bool:
    """Return whether the value is large, or a check of it may take too long for this process."""
    # A pattern runs over every character, in linear time but up to 100 times slower than the rest.
    characters = max(1, 64 // held.cost.patterns) if held.cost.patterns else PLAIN_CHARACTERS
    parts = weight(value, LARGE_VALUES, characters)
    return parts >= LARGE_VALUES or parts * held.cost.visits(depth_of(value)) > MOST_VISITS_HERE


def _explanation_is_costly(held: _HeldValidator, value: Json) -> bool:
    """Return the same for listing the violations of the value, which costs far more than a check."""
    parts = weight(value, LARGE_VALUES, COPIED_CHARACTERS)
    return parts >= LARGE_VALUES or parts * held.cost.explanation(depth_of(value)) > MOST_EXPLAINED_HERE


def first_violation(validator: Validator, value: Json) -> Violation | None:
    """Return one violation of the value, None where it fits. Raises what the validator raises for a value
    that is not JSON. Time and memory are bounded only by whoever calls."""
    import jsonschema_rs

    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return _violation(error)
    return None


def list_violations(validator: Validator, value: Json) -> tuple[Violation, ...]:
    """Return the first violations of the value. Raises, and is bounded, like `first_violation`."""
    errors = validator.iter_errors(value)
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


def _is_built(schema: JsonObject) -> bool:
    if id(schema) in _by_object:
        return True
    try:
        return digest(schema) in _validators
    except (ValueError, TypeError, RecursionError):
        return True  # it is found to be unusable at once


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
        patterns_held = sum(held.cost.patterns for held in _validators.values())
        if made.cost.patterns and patterns_held + made.cost.patterns > KEPT_PATTERNS:
            _drop_patterns()
        _validators[key] = made
        if len(_validators) > KEPT:
            _validators.popitem(last=False)
    return made


def _drop_patterns() -> None:
    """Drop every validator that has patterns."""
    for key in [key for key, held in _validators.items() if held.cost.patterns]:
        del _validators[key]
    _by_object.clear()


def _build(schema: JsonObject) -> _HeldValidator:
    if schema.get("$schema", DIALECT) != DIALECT:
        raise UnusableSchema(f"its $schema is not {DIALECT}")
    try:
        cost = SchemaCost(schema)
    except CostlySchemaError as problem:
        raise UnusableSchema(str(problem)) from problem
    return _HeldValidator(compile_schema(schema, refuse_address), cost)


def compile_schema(schema: JsonObject, retrieve: Callable[[str], Json]) -> Validator:
    """Return the validator of a schema whose cost is known. `retrieve` returns what lies at an address.
    Raises UnusableSchema."""
    import jsonschema_rs

    try:
        return jsonschema_rs.Draft202012Validator(
            schema,
            retriever=retrieve,
            mask=_MASK,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=LARGEST_PATTERN),
        )
    except jsonschema_rs.ValidationError as problem:
        raise UnusableSchema(_message(problem)[:MESSAGE]) from problem
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as problem:
        raise UnusableSchema(str(problem).splitlines()[0][:MESSAGE]) from problem


def refuse_address(address: str) -> Json:
    """Raise LookupError, since nothing is ever fetched."""
    raise LookupError(f"nothing is fetched for a $ref; write {address[:EXCERPT]} below $defs instead")


def _violation(error: ValidationError) -> Violation:
    return Violation(pointer=_pointer(error), message=_message(error)[:MESSAGE])


def _pointer(error: ValidationError) -> str:
    return "".join(f"/{escape_key(step)}" for step in error.instance_path)[:MESSAGE]


def _message(error: ValidationError, within: int = 0) -> str:
    """Return the library's sentence, with the value in it replaced by a short piece of it. `within` is how
    many alternatives the error lies in."""
    kind = error.kind.name
    if kind == "falseSchema":
        return "is not allowed here together with the other fields"
    if kind in ("anyOf", "oneOf"):
        # Each level has as many errors as the one above has alternatives, and a reader is done after two.
        if within == _MOST_WITHIN:
            return _ALTERNATIVES
        ways = [_alternative(errors, within + 1) for errors in getattr(error.kind, "context", ())]
        return "fits none of these: " + "; or ".join(way for way in ways if way) if ways else _ALTERNATIVES
    text = error.message.replace(_MASK, excerpt(error.instance)).strip()
    return text.partition("\n")[0]


def _alternative(errors: list[ValidationError], within: int) -> str:
    """Return why one alternative does not fit, by its first two errors."""
    return " and ".join(f"{_pointer(error)} {_message(error, within)}".strip() for error in errors[:2])


def excerpt(value: object) -> str:
    """Return a value in a few words: a short piece of a string, or the kind of an object or array."""
    if isinstance(value, dict):
        return "the object"
    if isinstance(value, list):
        return "the array"
    text = json.dumps(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1]}…"
