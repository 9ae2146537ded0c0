"""The persistent protocol: one request or answer a line, until stdin ends.

A thread reads stdin, so that a cancel message is seen while a tool runs: it sets `cancelled` of the call.
The tool checks it, or its next `progress` or `log` raises `Cancelled`. The tools run one after the other.
"""

from __future__ import annotations

import json
import sys
from queue import SimpleQueue
from threading import Lock, Thread

from flysidecars.sdk.call import Call, JsonObject
from flysidecars.sdk.failures import ToolFailed, answer_of
from flysidecars.sdk.wire import AnswerWriter, RequestReader, encode, parse_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def serve(run: Callable[[Call], JsonObject], out: AnswerWriter, source: RequestReader, first: bytes) -> int:
    """Answer `first` and every line after it; returns the exit code when stdin has ended."""
    inbox = _RequestQueue(out)
    inbox.accept(first)
    Thread(target=inbox.read, args=(source,), daemon=True).start()
    while (call := inbox.next_call()) is not None:
        out.send_bytes(_answer(run, call) + b"\n")
        inbox.forget_current()
    return 0


class _RequestQueue:
    """The requests that are not answered yet. One thread adds them, the main thread takes them out."""

    def __init__(self, out: AnswerWriter) -> None:
        self._out = out
        self._lock = Lock()
        self._queue: SimpleQueue[Call | None] = SimpleQueue()
        self._calls: dict[str, Call] = {}
        self._current_id = ""

    def read(self, source: RequestReader) -> None:
        """Accept lines until stdin ends. The requests accepted by then are still answered."""
        try:
            while line := source.line():
                self.accept(line)
        except ToolFailed as failure:
            self._out.send(failure.answer())
        self._queue.put(None)

    def accept(self, line: bytes) -> None:
        """Add a request, or cancel one. A cancel of an unknown or answered request has no effect."""
        if not line.strip():
            return
        try:
            document = parse_request(line)
            if "cancel" in document and "tool" not in document:
                with self._lock:
                    call = self._calls.get(str(document["cancel"]))
                if call is not None:
                    call.cancelled = True
                return
            call = Call(document, self._out)
        except ToolFailed as failure:
            self._out.send(failure.answer() | _id_of(line))
            return
        # Registered before it is queued, so that the main thread cannot answer it first and leave it here.
        with self._lock:
            self._calls[call.request_id] = call
        self._queue.put(call)

    def next_call(self) -> Call | None:
        """Wait for the next request; None after the last one."""
        call = self._queue.get()
        self._current_id = "" if call is None else call.request_id
        return call

    def forget_current(self) -> None:
        """Remove the request that `next_call` returned last: it is answered."""
        with self._lock:
            self._calls.pop(self._current_id, None)


def _answer(run: Callable[[Call], JsonObject], call: Call) -> bytes:
    """The answer as a line of JSON. Every exception becomes an answer."""
    name = {"requestId": call.request_id}
    try:
        call.raise_if_cancelled()
        return encode(answer_of(lambda: run(call)) | name)
    except Exception as bug:  # noqa: BLE001 - a bug in one tool must not end the process for the others
        sys.excepthook(type(bug), bug, bug.__traceback__)
        # The cancel of a call that had not begun; `answer_of` handles those that a tool raises.
        if isinstance(bug, ToolFailed):
            return encode(bug.answer() | name)
        message = f"{type(bug).__name__}: {bug}"
        return encode(ToolFailed("internal", message).answer() | name)


def _id_of(line: bytes) -> JsonObject:
    """The `requestId` field of an invalid request; empty if there is none that can be read."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    name = document.get("requestId") if isinstance(document, dict) else None
    return {"requestId": name} if isinstance(name, str) else {}
