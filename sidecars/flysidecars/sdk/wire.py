"""Reads requests from stdin and writes events and answers to stdout."""

from __future__ import annotations

import json
import os
import sys
from _thread import allocate_lock

from flysidecars.sdk.failures import ToolFailed

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""Bytes of one request; a larger one is answered with `invalid-request`."""
_CHUNK = 256 * 1024


class AnswerWriter:
    """Writes JSON lines to the caller. Any thread may write: lines are never mixed.

    If the caller has closed its end of the pipe, the program exits with 1.
    """

    __slots__ = ("_lock", "descriptor")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._lock = allocate_lock()

    def send(self, document: dict[str, object]) -> None:
        """Write one document as one line of ASCII, which holds no control characters."""
        self.send_bytes(encode(document) + b"\n")

    def send_bytes(self, data: bytes) -> None:
        """Write all of `data`."""
        view = memoryview(data)
        with self._lock:
            while view:  # a pipe may take only a part at once
                try:
                    view = view[os.write(self.descriptor, view) :]
                except BrokenPipeError:
                    os._exit(1)  # nobody reads any more; sys.exit would end this thread only

    def restore(self) -> None:
        """Make descriptor 1 the real stdout again, for a program that replaces this one by `exec`."""
        os.dup2(self.descriptor, 1)


def claim_stdout() -> AnswerWriter:
    """Reserve stdout for answers and return their writer. Everything else that prints goes to stderr.

    A stdin that was closed is replaced by an empty one.
    """
    try:
        os.fstat(0)
    except OSError:
        # With descriptor 0 free, os.dup below would return 0 and the answers' pipe would be read as stdin.
        os.open(os.devnull, os.O_RDONLY)
    sys.stdout.flush()
    # A library that prints must not spoil the answer: its descriptor 1 is stderr from here on.
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return AnswerWriter(descriptor)


def encode(document: dict[str, object] | list[dict[str, object]]) -> bytes:
    """The document as JSON in ASCII. A lone surrogate becomes `?`. Raises `ValueError` for NaN and infinity,
    which the protocol does not allow."""
    line = json.dumps(document, allow_nan=False)
    if "\\ud" in line:
        whole = json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        line = json.dumps(json.loads(whole))
    return line.encode("ascii")


class RequestReader:
    """Reads requests from a descriptor. Raises `ToolFailed` (`invalid-request`) for one of more than
    `MAX_REQUEST_BYTES`."""

    __slots__ = ("_buffer", "_descriptor", "_ended")

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._ended = False

    def line(self) -> bytes:
        """The next line with its newline; the last line may have none. Empty at the end of the file."""
        scanned = 0
        while (end := self._buffer.find(b"\n", scanned)) < 0:
            scanned = len(self._buffer)
            if not self._more():
                return self._cut(scanned)
        return self._cut(end + 1)

    def rest(self) -> bytes:
        """Everything up to the end of the file."""
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
    """Whether the first line is a request to a persistent process."""
    # Most first lines are one-shot requests, perhaps of many MiB: do not parse those twice.
    if b'"persistent"' not in line:
        return False
    try:
        return parse_request(line).get("persistent") is True
    except ToolFailed:
        return False


def parse_request(data: bytes) -> dict[str, object]:
    """The request as a dict. Raises `ToolFailed` (`invalid-request`) for anything but one JSON object."""
    try:
        document = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as broken:
        raise ToolFailed("invalid-request", "stdin does not hold one JSON document") from broken
    if not isinstance(document, dict):
        raise ToolFailed("invalid-request", "the request is not a JSON object")
    return document


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
