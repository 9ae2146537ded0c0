"""Mutated copies of JSON values, for tests of parsers with files as people mistype them, and worse."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, -1, 1.5, 10**12, "", "x", "a" * 5_000, " ", "\x00", "../x", "/x", "web.*"),
    *([], {}, [1], ["x"], [""], [{}], {"x": 1}, {"": ""}, {"type": "object"}, "2030-01-01T00:00:00Z"),
)


def mutated(value: Any, chance: random.Random) -> Any:
    """A copy with one to three changes: a value replaced, a member removed, renamed or added."""
    whole = [copy.deepcopy(value)]
    for _ in range(chance.randint(1, 3)):
        holders = [
            whole,
            *(node for node in everything_in(whole[0]) if isinstance(node, dict | list) and node),
        ]
        node = chance.choice(holders)
        key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
        change = chance.randrange(4) if node is not whole else 0
        if change == 0:
            node[key] = copy.deepcopy(chance.choice(VALUES))
        elif change == 1:
            del node[key]
        elif isinstance(node, dict):
            other = chance.choice((f"{key}s", "x", ""))
            node[other] = node.pop(key) if change == 2 else copy.deepcopy(chance.choice(VALUES))
    return whole[0]


def everything_in(value: Any) -> Iterator[Any]:
    """The value and everything in it."""
    yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from everything_in(item)
