"""Step 1: the input against the tool's schema, with defaults filled."""

from __future__ import annotations

from functools import partial

import msgspec

from flycore.catalog.schemas import Violation, check_input, check_output
from flycore.executive.stop import Rejection, failed
from flycore.executive.violations import redacted_violations
from flycore.model.capability import Capability
from flycore.model.enums import Code
from flycore.model.json import Json, JsonObject, canonical_json
from flycore.sandbox.masks import Masks

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
