"""Durations as other systems write them: seconds as a number, or texts such as `30s`, `5m` and `1h30m`."""

from __future__ import annotations

import math
import re

from flycore.model.json import Json

MOST_MS = 86_400_000
"""The longest time limit that an entry may have."""
_PARTS = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|s|m|h))+")
_PART = re.compile(r"([0-9.]+)(ms|s|m|h)")
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def duration_ms(value: Json) -> int | None:
    """Return the milliseconds of a duration, from 1 to MOST_MS; None for anything else.

    A number is a number of seconds, as is a text of digits only.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", value):
        value = float(value)
    if isinstance(value, int | float):
        amount = value * 1_000 if -MOST_MS <= value <= MOST_MS else math.inf
    elif isinstance(value, str) and _PARTS.fullmatch(value):
        amount = sum(float(number) * _MS[unit] for number, unit in _PART.findall(value))
    else:
        return None
    return round(amount) if 1 <= amount <= MOST_MS else None
