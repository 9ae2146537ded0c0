"""Finds the known names that a person may have meant by a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 128
"""Characters of a name that are compared, because the cost grows with the square of its length."""


def nearest(name: str, names: Iterable[str], *, count: int = 3) -> tuple[str, ...]:
    """Up to `count` of `names` that are close to `name`, closest first, without regard to case."""
    wanted = name[:LONGEST].casefold()
    spelled: dict[str, str] = {}
    for candidate in sorted(names):
        spelled.setdefault(candidate[:LONGEST].casefold(), candidate)
    return tuple(spelled[close] for close in get_close_matches(wanted, spelled, n=count, cutoff=0.6))
