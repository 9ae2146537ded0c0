"""What is wrong with an input or output, in words that hold no piece of a secret.

A violation quotes the start of a value; a secret that was cut there is no spelling that could be masked.
"""

from __future__ import annotations

from collections.abc import Callable

from flycore.catalog.schemas import Violation
from flycore.model.json import Json
from flycore.sandbox.masks import Masks

MASKED_VALUE_MESSAGE = "does not fit; its value is a secret"


def redacted_violations(
    found: tuple[Violation, ...], value: Json, masks: Masks, check: Callable[[Json], tuple[Violation, ...]]
) -> tuple[Violation, ...]:
    """The violations `found` in `value`; where one might quote a secret, only its place.

    `check` is asked once more about the masked value: what it says of that quotes nothing but masks.
    """
    masked = masks.json(value)
    if not found or masked == value:
        return found
    harmless = set(check(masked))
    return tuple(
        item
        if item in harmless
        else Violation(pointer=masks.text(item.pointer, cut=True), message=MASKED_VALUE_MESSAGE)
        for item in found
    )
