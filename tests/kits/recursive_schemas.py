"""Schemas that refer back to themselves in every way, and small deep values for them, from a seed."""

from __future__ import annotations

import json
import random
from typing import Any

MOST_BYTES = 4_096
"""Bytes of a value as JSON."""
_NAMES = ("a", "b", "c")
_KINDS = ("list", "object", "fields", "items")


_NODE = {"$ref": "#/$defs/n"}
_ARRAY = {"type": "array", "items": _NODE}
DOUBLING: dict[str, Any] = {
    "type": "object",
    "properties": {"a": _NODE},
    "$defs": {"n": {"anyOf": [{"type": "string"}, _ARRAY, _ARRAY]}},
}
"""Whether a value fits is found at once. To explain why not takes a gigabyte for 15 levels."""


def without_end() -> dict[str, Any]:
    """A schema that accepts `{"a": "x"}`, which is not found out in any reasonable time: each of its levels
    asks twice what the levels below have evaluated."""
    definitions: dict[str, Any] = {
        f"d{level}": {
            "anyOf": [{"$ref": f"#/$defs/d{level + 1}"}],
            "unevaluatedProperties": {"type": "string"},
        }
        for level in range(40)
    }
    return {"$ref": "#/$defs/d0", "$defs": definitions | {"d40": {"type": "object"}}}


def nested(depth: int, inner: Any = 1) -> Any:
    """The value within that many arrays."""
    for _ in range(depth):
        inner = [inner]
    return inner


class _Author:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._definitions = self._random.randint(1, 4)
        self._is_alike = self._random.random() < 0.5
        """Whether each definition has alternatives that are alike."""
        self._containers = self._random.choice([("list",), ("object",), ("list", "object")])
        """The kinds of values that these alternatives lead through."""

    def schema(self) -> dict[str, Any]:
        """An input schema of which every definition may lead to every other one."""
        made = self._alike if self._is_alike else self._rule
        definitions = {
            f"n{number}": {"$dynamicAnchor": f"m{number}", **made(0)} for number in range(self._definitions)
        }
        return {"type": "object", "properties": {"a": self._reference()}, "$defs": definitions}

    def value(self) -> dict[str, Any]:
        """An object whose field `a` is nested deeply, and that is no larger than `MOST_BYTES`. It goes as
        deep as alternatives that are alike do, and mostly fits none of them at its end."""
        choose = self._random
        inner: Any = choose.choice([1, None, True, 0.5, "x", "", "ab" * 20, [], {}])
        kinds, depths = choose.choice([("list",), ("object",), _KINDS]), [1, 3, 6, 10, 16, 24, 40, 55]
        if self._is_alike:
            kinds, depths = self._containers, [8, 16, 24, 40, 55]
        for _ in range(choose.choice(depths)):
            kind = choose.choice(kinds)
            if kind == "list":
                outer: Any = [inner]
            elif kind == "object":
                outer = {choose.choice(_NAMES): inner}
            elif kind == "items":
                outer = [inner] * choose.randint(2, 3)
            else:
                outer = dict.fromkeys(choose.sample(_NAMES, choose.randint(1, 3)), inner)
            if len(json.dumps({"a": outer})) > MOST_BYTES:
                break
            inner = outer
        return {"a": inner}

    def _reference(self) -> dict[str, Any]:
        number = self._random.randrange(self._definitions)
        way = self._random.random()
        if self._is_alike or way < 0.8:
            return {"$ref" if way < 0.8 else "$dynamicRef": f"#/$defs/n{number}"}
        return {"$dynamicRef": f"#m{number}"} if way < 0.95 else {"$ref": "#"}

    def _alike(self, within: int) -> dict[str, Any]:
        """Alternatives that are alike and lead back, each by another way or the same."""
        choose = self._random
        ways: list[dict[str, Any]] = []
        for _ in range(choose.randint(2, 3)):
            below = [self._reference() for _ in range(2)]
            arrays = [{"items": below[0]}, {"prefixItems": [below[0]]}, {"contains": below[0]}]
            objects = [
                {"additionalProperties": below[1]},
                {"patternProperties": {".": below[1]}},
                {"properties": dict.fromkeys(_NAMES, below[1])},
                {"propertyNames": {"maxLength": 1}, "unevaluatedProperties": below[1]},
            ]
            array, of_object = {"type": "array"} | choose.choice(arrays), choose.choice(objects)
            ways += [array] if "list" in self._containers else []
            ways += [{"type": "object"} | of_object] if "object" in self._containers else []
        keyword = choose.choice(["anyOf", "anyOf", "oneOf", "allOf"])
        if keyword == "allOf":
            return {"allOf": [{"anyOf": [{"type": "string"}, way]} for way in ways]}
        return {keyword: [{"type": "string"}, *ways]}

    def _rule(self, within: int) -> dict[str, Any]:
        """One subschema of several keywords."""
        rule: dict[str, Any] = {}
        if self._random.random() < 0.4:
            rule["type"] = self._random.choice(["string", "array", "object", ["array", "string"], "integer"])
        for _ in range(self._random.randint(1, 2 if within else 3)):
            rule |= self._keyword(within + 1)
        return rule

    def _below(self, within: int) -> Any:
        """A subschema of a part below the one that is checked."""
        way = self._random.random()
        if way < 0.75 or within > 3:
            return self._reference()
        return self._rule(within) if way < 0.95 else self._random.choice([True, False, {"type": "string"}])

    def _beside(self, within: int) -> Any:
        """A subschema of the same part. It seldom is a mere reference, which would lead nowhere."""
        if within > 3:
            return {"items": self._reference(), "additionalProperties": self._reference()}
        return self._reference() if self._random.random() < 0.08 else self._rule(within)

    def _keyword(self, within: int) -> dict[str, Any]:
        choose, below, beside = self._random, self._below, self._beside
        keyword = choose.choice(_KEYWORDS)
        match keyword:
            case "anyOf" | "oneOf" | "allOf":
                made = [beside(within) for _ in range(choose.randint(2, 3))]
                # Alternatives that are alike are what doubles the work.
                return {keyword: [*made, *([made[0]] if choose.random() < 0.5 else [])]}
            case "not":
                return {"not": beside(within)}
            case "if":
                return {"if": beside(within), "then": beside(within), "else": beside(within)}
            case "prefixItems":
                return {"prefixItems": [below(within) for _ in range(choose.randint(1, 3))]}
            case "properties":
                return {"properties": {name: below(within) for name in choose.sample(_NAMES, 2)}}
            case "patternProperties":
                return {"patternProperties": {choose.choice(["^[a-c]$", "a|b", "."]): below(within)}}
            case "dependentSchemas":
                return {"dependentSchemas": {choose.choice(_NAMES): beside(within)}}
            case "propertyNames":
                return {"propertyNames": {"enum": list(_NAMES)}}
            case "required":
                return {"required": choose.sample(_NAMES, 1)}
            case "limits":
                return choose.choice(
                    [{"maxItems": 1}, {"minItems": 2}, {"maxLength": 1}, {"uniqueItems": True}]
                )
        return {keyword: below(within)}


_KEYWORDS = (
    *(
        "anyOf",
        "oneOf",
        "allOf",
        "anyOf",
        "not",
        "if",
        "contains",
        "items",
        "items",
        "prefixItems",
        "properties",
    ),
    *("additionalProperties", "patternProperties", "dependentSchemas", "propertyNames", "required", "limits"),
    *("unevaluatedItems", "unevaluatedProperties"),
)


def recursive_case(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a schema and an input for it. Equal seeds give equal ones."""
    author = _Author(seed)
    return author.schema(), author.value()
