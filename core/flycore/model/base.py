"""The base of every value: frozen, keyword-only, camelCase on the wire."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A frozen value. `msgspec.to_builtins(value)` gives its JSON shape, with camelCase keys.

    Values of which there is one for each tool are defined with `gc=False`: the cycle collector, which would
    keep two words for each of them, does not look through them. A frozen value of texts and JSON is in no
    cycle.
    """


@cache
def _ranks(kind: type[OrderedEnum]) -> dict[OrderedEnum, int]:
    return {member: rank for rank, member in enumerate(kind)}


class OrderedEnum(StrEnum):
    """A string enum whose members are ordered as they are written, weakest first."""

    @property
    def rank(self) -> int:
        """Position in the definition, 0 for the weakest."""
        return _ranks(type(self))[self]

    def at_least(self, other: OrderedEnum) -> bool:
        """Whether this member is as strong as `other` or stronger."""
        return self.rank >= other.rank
