"""Durations as people and programs write them: `30s`, `5m`, `1h30m`, or a number of seconds."""

from __future__ import annotations

import math
import re

from flycore.model.json import Json

LONGEST_MS = 86_400_000
"""The longest time limit that an entry may have: one day."""
_PARTS = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|s|m|h))+")
_PART = re.compile(r"([0-9.]+)(ms|s|m|h)")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def duration_ms(value: Json, most: int = LONGEST_MS) -> int | None:
    """Return the milliseconds of a duration, from 1 to `most`; None for anything else.

    A number is a number of seconds, as is a text of digits only.
    """
    if isinstance(value, bool):
        return None
    value = value.strip() if isinstance(value, str) else value
    if isinstance(value, str) and _SECONDS.fullmatch(value):
        value = float(value)
    if isinstance(value, int | float):
        # An integer of any size is JSON, and too large a one is no float.
        amount = value * 1_000 if -LONGEST_MS <= value <= LONGEST_MS else math.inf
    elif isinstance(value, str) and _PARTS.fullmatch(value):
        amount = sum(float(number) * _MS[unit] for number, unit in _PART.findall(value))
    else:
        return None
    return round(amount) if 1 <= amount <= most else None
