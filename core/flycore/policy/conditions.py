"""The conditions of a rule: name patterns, the caller, the input and the expiry.

Each condition matches, does not match, or is *unknown*. It is unknown where the catalog describes a tool that
nobody has called yet, and where the caller could not be identified. Name patterns are case-sensitive; `*`
stands for any characters, and every other character for itself.
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
    check_schema,
    fits,
)
from flycore.model.base import Value
from flycore.model.call import Caller
from flycore.model.caller import UNIDENTIFIED
from flycore.model.diagnostics import nearest
from flycore.model.json import Json, JsonObject, pointer_join

MAX_PATTERN = 256
"""Characters of a pattern; a longer one is a fault of its rule."""


def matches(pattern: str, name: str) -> bool:
    """Return whether the whole name matches the pattern."""
    # No regular expression: each piece between two stars is searched once, from left to right, so a pattern
    # from a cloned file cannot make the match slow.
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    *middle, last = rest
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def near_miss(pattern: str, names: frozenset[str]) -> str | None:
    """Return the name that a pattern without `*` misses only by its case, or by `_` in place of `.`."""
    if "*" in pattern or pattern in names:
        return None
    plain = pattern.casefold().replace("_", ".")
    return next((name for name in sorted(names) if name.casefold().replace("_", ".") == plain), None)


def nearest_patterns(pattern: str, names: frozenset[str]) -> tuple[str, ...]:
    """Return what a pattern that matches none of the names may have meant, likeliest first."""
    near = near_miss(pattern, names)
    if near is not None:
        return (near,)
    families = {f"{name.partition('.')[0]}.*" for name in names if "." in name}
    return nearest(pattern, sorted(families if "*" in pattern else names))


def misspelt(pattern: str, names: frozenset[str]) -> str | None:
    """Return the name, or the family such as `web.*`, of which a pattern that matches none is a misspelling:
    by its case, by `_` in place of `.`, or by one letter or the order of two."""
    near = nearest_patterns(pattern, names)
    plain = pattern.casefold()
    return next((name for name in near if name == near_miss(pattern, names) or _one_off(plain, name)), None)


def _one_off(text: str, name: str) -> bool:
    start = _alike(text, name)
    rest, other = text[start:], name[start:]
    end = _alike(rest[::-1], other[::-1])
    rest, other = rest[: len(rest) - end], other[: len(other) - end]
    # A number at the end of a name tells tools apart.
    swapped = len(rest) == 2 and rest == other[::-1]
    return swapped or (len(rest) <= 1 and len(other) <= 1 and not (rest + other).isdecimal())


def _alike(text: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((at for at, (one, two) in pairs if one != two), min(len(text), len(other)))


PLAIN_KEYWORDS = frozenset(
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
"""The keywords of `when` whose value holds no schema. `format` and the `content…` keywords are left out on
purpose: a validator treats them as annotations, but whoever reads the rule takes them for conditions."""


class PolicyCall(Value, frozen=True, kw_only=True):
    """The facts of a call that rules are matched against. None stands for a fact that is not known yet."""

    tool: str
    input: JsonObject | None = None
    """The validated input, with defaults filled in."""
    caller: Caller | None = None
    now: float | None = None
    """Unix time, seconds."""


class Match(StrEnum):
    """Whether a rule applies to a call."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    EXPIRED = "expired"
    """It would apply, but it has expired."""


def match_caller(pattern: str, caller: Caller | None) -> Match:
    """Match the caller: a pattern with a slash against the executable's path, any other against the program's
    name. What a client says of itself is not used."""
    if not pattern:
        return Match.YES
    # A sidecar acts for whoever called it: an allow for a program must not count for it, and a deny must not
    # fall away.
    if caller is None or caller.is_sidecar:
        return Match.UNKNOWN
    identity = caller.executable if "/" in pattern else caller.program
    if matches(pattern, identity):
        return Match.YES
    # A caller that could not be identified is not a caller that differs: a deny for it must not fall away.
    return Match.UNKNOWN if not identity or caller.program in UNIDENTIFIED else Match.NO


def match_input(when: JsonObject | None, input: JsonObject | None) -> Match:
    """Match the input against the schema. UNKNOWN where there is no input, or it cannot be checked at all."""
    if when is None:
        return Match.YES
    if input is None:
        return Match.UNKNOWN
    # A deny must not fall away because a caller has chosen an input that cannot be checked.
    return {True: Match.YES, False: Match.NO, None: Match.UNKNOWN}[fits(when, input)]


def match_time(expires: float | None, now: float | None) -> Match:
    """Match the time: EXPIRED from the moment `expires` on. Both are Unix time in seconds."""
    if expires is None:
        return Match.YES
    if now is None:
        return Match.UNKNOWN
    return Match.EXPIRED if now >= expires else Match.YES


def combine_matches(*parts: Match) -> Match:
    """Return the match of several conditions together: NO before EXPIRED before UNKNOWN before YES."""
    return next((match for match in (Match.NO, Match.EXPIRED, Match.UNKNOWN) if match in parts), Match.YES)


def read_expiry(text: Json) -> float | None:
    """Return the Unix time of an ISO 8601 moment that names its time zone; None for anything else."""
    if not isinstance(text, str) or len(text) > 64:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.timestamp() if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def schema_faults(when: Json) -> Iterator[tuple[str, str]]:
    """Yield why the condition cannot be used, as (pointer below `when`, sentence)."""
    if not isinstance(when, dict):
        yield "", "`when` is not a JSON Schema object"
        return
    unknown = list(unknown_keywords(when, ""))
    yield from unknown
    if not unknown:
        yield from (("", f"`when` cannot be used: {why}") for why in check_schema(when))


def unknown_keywords(schema: Json, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield the keys that no validator acts on, as (pointer, sentence)."""
    # JSON Schema ignores keys it does not know, so a misspelt keyword would make the condition accept
    # everything.
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
        elif key not in PLAIN_KEYWORDS | MANY_SCHEMAS | NAMED_SCHEMAS:
            yield place, f"{key!r} is not a keyword that `when` may use"


def optional_fields(when: JsonObject) -> tuple[str, ...]:
    """Return the fields that the condition names but accepts an input without: in JSON Schema, `properties`
    does not make a field required."""
    properties, required = when.get("properties"), when.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return ()
    return tuple(name for name in properties if name not in required)
