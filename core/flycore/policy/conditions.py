"""What a rule may ask of a call besides the tool's name: who calls, with what input, until when.

Each condition is answered with yes, no or *unknown*. Unknown is an answer of its own, because the catalog
speaks of a tool before anyone has called it, and a caller cannot always be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum

from flycore.catalog.schemas import (
    MANY_SCHEMAS,
    NAMED_SCHEMAS,
    ONE_SCHEMA,
    ONE_SCHEMA_OR_BOOLEAN,
    accepts,
    check_schema,
)
from flycore.model.base import Value
from flycore.model.call import Caller
from flycore.model.caller import UNKNOWN_PROGRAM
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.policy.patterns import matches

NO_SCHEMA = frozenset(
    [
        "type",
        "enum",
        "const",
        "minLength",
        "maxLength",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
        "required",
        "dependentRequired",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$schema",
        "$id",
        "$anchor",
        "$ref",
        "$comment",
        "$dynamicRef",
        "$dynamicAnchor",
    ]
)
"""`format` and `content…` are not among them: a validator takes them for remarks, a reader for conditions."""
_ANYTHING: JsonObject = {"type": "object"}


class PolicyCall(Value, frozen=True, kw_only=True):
    """What rules look at. None stands for what is not known (yet)."""

    tool: str
    input: JsonObject | None = None
    """Validated, defaults filled in."""
    caller: Caller | None = None
    now: float | None = None
    """Unix time, seconds."""


class Match(StrEnum):
    """Whether a rule is about a call."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    EXPIRED = "expired"
    """It would be, were its time not over."""


def match_caller(pattern: str, caller: Caller | None) -> Match:
    """A pattern with a slash is about the executable's path, any other about the program's name. What the
    client says of itself is not looked at."""
    if not pattern:
        return Match.YES
    if caller is None:
        return Match.UNKNOWN
    shown = caller.executable if "/" in pattern else caller.program
    if matches(pattern, shown):
        return Match.YES
    return Match.UNKNOWN if not shown or caller.program == UNKNOWN_PROGRAM else Match.NO


def match_input(when: JsonObject | None, input: JsonObject | None) -> Match:
    """Whether the schema accepts the input; UNKNOWN also where the input cannot be checked at all."""
    if when is None:
        return Match.YES
    if input is None:
        return Match.UNKNOWN
    if accepts(when, input):
        return Match.YES
    return Match.NO if accepts(_ANYTHING, input) else Match.UNKNOWN


def match_time(expires: float | None, now: float | None) -> Match:
    """YES while it is in time, EXPIRED from the given moment on."""
    if expires is None:
        return Match.YES
    if now is None:
        return Match.UNKNOWN
    return Match.EXPIRED if now >= expires else Match.YES


def combine_matches(*parts: Match) -> Match:
    """One answer from several: NO before EXPIRED before UNKNOWN before YES."""
    return next((fit for fit in (Match.NO, Match.EXPIRED, Match.UNKNOWN) if fit in parts), Match.YES)


def read_expiry(text: Json) -> float | None:
    """Unix time of an ISO 8601 moment that names its zone; None for anything else."""
    if not isinstance(text, str) or len(text) > 64:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.timestamp() if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def schema_faults(when: Json) -> Iterator[tuple[str, str]]:
    """(pointer below `when`, why the condition cannot be used)."""
    if not isinstance(when, dict):
        yield "", "`when` is no JSON Schema object"
        return
    strange = list(unknown_keywords(when, ""))
    yield from strange
    if not strange:
        yield from (("", f"`when` cannot be used: {why}") for why in check_schema(when))


def unknown_keywords(schema: Json, pointer: str) -> Iterator[tuple[str, str]]:
    """Keys that no validator would act on: a misspelt one would make the condition say nothing."""
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        place = pointer_join(pointer, key)
        if key in ONE_SCHEMA or key in ONE_SCHEMA_OR_BOOLEAN:
            yield from unknown_keywords(value, place)
        elif key in MANY_SCHEMAS and isinstance(value, list):
            for index, item in enumerate(value):
                yield from unknown_keywords(item, pointer_join(place, index))
        elif key in NAMED_SCHEMAS and isinstance(value, dict):
            for name, item in value.items():
                yield from unknown_keywords(item, pointer_join(place, name))
        elif key not in NO_SCHEMA | MANY_SCHEMAS | NAMED_SCHEMAS:
            yield place, f"{key!r} is no keyword that `when` is checked by"


def optional_fields(when: JsonObject) -> tuple[str, ...]:
    """Fields the condition speaks of and is satisfied without: `properties` says nothing of an absent one."""
    properties, required = when.get("properties"), when.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return ()
    return tuple(name for name in properties if name not in required)
