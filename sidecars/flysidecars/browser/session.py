"""One tab's commands and events, with a limit on every wait."""

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
"""Longest wait for the answer to a command that does not load a page or run a script."""
OPEN_S = 5.0
"""Longest wait for a tab to take a connection, and to answer for the first time."""
SLICE_S = 0.25
"""So often a wait looks whether the call was taken back."""
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
DIALOGS_TOLD = 20
GONE = "the tab was closed, or the browser ended"


class CommandFailed(Exception):
    """The browser refused a command; the text is the browser's own."""


class TabSession:
    """A connection to a tab. Dialogs are answered at once: an alert is closed, everything else is declined.

    Raises `ToolFailed`: `tab-crashed`, `tab-closed`, `not-responding`, `too-big`; `CommandFailed`.
    """

    def __init__(self, call: Call, tab: Tab, socket: ClientConnection) -> None:
        self._call = call
        self.tab = tab
        self._socket = socket
        self._last = 0
        self._answers: dict[int, JsonObject] = {}
        self.dialogs: list[JsonObject] = []
        """What the page asked meanwhile: type, message, whether it was accepted."""
        self.frame = ""
        """The main frame's id, once it is known; only its loading is followed."""
        self.loading = False
        """Whether the main frame has begun to load another page and has not ended."""
        self.scheduled = False
        """Whether the main frame is about to."""
        self.document = ""
        """The loader of the document that the main frame went to last, since this session began."""
        self.loaded: set[str] = set()
        """Loaders whose document has loaded whole."""

    def command(self, method: str, *, limit_s: float = COMMAND_S, **params: object) -> JsonObject:
        """The result of a command."""
        number = self.send(method, **params)
        if not self.wait(lambda: number in self._answers, limit_s):
            raise ToolFailed(
                "not-responding",
                f"the page did not answer within {limit_s:g} s",
                remedy="a dialog may be open in that tab: answer it in the browser, or open another tab",
                method=method,
            )
        answer = self._answers.pop(number)
        error = answer.get("error")
        if isinstance(error, dict):
            raise CommandFailed(str(error.get("message", "refused"))[:400])
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    def send(self, method: str, **params: object) -> int:
        """Send a command and do not wait; its number."""
        from websockets.exceptions import ConnectionClosed

        self._last += 1
        try:
            self._socket.send(json.dumps({"id": self._last, "method": method, "params": params}))
        except ConnectionClosed as closed:
            raise ToolFailed("tab-closed", GONE) from closed
        return self._last

    def pause(self, limit_s: float) -> None:
        """Let the page do what it has put off to its next turn, for at most so long."""
        turn = "new Promise(done => setTimeout(done, 0))"
        number = self.send("Runtime.evaluate", expression=turn, awaitPromise=True)
        self.wait(lambda: number in self._answers, limit_s)
        self._answers.pop(number, None)

    def wait(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Take in events until `condition`; False when the time is over."""
        end = time.monotonic() + limit_s
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._call.raise_if_cancelled()
            self._take(min(left, SLICE_S))
        return True

    def _take(self, limit_s: float) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            data = self._socket.recv(timeout=limit_s)
        except TimeoutError:
            return
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code == 1009:
                raise ToolFailed("too-big", "the page's answer is larger than 64 MiB") from closed
            raise ToolFailed("tab-closed", GONE) from closed
        try:
            message = json.loads(data)
        except (ValueError, RecursionError) as broken:
            raise ToolFailed("browser-failed", "the browser sent what is no JSON") from broken
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
            raise ToolFailed("tab-crashed", "the tab crashed", remedy="open the page anew: browser.open")
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
        kind = str(params.get("type"))
        accepted = kind == "alert"
        if len(self.dialogs) < DIALOGS_TOLD:
            text = str(params.get("message", ""))[:1000]
            self.dialogs.append({"type": kind, "message": text, "accepted": accepted})
        self.send("Page.handleJavaScriptDialog", accept=accepted)


@contextmanager
def attach(call: Call, tab: Tab) -> Iterator[TabSession]:
    """A session with the tab: its events are on and nothing that it downloads is saved. Raises as `Session`
    does, and `ToolFailed`: `tab-closed` where the tab takes no connection, `browser-failed` for a command
    that the browser refused."""
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect

    try:
        stream = tab.endpoint.connect(OPEN_S)
        stream.settimeout(None)  # the library's reader waits for events however long none comes
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
        # ValueError: a redirect, which the library does not follow over a socket that it was handed.
        raise ToolFailed("tab-closed", "the tab takes no connection") from failed
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
