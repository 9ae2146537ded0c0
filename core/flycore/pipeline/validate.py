"""Step 2: validate an input against the tool's schema. Messages about violations hold no piece of a
secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import msgspec

from flycore.catalog.dialect import NotCanonicalError, canonical_input, program_input
from flycore.catalog.schemas import Violation, check_input, check_output, input_needs_process
from flycore.model.catalog import Capability
from flycore.model.enums import Code
from flycore.model.json import Json, JsonObject, canonical_json
from flycore.model.json_pieces import encode
from flycore.model.large_values import is_large, run_aside
from flycore.model.sidecar import DEFAULT_MAX_INPUT_BYTES
from flycore.pipeline.call import Rejection, failed
from flycore.sandbox.secret_masks import Masks

_UTF8 = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
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


def canonical_form(
    capability: Capability, input: JsonObject, config: JsonObject, masks: Masks
) -> JsonObject | Rejection:
    """The input in the form of the known tool, where the caller sent it in that of the program's dialect, or
    the rejection of an input that the program could not be told."""
    try:
        return canonical_input(capability, input, config)
    except NotCanonicalError as problem:
        hint = f"flytui inspect {capability.name} shows what it takes"
        return failed(Code.INVALID_INPUT, masks.text(f"the input does not fit: {problem}"), hint)


def unsendable(capability: Capability, input: JsonObject, config: JsonObject) -> Rejection | None:
    """The rejection of a valid input that the program cannot be told in its dialect; None of any other."""
    try:
        program_input(capability, input, config)
    except NotCanonicalError as problem:
        hint = f"flytui inspect {capability.name} shows what it takes"
        return failed(Code.INVALID_INPUT, f"the input cannot be sent: {problem}", hint)
    return None


async def validated(
    capability: Capability, input: JsonObject, masks: Masks, most_bytes: int = DEFAULT_MAX_INPUT_BYTES
) -> JsonObject | Rejection:
    """What `validate_input` returns. A check that takes long is made in a worker thread."""
    aside = is_large(input) or input_needs_process(capability.input_schema, input)
    return await run_aside(aside, validate_input, capability, input, masks, most_bytes)


def validate_input(
    capability: Capability, input: JsonObject, masks: Masks, most_bytes: int = DEFAULT_MAX_INPUT_BYTES
) -> JsonObject | Rejection:
    """The input with defaults filled in, or the rejection with its violations. `most_bytes` is the limit of
    its JSON text. It may take seconds where `validated` would use a worker thread."""
    if not is_json(input):
        return failed(Code.INVALID_INPUT, NO_JSON)
    if is_large(input) and (size := _bytes(input)) > most_bytes:
        return failed(
            Code.INVALID_INPUT,
            f"the input has {size:,} bytes, and this tool takes at most {most_bytes:,}",
            "send less at once, or raise maxInputBytes of the entry",
            bytes=size,
            maxInputBytes=most_bytes,
        )
    schema = capability.input_schema
    filled, found = check_input(schema, input)
    if not found:
        # The caller still has the original and may change it while a person reads the card.
        copy: JsonObject = msgspec.to_builtins(filled)
        return copy
    return input_rejection(
        capability, redacted_violations(found, filled, masks, partial(check_output, schema)), masks
    )


def _bytes(input: JsonObject) -> int:
    """The bytes of the input as JSON in UTF-8, in which most programs write it."""
    return len(encode(_UTF8, input).encode("utf-8", "surrogatepass"))


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
