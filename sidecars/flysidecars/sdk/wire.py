"""The two ends of the pipe: one request in, event lines and one answer out.

`claim_stdout` keeps the real stdout to itself and points descriptor 1 at stderr, so that a library
which prints cannot spoil the answer.
"""

from __future__ import annotations

import json
import os
import sys

from flysidecars.sdk.failures import ToolFailed

MAX_REQUEST_BYTES = 64 * 1024 * 1024
_CHUNK = 256 * 1024


class Out:
    """Writes JSON lines to the caller. A caller that has gone away ends the program quietly."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def send(self, document: dict[str, object]) -> None:
        """Write one document as one line, ASCII only, so that it is safe wherever it is shown."""
        self.send_bytes(encode(document) + b"\n")

    def send_bytes(self, data: bytes) -> None:
        """Write all of `data`."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.descriptor, view) :]
            except BrokenPipeError:
                os._exit(1)

    def restore(self) -> None:
        """Give descriptor 1 back, for a program that replaces this one."""
        os.dup2(self.descriptor, 1)


def claim_stdout() -> Out:
    """Take stdout for answers; everything else that prints goes to stderr."""
    sys.stdout.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return Out(descriptor)


def encode(document: dict[str, object]) -> bytes:
    """JSON as the protocol reads it: no NaN, no lone surrogates (each becomes `?`)."""
    line = json.dumps(document, allow_nan=False)
    if "\\ud" in line:
        whole = json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        line = json.dumps(json.loads(whole))
    return line.encode("ascii")


def read_request(descriptor: int = 0) -> dict[str, object]:
    """Read the one request up to end of file. Raises `ToolFailed` (`invalid-request`) for anything
    that is not one JSON object of at most 64 MiB."""
    chunks: list[bytes] = []
    size = 0
    while chunk := os.read(descriptor, _CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_REQUEST_BYTES:
            raise ToolFailed("invalid-request", f"the request is larger than {MAX_REQUEST_BYTES} bytes")
    try:
        document = json.loads(b"".join(chunks), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as broken:
        raise ToolFailed("invalid-request", "stdin does not hold one JSON document") from broken
    if not isinstance(document, dict):
        raise ToolFailed("invalid-request", "the request is not a JSON object")
    return document


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
