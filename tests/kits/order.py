"""The order of the cases of a test run that several processes share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice


def spread(long: Sequence[bool], parts: int) -> list[int]:
    """The numbers of all cases, so that each of as many even parts begins with its share of the long ones."""
    first = [number for number, one in enumerate(long) if one]
    rest = iter([number for number, one in enumerate(long) if not one])
    order: list[int] = []
    for part in range(parts):
        size = (len(long) - len(order)) // (parts - part)
        share = first[part::parts]
        order += [*share, *islice(rest, max(0, size - len(share)))]
    return [*order, *rest]
