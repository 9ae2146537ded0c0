"""How much work a schema can make of one value. A few lines of `$ref` can double it with each of them: such a
schema would hold up whoever checks a value against it, and no real tool has one."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from flycore.model.json import Json, pointer_keys

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
