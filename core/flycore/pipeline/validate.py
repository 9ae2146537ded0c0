"""Step 2: validate an input against the tool's schema. Messages about violations hold no piece of a
secret."""

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
    """The violations `found` in `value`; of one that might quote a secret only the place. `check` is the
    function that found them."""
    masked = masks.json(value)
    if not found or masked == value:
        return found
    # A violation quotes only the start of a value. A secret that was cut there matches no spelling that
    # could be masked, so the masked value is checked once more: what is found there as well quotes nothing
    # but masks.
    harmless = set(check(masked))
    return tuple(
        item
        if item in harmless
        else Violation(pointer=masks.text(item.pointer, cut=True), message=MASKED_VALUE_MESSAGE)
        for item in found
    )


NO_JSON = "the input is not JSON: it holds NaN, an infinity or half a character, or it is nested too deeply"


def is_json(input: JsonObject) -> bool:
    """Whether the input has a canonical form, over which a digest can be made."""
    try:
        canonical_json(input)
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def validate_input(capability: Capability, input: JsonObject, masks: Masks) -> JsonObject | Rejection:
    """The input with defaults filled in, or the rejection with every violation."""
    schema = capability.input_schema
    filled, found = check_input(schema, input)
    if not found:
        # The caller still has the original and may change it while a person reads the card.
        copy: JsonObject = msgspec.to_builtins(filled)
        return copy
    return input_rejection(
        capability, redacted_violations(found, filled, masks, partial(check_output, schema)), masks
    )


def input_rejection(capability: Capability, violations: tuple[Violation, ...], masks: Masks) -> Rejection:
    """The rejection of a call whose input does not fit. The message names the first ten violations, the
    details all of them."""
    listed: list[Json] = [
        {"pointer": item.pointer, "message": masks.text(item.message)} for item in violations
    ]
    listing = "; ".join(f"{item.pointer or '/'}: {item.message}" for item in violations[:10])
    return failed(
        Code.INVALID_INPUT,
        f"the input does not fit: {listing}",
        f"flytui inspect {capability.name} shows the schema",
        violations=listed,
    )
