"""The check of a large value in a process of its own, which can be ended.

The validator holds the interpreter's lock for as long as one check takes, and lists all violations before it
hands over the first. A thread would therefore hold up the event loop as well. This module is both sides:
`check_in_process` starts `python -m flycore.catalog.check_process`, which reads the schema and the value as
two lines of JSON, and writes the first violation as one line, then all of them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from contextlib import suppress

from flycore.catalog.schemas import UnusableSchema, Violation, first_violation, list_violations
from flycore.model.json import Json, JsonObject, canonical_json

CPU_SECONDS = 2
"""Processor time of a check. It is not the time of the clock, so that a busy machine refuses nothing."""
WALL_SECONDS = 20.0
"""Time of the clock after which a check is given up, on a machine that has no time for it at all."""
MEMORY_BYTES = 1_073_741_824
"""Address space of a check. Listing the violations of a value may take a hundred times its size."""
_TOO_LONG = f"it could not be checked within {CPU_SECONDS} seconds: send less at once"
_NOT_LISTED = "it does not fit in more places than can be listed"
_NO_PROCESS = "it could not be checked, as no further process can be started"


def check_in_process(schema: JsonObject, value: Json) -> tuple[Violation, ...]:
    """Return the violations of the value; none where it fits. What cannot be checked within the limits is a
    violation. This blocks, so it must not be called on an event loop."""
    request = f"{canonical_json(schema)}\n{canonical_json(value)}\n".encode("ascii")
    command = (sys.executable, "-I", "-m", "flycore.catalog.check_process")
    try:
        # In the session of this process: a process with a session of its own would look like one that a
        # tool has left behind.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
        )
    except OSError:
        return (Violation(pointer="", message=_NO_PROCESS),)
    with process:
        try:
            written = process.communicate(request, timeout=WALL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            written = process.communicate()[0]
    return _violations_in(written)


def _violations_in(written: bytes) -> tuple[Violation, ...]:
    """Return the violations that the process wrote before it ended, by itself or by one of its limits."""
    lines = [json.loads(line) for line in written.splitlines(keepends=True) if line.endswith(b"\n")]
    if len(lines) == 2:
        return tuple(Violation(pointer=pointer, message=message) for pointer, message in lines[1])
    if not lines:
        return (Violation(pointer="", message=_TOO_LONG),)
    pointer, message = lines[0]
    return (Violation(pointer=pointer, message=message), Violation(pointer="", message=_NOT_LISTED))


def main() -> None:
    """Check one value that comes over standard input."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    schema, value = json.loads(sys.stdin.buffer.readline()), json.loads(sys.stdin.buffer.readline())
    with suppress(UnusableSchema):  # found by whoever asks: an unusable schema never comes here
        first = first_violation(schema, value)
        if first is not None:
            _write([first.pointer, first.message])
            _write([[found.pointer, found.message] for found in list_violations(schema, value)])
        else:
            _write([])
            _write([])


def _write(document: Json) -> None:
    os.write(1, json.dumps(document).encode("ascii") + b"\n")


if __name__ == "__main__":
    main()
