"""The dialect `persistent`: requests and answers as lines, for as long as stdin stays open.

A thread reads stdin, so that a cancel is seen while a tool runs: it sets the call's `cancelled`, which the
tool may look at and which its next `progress` or `log` raises. Tools themselves run one after the other.
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
    inbox.take(first)
    Thread(target=inbox.read, args=(source,), daemon=True).start()
    while (call := inbox.next()) is not None:
        out.send_bytes(_answer(run, call) + b"\n")
        inbox.done()
    return 0


class _RequestQueue:
    """What was asked and is not answered yet."""

    def __init__(self, out: AnswerWriter) -> None:
        self._out = out
        self._lock = Lock()
        self._asked: SimpleQueue[Call | None] = SimpleQueue()
        self._calls: dict[str, Call] = {}
        self._now = ""

    def read(self, source: RequestReader) -> None:
        """Take lines until stdin ends. What was asked by then is still answered."""
        try:
            while line := source.line():
                self.take(line)
        except ToolFailed as failure:
            self._out.send(failure.answer())
        self._asked.put(None)

    def take(self, line: bytes) -> None:
        """A request, or the cancel of one; a cancel of what is not asked means nothing."""
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
        with self._lock:
            self._calls[call.request_id] = call
        self._asked.put(call)

    def next(self) -> Call | None:
        """Wait for the next request; None when there is none any more."""
        call = self._asked.get()
        self._now = "" if call is None else call.request_id
        return call

    def done(self) -> None:
        """The request that `next` gave is answered."""
        with self._lock:
            self._calls.pop(self._now, None)


def _answer(run: Callable[[Call], JsonObject], call: Call) -> bytes:
    """The answer's line. A tool's bug is an answer, too: the next call is another tool's."""
    name = {"requestId": call.request_id}
    try:
        call.raise_if_cancelled()
        return encode(answer_of(lambda: run(call)) | name)
    except Exception as bug:  # noqa: BLE001 - between one broken tool and everybody else's calls
        sys.excepthook(type(bug), bug, bug.__traceback__)
        if isinstance(bug, ToolFailed):
            return encode(bug.answer() | name)
        said = f"{type(bug).__name__}: {bug}"
        return encode(ToolFailed("internal", said).answer() | name)


def _id_of(line: bytes) -> JsonObject:
    """The id of a request that is none, where it can be read."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    name = document.get("requestId") if isinstance(document, dict) else None
    return {"requestId": name} if isinstance(name, str) else {}
