"""What is wrong with an input or output, in words that hold no piece of a secret.

A violation quotes the start of a value; a secret that was cut there is no spelling that could be masked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from flycore.catalog.schemas import Violation, check_input, check_output
from flycore.model.catalog import Capability
from flycore.model.enums import Code
from flycore.model.json import Json, JsonObject, canonical_json
from flycore.pipeline.call import Rejection, failed
from flycore.sandbox.secret_masks import Masks

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


# Step 1: the input against the tool's schema, with defaults filled.


NO_JSON = "the input is no JSON: it holds NaN, an infinity, half a character, or is nested too deeply"


def is_json(input: JsonObject) -> bool:
    """Whether it has a canonical form."""
    try:
        canonical_json(input)
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def validate_input(capability: Capability, input: JsonObject, masks: Masks) -> JsonObject | Rejection:
    """The input with defaults filled, or every violation. It is a copy: whoever called may still change
    what was handed in."""
    schema = capability.input_schema
    filled, found = check_input(schema, input)
    if not found:
        copy: JsonObject = msgspec.to_builtins(filled)
        return copy
    return input_rejection(
        capability, redacted_violations(found, filled, masks, partial(check_output, schema)), masks
    )


def input_rejection(capability: Capability, violations: tuple[Violation, ...], masks: Masks) -> Rejection:
    """The end of a call whose input does not fit."""
    listed: list[Json] = [
        {"pointer": item.pointer, "message": masks.text(item.message)} for item in violations
    ]
    said = "; ".join(f"{item.pointer or '/'}: {item.message}" for item in violations[:10])
    return failed(
        Code.INVALID_INPUT,
        f"the input does not fit: {said}",
        f"flytui inspect {capability.name} shows the schema",
        violations=listed,
    )
