"""The cost of a schema: how much work a check of a value against it may be, known before anything is checked.

A part of a value is checked by every subschema that applies to it, and each of them may hand the parts below
it on to several others. In a schema that refers back to itself, that number can grow with every level of the
value: two alternatives that both lead back to the schema make 2 checks of the second level, 4 of the third,
and more than 10^19 of the sixty-fourth. So the bound is computed for the depth of the value, from the visits
of subschemas on the way from the whole value down to one of its innermost parts.

Only what the schema says is counted, not what a validator remembers: some versions do each check of an object
or array once, others do not, and no version remembers what it does to explain a violation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from flycore.model.json import Json, JsonObject, pointer_keys
from flycore.model.json_pieces import weight

MOST_PATTERNS = 64
"""Different patterns in one schema. Compiling one may take milliseconds, in which nothing else runs."""
LARGEST_PATTERN = 1_048_576
"""Bytes of a compiled pattern."""
MOST_VISITS = 20_000
"""Visits of subschemas by one part of a value, beyond one visit of each: each line of `$ref` can double the
work of the line before it. No real tool has such a schema."""
MOST_LEVELS = 400
"""Subschemas of which each leads to the next, from the whole value to its innermost part."""
MOST_DEPTH = 66
"""Objects and arrays within each other, up to which the cost is computed; no value that is read is deeper."""
MOST_STEPS = 100_000
"""Steps of the computation for one schema, over all depths; they take some 100 milliseconds."""
UNBOUNDED = 10**9
"""The visits if they are more than anybody could wait for, or if no bound is known."""
_CHARACTERS = 64
"""Characters of a schema's string that cost as much as one visit."""

_ALTERNATIVES = frozenset(("anyOf", "oneOf"))
_SAME_PART = frozenset(("allOf", "not", "if", "then", "else"))
"""Keywords whose schemas check the same part of the value, beside the alternatives."""
_SAME_PART_BY_NAME = frozenset(("dependentSchemas", "dependencies"))
"""The same, for keywords whose value is an object of schemas by name."""
_REFERENCES = frozenset(("$ref", "$dynamicRef"))
_EVERY_FIELD = frozenset(("additionalProperties", "propertyNames", "unevaluatedProperties"))
_EVERY_ITEM = frozenset(("items", "contains", "unevaluatedItems"))
_UNEVALUATED = frozenset(("unevaluatedItems", "unevaluatedProperties"))
_HOLD_SCHEMAS = (_ALTERNATIVES | _SAME_PART | _SAME_PART_BY_NAME | _EVERY_FIELD | _EVERY_ITEM) | {
    *("properties", "patternProperties", "prefixItems"),
}
_NOT_CHECKED = frozenset(("$defs", "definitions", "default", "description", "examples", "title", "$comment"))


class CostlySchemaError(ValueError):
    """A schema costs so much that it must not be compiled; the message says why."""

    def __init__(self, why: str = "its references repeat its parts too many times") -> None:
        super().__init__(why)


def depth_of(value: Json) -> int:
    """Return how many objects and arrays lie within each other at most."""
    depth, level = 0, [value]
    while level := [part for part in level if isinstance(part, dict | list)]:
        depth += 1
        level = [inner for part in level for inner in _children(part)]
    return depth


def part_at(root: Json, pointer: str) -> Json:
    """Return what a pointer into a document points to; None where it points to nothing."""
    at = root
    for name in pointer_keys(pointer):
        if isinstance(at, dict):
            at = at.get(name)
        elif isinstance(at, list) and name.isascii() and name.isdigit() and int(name) < len(at):
            at = at[int(name)]
        else:
            return None
    return at


class _Way(NamedTuple):
    """How a subschema is reached from the one at which a stage begins."""

    checks: int = 1
    """How often the part of the value is checked by it."""
    marks: int = 0
    """How often it is applied to find out what it has evaluated."""
    alternatives: int = 0
    """Lists of alternatives that it lies in."""
    within: tuple[int, ...] = ()
    """The ids of the subschemas on the way."""


