"""A running language server, used by one thread.

Every request ends with an answer or a `ToolFailed` before its deadline, and memory is bounded, whatever the
server does.
"""

from __future__ import annotations

import os
import selectors
import time

from flysidecars.child_process import ChildProcess
from flysidecars.sdk import Call, JsonObject, ToolFailed
from flysidecars.utility.lsp.framing import FramingError, MessageReader, encode
from flysidecars.utility.lsp.positions import path_of
from flysidecars.utility.lsp.server_requests import answer_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_UNREQUESTED = 20_000
"""Messages in one call that answer no request. A server that sends more is treated as broken."""
CATCH_UP_S = 1.0
"""How long a server may take to answer a request that it does not know. One that never does costs this."""
MAX_PUBLISHED = 2_000
"""Files whose published diagnostics are kept; the oldest are dropped."""
STDERR_TAIL = 4096
"""Bytes of stderr that are kept for a failure."""
EXIT_WAIT_S = 0.5
"""How long a server may take to exit once it was told to or has closed its pipes, seconds."""
_CHUNK = 65_536
_CANCEL_CHECK_S = 0.1
"""Seconds between two checks whether the call was cancelled, during a wait."""


class LanguageServer:
    """A language server process and its messages.

    Raises `ToolFailed`: `delegate-failed` (it did not start, died, broke the protocol or sent too much),
    `server-timeout`, `server-error` (it answered with an error). After any but the last it is `broken`.
    """

    def __init__(self, argv: Sequence[str], folder: str, settings: JsonObject) -> None:
        self.name = os.path.basename(argv[0])
        self.settings = settings
        self.folders: list[JsonObject] = []
        self.capabilities: JsonObject = {}
        self.published: dict[str, object] = {}
        """The diagnostics that were last published, by the file's absolute path."""
        self.last_update = 0.0
        """When diagnostics were last published or work ended, in monotonic seconds."""
        self.closed: set[str] = set()
        """The URIs of the documents that were closed."""
        self.working: set[str] = set()
        """The progress tokens of the server's unfinished work."""
        self.broken = False
        self._answers: dict[int, JsonObject] = {}
        self._frames = MessageReader()
        self._last = 0
        self._unrequested = 0
        self._outgoing = bytearray()
        self._stderr = bytearray()
        self._child = ChildProcess(argv, folder, talks=True)
        self._selector = selectors.DefaultSelector()
        popen = self._child.popen
        if popen.stdin is None or popen.stdout is None or popen.stderr is None:
            raise ValueError("the server was started without pipes")
        self._stdin = popen.stdin.fileno()
        self._stdout = popen.stdout.fileno()
        self._stderr_fd = popen.stderr.fileno()
        # A server that does not read its stdin must not block us: all three pipes are served together.
        for descriptor in (self._stdin, self._stdout, self._stderr_fd):
            os.set_blocking(descriptor, False)
        for descriptor in (self._stdout, self._stderr_fd):
            self._selector.register(descriptor, selectors.EVENT_READ)

    def begin_call(self) -> None:
        """Begin a new call: set the count of messages that answer no request to 0."""
        self._unrequested = 0

    def notify(self, method: str, params: JsonObject) -> None:
        """Queue a notification. It is sent during the next wait."""
        self._outgoing += encode({"method": method, "params": params})

    def request(self, call: Call, method: str, params: object, deadline: float) -> object:
        """Send a request and return its result, which may be None."""
        self._last += 1
        number = self._last
        body: JsonObject = {"id": number, "method": method}
        self._outgoing += encode(body if params is None else body | {"params": params})
        if not self.wait(call, lambda: number in self._answers, deadline):
            raise self._break("server-timeout", f"{self.name} did not answer {method} in time", method)
        answer = self._answers.pop(number)
        error = answer.get("error")
        if error is None:
            return answer.get("result")
        reason = error.get("message") if isinstance(error, dict) else None
        message = f"{self.name} answered {method} with an error: {reason if isinstance(reason, str) else ''}"
        raise self._failure("server-error", message[:400], method)

    def catch_up(self, call: Call, deadline: float) -> None:
        """Wait until the server has handled everything that it was sent, for at most CATCH_UP_S."""
        # A request that no server knows is answered with an error, and answers keep their order.
        self._last += 1
        number = self._last
        self._outgoing += encode({"id": number, "method": "$/flytui/caughtUp"})
        self.wait(call, lambda: number in self._answers, min(deadline, time.monotonic() + CATCH_UP_S))
        self._answers.pop(number, None)

    def wait(self, call: Call, done: Callable[[], bool], deadline: float) -> bool:
        """Send and receive until `done` returns true; False after `deadline` (monotonic seconds)."""
        while not done():
            call.raise_if_cancelled()
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._transfer(min(left, _CANCEL_CHECK_S))
        return True

    def end(self) -> None:
        """End the server and all processes that it has started."""
        self.broken = True
        self._selector.close()
        self._child.end()
        self._child.close()

    def shut_down(self, call: Call, deadline: float) -> None:
        """Shut the server down as the protocol says, then end what is left. Raises nothing that the server
        causes."""
        try:
            if not self.broken:
                self.request(call, "shutdown", None, deadline)
                self.notify("exit", {})
                self.wait(call, lambda: not self._outgoing, deadline)
                # It may have files to put in order before it exits.
                self._child.exit_code(max(0.0, min(EXIT_WAIT_S, deadline - time.monotonic())))
        except ToolFailed:
            return
        finally:
            self.end()

    def _transfer(self, seconds: float) -> None:
        if self._outgoing and self._stdin not in self._selector.get_map():
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
        for key, _ in self._selector.select(seconds):
            if key.fd == self._stdin:
                self._write()
            elif key.fd == self._stderr_fd:
                self._read_stderr()
            else:
                self._read_stdout()

    def _write(self) -> None:
        try:
            done = os.write(self._stdin, bytes(self._outgoing[:_CHUNK]))
        except BlockingIOError:
            return
        except OSError as closed:
            raise self._closed_pipes() from closed
        del self._outgoing[:done]
        if not self._outgoing:
            self._selector.unregister(self._stdin)

    def _read_stderr(self) -> None:
        try:
            chunk = os.read(self._stderr_fd, _CHUNK)
        except BlockingIOError:
            return
        if not chunk and self._stderr_fd in self._selector.get_map():
            self._selector.unregister(self._stderr_fd)
        self._stderr += chunk
        del self._stderr[:-STDERR_TAIL]

    def _read_stdout(self) -> None:
        chunk = os.read(self._stdout, _CHUNK)
        if not chunk:
            raise self._closed_pipes()
        try:
            for message in self._frames.feed(chunk):
                self._handle(message)
        except FramingError as broken:
            raise self._break("delegate-failed", f"{self.name}: {broken}") from broken

    def _handle(self, message: JsonObject) -> None:
        method, number = message.get("method"), message.get("id")
        # Only the last request is waited for: a late answer to an earlier one is dropped.
        if isinstance(number, int) and method is None and number == self._last:
            self._answers = {number: message}
            return
        self._unrequested += 1
        if self._unrequested > MAX_UNREQUESTED:
            raise FramingError("it sends too many messages that answer no request")
        if isinstance(method, str) and number is not None:
            self._outgoing += encode(answer_request(message, self.settings, self.folders))
        elif method == "textDocument/publishDiagnostics":
            self._store_diagnostics(message.get("params"))
        elif method == "$/progress":
            self._progress(message.get("params"))

    def _store_diagnostics(self, params: object) -> None:
        path = path_of(params.get("uri")) if isinstance(params, dict) else None
        if isinstance(params, dict) and path is not None:
            self.published.pop(path, None)
            self.published[path] = params.get("diagnostics")
            self.last_update = time.monotonic()
            if len(self.published) > MAX_PUBLISHED:
                del self.published[next(iter(self.published))]

    def _progress(self, params: object) -> None:
        value = params.get("value") if isinstance(params, dict) else None
        if not isinstance(params, dict) or not isinstance(value, dict):
            return
        token = str(params.get("token"))[:200]
        if value.get("kind") == "end":
            self.working.discard(token)
            self.last_update = time.monotonic()
        elif len(self.working) < 1000:
            self.working.add(token)

    def _closed_pipes(self) -> ToolFailed:
        half = " in the middle of a message" if self._frames.partial else ""
        self._read_stderr()
        return self._break("delegate-failed", f"{self.name} closed its pipes{half}", gone=True)

    def _break(self, code: str, message: str, method: str = "", *, gone: bool = False) -> ToolFailed:
        """Mark the server as broken and return the failure."""
        exit_code = self._child.exit_code(EXIT_WAIT_S if gone else 0.0)
        self.broken = True
        failure = self._failure(code, message, method)
        if exit_code is not None:
            failure.fields["serverExitCode"] = exit_code
        return failure

    def _failure(self, code: str, message: str, method: str) -> ToolFailed:
        fields: JsonObject = {"delegate": "lsp", "stderrTail": self._stderr.decode("utf-8", "replace")}
        if method:
            fields["method"] = method
        return ToolFailed(code, message, **fields)
