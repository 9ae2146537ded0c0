"""The check of a value in a process of its own, which has limits of memory and time.

The validator holds the interpreter's lock for as long as one check takes, lists all violations before it
hands over the first, and may need any amount of memory to explain one: a thread would hold up the event loop
as well, and would fill this process. This module is both sides: the kernel starts
`python -m flycore.catalog.check_process`, which reads the schema, the value, and whether to explain, as lines
of JSON. It writes what it has found out as one line after the other, from the cheapest on, so that each of
them counts even if a limit ends the next step.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from flycore.catalog.schemas import (
    UnusableSchema,
    Violation,
    compile_schema,
    first_violation,
    list_violations,
    refuse_address,
)
from flycore.model.json import Json, JsonObject, canonical_json, pointer_join
from flycore.model.schema_cost import part_at

if TYPE_CHECKING:
    from jsonschema_rs import Validator

CPU_SECONDS = 2
"""Processor time of a check. It is not the time of the clock, so that a busy machine refuses nothing."""
EXPLAIN_SECONDS = 1.0
"""Processor time for the reason once a value is found not to fit."""
WALL_SECONDS = 20.0
"""Time of the clock after which a check is given up, on a machine that has no time for it at all."""
MEMORY_BYTES = 536_870_912
"""Address space of a check. Listing the violations of a value may take a hundred times its size."""
MOST_SUBSCHEMAS = 200
"""Subschemas that are tried one by one to find the place of a violation."""
_ADDRESS = "urn:flytui:schema"
_TOO_LONG = f"it could not be checked within {CPU_SECONDS} seconds: send less at once"
_NOT_EXPLAINED = "does not fit; why could not be found out within one second and 512 MiB"
_NOT_LISTED = "it does not fit in more places than can be listed"
_NO_PROCESS = "it could not be checked, as no further process can be started"


def fits_in_process(schema: JsonObject, value: Json) -> bool | None:
    """Return whether the schema accepts the value, None where that was not found out within the limits. This
    blocks, so it must not be called on an event loop."""
    try:
        verdict = _run(schema, value, explain=False)[:1]
    except OSError:
        return None
    return bool(verdict[0]) if verdict else None


def check_in_process(schema: JsonObject, value: Json) -> tuple[Violation, ...]:
    """Return the violations of the value; none where it fits. What cannot be checked within the limits is a
    violation. This blocks, too."""
    try:
        found: Any = _run(schema, value, explain=True)
    except OSError:
        return (Violation(pointer="", message=_NO_PROCESS),)
    if not found:
        return (Violation(pointer="", message=_TOO_LONG),)
    if found[0]:
        return ()
    match found[1:]:
        case [_, _, listed]:
            return tuple(Violation(pointer=pointer, message=message) for pointer, message in listed)
        case [_, [pointer, message]]:
            further = Violation(pointer="", message=_NOT_LISTED)
            return (Violation(pointer=pointer, message=message), further)
        case places:
            return (Violation(pointer=places[0] if places else "", message=_NOT_EXPLAINED),)


def _run(schema: JsonObject, value: Json, *, explain: bool) -> list[Json]:
    """Return what the process wrote before it ended, by itself or by one of its limits. Raises OSError where
    it cannot be started."""
    lines = (canonical_json(schema), canonical_json(value), json.dumps(explain))
    # In the session of this process: a process with a session of its own would look like one that a tool has
    # left behind.
    with subprocess.Popen(
        (sys.executable, "-I", "-m", "flycore.catalog.check_process"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
    ) as process:
        try:
            written = process.communicate("\n".join((*lines, "")).encode("ascii"), timeout=WALL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            written = process.communicate()[0]
    return [json.loads(line) for line in written.splitlines(keepends=True) if line.endswith(b"\n")]


# In the process.


def main() -> None:
    """Check one value that comes over standard input."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    schema, value, explain = (json.loads(sys.stdin.buffer.readline()) for _ in range(3))
    with suppress(UnusableSchema):  # found by whoever asks: an unusable schema never comes here
        validator = compile_schema(schema, refuse_address)
        accepted = validator.is_valid(value)
        _write(accepted)
        if accepted or not explain:
            return
        # Its signal ends the process.
        signal.setitimer(signal.ITIMER_VIRTUAL, EXPLAIN_SECONDS)
        _write(_PlaceFinder(schema).place_of_fault(value))
        first = first_violation(validator, value)
        if first is not None:
            _write([first.pointer, first.message])
            _write([[found.pointer, found.message] for found in list_violations(validator, value)])


def _write(document: Json) -> None:
    os.write(1, json.dumps(document).encode("ascii") + b"\n")


class _PlaceFinder:
    """Finds the place of a violation by checks alone, which cost far less than an explanation."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._validators: dict[str, Validator] = {}
        """The validators of subschemas, by their pointers."""

    def place_of_fault(self, value: Json) -> str:
        """Return the pointer of the innermost part that is found not to fit on the way through the keywords
        that apply to one field or item alone."""
        pointer, inner = "", self._parts("", value)
        while True:
            for name, rule, part in inner:
                if not self._fits(rule, part):
                    pointer, inner = pointer_join(pointer, name), self._parts(rule, part)
                    break
            else:
                return pointer

    def _parts(
        self, at: str, value: Json, seen: tuple[str, ...] = ()
    ) -> Iterator[tuple[str | int, str, Json]]:
        """Yield the key or index, the pointer of the subschema and the value of each part directly below that
        the subschema at `at` checks."""
        rule = part_at(self._schema, at)
        if not isinstance(rule, dict) or at in seen:
            return
        fields, items = rule.get("properties"), rule.get("prefixItems")
        fields = fields if isinstance(fields, dict) else {}
        count = len(items) if isinstance(items, list) else 0
        if isinstance(value, dict):
            for name, part in value.items():
                if name in fields:
                    yield name, pointer_join(f"{at}/properties", name), part
                elif "additionalProperties" in rule and "patternProperties" not in rule:
                    yield name, f"{at}/additionalProperties", part
        elif isinstance(value, list):
            for index, part in enumerate(value):
                if index < count:
                    yield index, f"{at}/prefixItems/{index}", part
                elif "items" in rule:
                    yield index, f"{at}/items", part
        reference = rule.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            yield from self._parts(unquote(reference[1:]), value, (*seen, at))

    def _fits(self, rule: str, value: Json) -> bool:
        """Return whether the subschema accepts the value; True for one that cannot be tried."""
        if rule not in self._validators:
            if len(self._validators) == MOST_SUBSCHEMAS:
                return True
            # As a reference into the whole schema, so that its own references still lead somewhere.
            within: JsonObject = {"$ref": f"{_ADDRESS}#{quote(rule)}"}
            self._validators[rule] = compile_schema(within, lambda _: self._schema)
        return self._validators[rule].is_valid(value)


if __name__ == "__main__":
    main()