class _Stage:
    """What one part of a value costs where a subschema is applied to it, and the subschemas that are applied
    to the parts directly below it."""

    def __init__(self) -> None:
        self.visits = 0
        self.alternatives = 0
        """Lists of alternatives within each other."""
        self.below: dict[int, Json] = {}
        """The subschemas of the parts below, by id. The counters say how often each of them is applied."""
        self._fields: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """To a field of that name, beside those for every field; less what applies to the others only."""
        self._every_field: Counter[int] = Counter()
        self._items: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._every_item: Counter[int] = Counter()

    def add_below(self, part: JsonObject, times: int) -> None:
        """Add the subschemas that a subschema applies to the parts below."""

        def add(applied: Counter[int], one: Json, count: int) -> None:
            applied[id(one)] += count * times
            self.below[id(one)] = one

        for key in _EVERY_FIELD & part.keys():
            add(self._every_field, part[key], 1)
        for one in _named(part, "patternProperties").values():
            add(self._every_field, one, 1)
        for name, one in _named(part, "properties").items():
            add(self._fields[name], one, 1)
            if "additionalProperties" in part:
                add(self._fields[name], part["additionalProperties"], -1)
        for key in _EVERY_ITEM & part.keys():
            add(self._every_item, part[key], 1)
        first = part.get("prefixItems")
        for index, one in enumerate(first if isinstance(first, list) else ()):
            add(self._items[index], one, 1)
            if "items" in part:
                add(self._items[index], part["items"], -1)

    def visits_below(self, level: dict[int, int]) -> int:
        """Return the visits of the costliest part directly below, by those of each stage."""

        def of(applied: Counter[int]) -> int:
            return sum(times * level[stage] for stage, times in applied.items())

        fields = of(self._every_field) + max((0, *map(of, self._fields.values())))
        items = of(self._every_item) + max((0, *map(of, self._items.values())))
        return max(fields, items)

    @property
    def size(self) -> int:
        """The work of `visits_below`."""
        named = (*self._fields.values(), *self._items.values())
        return 1 + len(self._every_field) + len(self._every_item) + sum(map(len, named))


class SchemaCost:
    """The cost of one schema. It is computed once for all depths, which may take a tenth of a second for a
    hostile schema. Raises CostlySchemaError."""

    def __init__(self, root: JsonObject) -> None:
        reader = _SchemaReader(root)
        self.patterns = len(reader.patterns)
        self._alternatives = max(stage.alternatives for stage in reader.stages.values())
        self._by_depth = [*_visits_by_depth(reader.stages, id(root))] if reader.is_bounded else [UNBOUNDED]

    def visits(self, depth: int) -> int:
        """Return how many visits one innermost part of a value of that depth takes at most, with those of
        the parts in which it lies."""
        return self._by_depth[min(depth, len(self._by_depth) - 1)]

    def explanation(self, depth: int) -> int:
        """Return the same for listing the violations. Each holds a copy of its part and the way to it, which
        are as long as the part is deep and the alternatives are nested."""
        return self.visits(depth) * (8 + depth + self._alternatives) // 8


