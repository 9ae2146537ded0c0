"""The connection to one tab: sends commands, reads events, and limits every wait."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager

from flysidecars.browser.endpoint import Tab
from flysidecars.sdk import Call, JsonObject, ToolFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from websockets.sync.client import ClientConnection

COMMAND_S = 10.0
"""The longest wait for the answer to a command that neither loads a page nor runs a script, seconds."""
OPEN_S = 5.0
"""The longest wait for a tab to accept a connection, and for its first answer, seconds."""
CANCEL_CHECK_S = 0.25
"""Seconds between two checks whether the call was cancelled, during a wait."""
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_DIALOGS = 20
TAB_GONE = "the tab was closed, or the browser ended"


class CommandFailed(Exception):
    """The browser answered a command with an error. The text is the browser's."""


class TabSession:
    """A connection to a tab. It answers dialogs at once: it closes an alert and declines all others.

    The methods raise `CommandFailed`, and `ToolFailed`: `tab-crashed`, `tab-closed`, `not-responding`,
    `too-big`, `browser-failed`.
    """

    def __init__(self, call: Call, tab: Tab, socket: ClientConnection) -> None:
        self._call = call
        self.tab = tab
        self._socket = socket
        self._last = 0
        self._answers: dict[int, JsonObject] = {}
        self.dialogs: list[JsonObject] = []
        """The dialogs that the page opened: type, message, and whether they were accepted."""
        self.frame = ""
        """The main frame's id, once it is known. Load events of other frames are ignored."""
        self.loading = False
        """Whether the main frame is loading a page."""
        self.scheduled = False
        """Whether the main frame will begin to load a page without delay."""
        self.document = ""
        """The loader id of the last document that the main frame navigated to in this session."""
        self.loaded: set[str] = set()
        """The loader ids of the documents that are complete."""

    def command(self, method: str, *, limit_s: float = COMMAND_S, **params: object) -> JsonObject:
        """Send a command and return its result. Waits at most `limit_s` seconds."""
        number = self.send(method, **params)
        if not self.wait(lambda: number in self._answers, limit_s):
            raise ToolFailed(
                "not-responding",
                f"the page did not answer within {limit_s:g} s",
                remedy="answer a dialog that may be open in that tab of the browser, or open another tab",
                method=method,
            )
        answer = self._answers.pop(number)
        error = answer.get("error")
        if isinstance(error, dict):
            raise CommandFailed(str(error.get("message", "refused"))[:400])
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    def send(self, method: str, **params: object) -> int:
        """Send a command without waiting for its result, and return its number."""
        from websockets.exceptions import ConnectionClosed

        self._last += 1
        try:
            self._socket.send(json.dumps({"id": self._last, "method": method, "params": params}))
        except ConnectionClosed as closed:
            raise ToolFailed("tab-closed", TAB_GONE) from closed
        return self._last

    def pause(self, limit_s: float) -> None:
        """Wait for one turn of the page's event loop, at most `limit_s` seconds."""
        turn = "new Promise(done => setTimeout(done, 0))"
        number = self.send("Runtime.evaluate", expression=turn, awaitPromise=True)
        self.wait(lambda: number in self._answers, limit_s)
        self._answers.pop(number, None)

    def wait(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Read events until `condition` returns true; False after `limit_s` seconds."""
        end = time.monotonic() + limit_s
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._call.raise_if_cancelled()
            self._receive(min(left, CANCEL_CHECK_S))
        return True

    def _receive(self, limit_s: float) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            data = self._socket.recv(timeout=limit_s)
        except TimeoutError:
            return
        except ConnectionClosed as closed:
            # 1009 (message too big) is sent by our own side, on a message above `max_size`.
            if closed.sent is not None and closed.sent.code == 1009:
                raise ToolFailed("too-big", "the page's answer is larger than 64 MiB") from closed
            raise ToolFailed("tab-closed", TAB_GONE) from closed
        try:
            message = json.loads(data)
        except (ValueError, RecursionError) as broken:
            raise ToolFailed("browser-failed", "the browser sent a message that is not JSON") from broken
        if not isinstance(message, dict):
            return
        number, params = message.get("id"), message.get("params")
        if isinstance(number, int):
            self._answers[number] = message
        elif isinstance(params, dict):
            self._event(str(message.get("method")), params)

    def _event(self, method: str, params: JsonObject) -> None:
        if method == "Page.javascriptDialogOpening":
            self._answer_dialog(params)
        elif method == "Inspector.targetCrashed":
            raise ToolFailed("tab-crashed", "the tab crashed", remedy="open the page again with browser.open")
        elif method == "Page.frameNavigated":
            frame = params.get("frame")
            if isinstance(frame, dict) and "parentId" not in frame:
                self.document = str(frame.get("loaderId"))
        elif params.get("frameId") == self.frame:
            if method == "Page.lifecycleEvent" and params.get("name") == "load":
                self.loaded.add(str(params.get("loaderId")))
            elif method in ("Page.frameScheduledNavigation", "Page.frameClearedScheduledNavigation"):
                self.scheduled = method == "Page.frameScheduledNavigation" and params.get("delay") == 0
            elif method in ("Page.frameStartedLoading", "Page.frameStartedNavigating"):
                self.loading = True
            elif method == "Page.frameStoppedLoading":
                self.loading = False

    def _answer_dialog(self, params: JsonObject) -> None:
        # A dialog blocks the page, so every command to it would time out until it is answered.
        kind = str(params.get("type"))
        accepted = kind == "alert"
        if len(self.dialogs) < MAX_DIALOGS:
            text = str(params.get("message", ""))[:1000]
            self.dialogs.append({"type": kind, "message": text, "accepted": accepted})
        self.send("Page.handleJavaScriptDialog", accept=accepted)


@contextmanager
def attach(call: Call, tab: Tab) -> Iterator[TabSession]:
    """Connect to a tab for the block, with its events on and downloads denied.

    Raises what `TabSession` raises, and `ToolFailed`: `tab-closed` if the tab accepts no connection,
    `browser-failed` for a command that the browser refused in the block.
    """
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect

    try:
        stream = tab.endpoint.connect(OPEN_S)
        # The library's thread reads the socket; with a time limit it would end in a pause between events.
        stream.settimeout(None)
        socket = connect(
            tab.socket,
            sock=stream,
            proxy=None,
            compression=None,
            open_timeout=OPEN_S,
            close_timeout=1,
            max_size=MAX_MESSAGE_BYTES,
            user_agent_header=None,
        )
    except (OSError, WebSocketException, ValueError) as failed:
        # ValueError: a redirect, which the library does not follow on a socket that it did not open.
        raise ToolFailed("tab-closed", "the tab accepts no connection") from failed
    with socket:
        session = TabSession(call, tab, socket)
        try:
            session.command("Page.enable", limit_s=OPEN_S)
            session.command("Page.setLifecycleEventsEnabled", enabled=True)
            session.command("Inspector.enable")
            session.command("Browser.setDownloadBehavior", behavior="deny")
            yield session
        except CommandFailed as refused:
            raise ToolFailed("browser-failed", f"the browser refused: {refused}") from refused
