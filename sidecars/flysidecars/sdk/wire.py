"""The two ends of the pipe: requests in, event lines and answers out.

`claim_stdout` keeps the real stdout to itself and points descriptor 1 at stderr, so that a library
which prints cannot spoil the answer.
"""

from __future__ import annotations

import json
import os
import sys
from _thread import allocate_lock

from flysidecars.sdk.failures import ToolFailed

MAX_REQUEST_BYTES = 64 * 1024 * 1024
_CHUNK = 256 * 1024


class AnswerWriter:
    """Writes JSON lines to the caller, whole ones from whatever thread. A caller that has gone away ends
    the program quietly."""

    __slots__ = ("_lock", "descriptor")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._lock = allocate_lock()

    def send(self, document: dict[str, object]) -> None:
        """Write one document as one line, ASCII only, so that it is safe wherever it is shown."""
        self.send_bytes(encode(document) + b"\n")

    def send_bytes(self, data: bytes) -> None:
        """Write all of `data`."""
        view = memoryview(data)
        with self._lock:
            while view:
                try:
                    view = view[os.write(self.descriptor, view) :]
                except BrokenPipeError:
                    os._exit(1)

    def restore(self) -> None:
        """Give descriptor 1 back, for a program that replaces this one."""
        os.dup2(self.descriptor, 1)


def claim_stdout() -> AnswerWriter:
    """Take stdout for answers; everything else that prints goes to stderr. A stdin that was closed is an
    empty one from here on: its number would else become that of stdout's copy."""
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)
    sys.stdout.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return AnswerWriter(descriptor)


def encode(document: dict[str, object]) -> bytes:
    """JSON as the protocol reads it: no NaN, no lone surrogates (each becomes `?`)."""
    line = json.dumps(document, allow_nan=False)
    if "\\ud" in line:
        whole = json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        line = json.dumps(json.loads(whole))
    return line.encode("ascii")


class RequestReader:
    """Reads stdin. Raises `ToolFailed` (`invalid-request`) for more than 64 MiB at once."""

    __slots__ = ("_buffer", "_descriptor", "_ended")

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._ended = False

    def line(self) -> bytes:
        """The next line with its newline, the last one perhaps without; empty at the end."""
        scanned = 0
        while (end := self._buffer.find(b"\n", scanned)) < 0:
            scanned = len(self._buffer)
            if not self._more():
                return self._cut(scanned)
        return self._cut(end + 1)

    def rest(self) -> bytes:
        """All there is up to the end of file."""
        while self._more():
            continue
        return self._cut(len(self._buffer))

    def _more(self) -> bool:
        chunk = b"" if self._ended else os.read(self._descriptor, _CHUNK)
        self._ended = not chunk
        self._buffer += chunk
        if len(self._buffer) > MAX_REQUEST_BYTES:
            raise ToolFailed("invalid-request", f"the request is larger than {MAX_REQUEST_BYTES} bytes")
        return bool(chunk)

    def _cut(self, end: int) -> bytes:
        data = bytes(self._buffer[:end])
        del self._buffer[:end]
        return data


def is_persistent(line: bytes) -> bool:
    """Whether the first line is a request to a process that stays."""
    if b'"persistent"' not in line:
        return False
    try:
        return parse_request(line).get("persistent") is True
    except ToolFailed:
        return False


def parse_request(data: bytes) -> dict[str, object]:
    """The request. Raises `ToolFailed` (`invalid-request`) for anything that is not one JSON object."""
    try:
        document = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as broken:
        raise ToolFailed("invalid-request", "stdin does not hold one JSON document") from broken
    if not isinstance(document, dict):
        raise ToolFailed("invalid-request", "the request is not a JSON object")
    return document


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