def _visits_by_depth(stages: dict[int, _Stage], root: int) -> Iterator[int]:
    """Yield the visits for each depth of a value. The last one holds for all that is deeper."""
    most = min(MOST_DEPTH, MOST_STEPS // sum(stage.size for stage in stages.values()))
    level, before = {key: stage.visits for key, stage in stages.items()}, dict[int, int]()
    for _ in range(most):
        if level == before:
            return
        if level[root] >= UNBOUNDED:
            break
        yield level[root]
        before = level
        level = {
            key: min(stage.visits + stage.visits_below(before), UNBOUNDED) for key, stage in stages.items()
        }
    yield UNBOUNDED


class _SchemaReader:
    """The stages of one schema, by the ids of their subschemas. Raises CostlySchemaError."""

    def __init__(self, root: JsonObject) -> None:
        self.stages: dict[int, _Stage] = {}
        self.is_bounded = True
        self._root = root
        self._anchors: dict[str, Json] = {}
        self._own_weights: dict[int, int] = {}
        self._steps_left = MOST_VISITS
        self.patterns: set[str] = set()
        """Every text that may be compiled as a pattern."""
        self._look_through(root)
        if len(self.patterns) > MOST_PATTERNS:
            raise CostlySchemaError(f"it has more than {MOST_PATTERNS} patterns")
        try:
            self._add_stages()
        except RecursionError:
            raise CostlySchemaError from None

    def _look_through(self, root: JsonObject) -> None:
        waiting: list[Json] = [root]
        while waiting:
            part = waiting.pop()
            self._steps_left += 1
            waiting.extend(_children(part))
            if not isinstance(part, dict):
                continue
            own, named = part.get("pattern"), part.get("patternProperties")
            self.patterns.update((own,) if isinstance(own, str) else ())
            self.patterns.update(named if isinstance(named, dict) else ())
            for name in (part.get("$anchor"), part.get("$dynamicAnchor")):
                if isinstance(name, str):
                    # Which of two parts of the same name is meant depends on the validator.
                    self.is_bounded &= self._anchors.setdefault(name, part) is part
            # References below another base lead elsewhere.
            self.is_bounded &= part is root or not isinstance(part.get("$id"), str)

    def _add_stages(self) -> None:
        level: list[Json] = [self._root]
        for _ in range(MOST_LEVELS):
            following: dict[int, Json] = {}
            for part in level:
                stage = self.stages[id(part)] = _Stage()
                self._apply(stage, part, _Way())
                following |= stage.below
            level = [part for key, part in following.items() if key not in self.stages]
            if not level:
                return
        raise CostlySchemaError

    def _apply(self, stage: _Stage, part: Json, way: _Way) -> None:
        """Add what the part of the schema costs the stage's part of the value."""
        self._steps_left -= 1
        if self._steps_left < 0:
            raise CostlySchemaError
        if not isinstance(part, dict):
            stage.visits += way.checks
            return
        if id(part) in way.within:
            self.is_bounded = False
            return
        # To find out what is not evaluated yet, everything beside the keyword is applied once more, and so
        # again at each such keyword within it.
        marks = way.marks + (way.checks if _UNEVALUATED & part.keys() else 0)
        times = way.checks + marks
        if id(part) not in self._own_weights:
            self._own_weights[id(part)] = _own_weight(part)
        stage.visits += times * self._own_weights[id(part)]
        stage.add_below(part, times)
        referred = way._replace(marks=marks, within=(*way.within, id(part)))
        beside = referred._replace(checks=times)
        stage.alternatives = max(stage.alternatives, way.alternatives)
        for key, inner in part.items():
            if key in _REFERENCES and isinstance(inner, str):
                self._apply(stage, self._target(inner), referred)
            elif key in _ALTERNATIVES and isinstance(inner, list):
                for one in inner:
                    self._apply(stage, one, beside._replace(alternatives=way.alternatives + 1))
            elif key in _SAME_PART:
                for one in inner if isinstance(inner, list) else (inner,):
                    self._apply(stage, one, beside)
            elif key in _SAME_PART_BY_NAME and isinstance(inner, dict):
                for one in inner.values():
                    self._apply(stage, one, beside)

    def _target(self, reference: str) -> Json:
        """Return what a reference within the document points to; None where it points to nothing known."""
        base, _, place = reference.partition("#")
        if base and base != self._root.get("$id"):
            self.is_bounded = False
            return None
        place = unquote(place)
        return part_at(self._root, place) if place[:1] in ("", "/") else self._anchors.get(place)


def _named(part: JsonObject, key: str) -> dict[str, Any]:
    named = part.get(key)
    return named if isinstance(named, dict) else {}


def _own_weight(part: JsonObject) -> int:
    """Return what the keywords of one subschema cost that hold no schemas."""
    own = 1
    for key, inner in part.items():
        if key in _NOT_CHECKED:
            continue
        if key in _HOLD_SCHEMAS:
            own += len(inner) if isinstance(inner, dict | list) else 1
        else:
            own += weight(inner, UNBOUNDED, _CHARACTERS)
    return own


def _children(part: Json) -> Iterator[Json]:
    if isinstance(part, list):
        yield from part
    elif isinstance(part, dict):
        yield from part.values()
