"""The page in a tab: its current document and address, and the loading of another address."""

from __future__ import annotations

from contextlib import contextmanager

from flysidecars.browser.endpoint import Tab, endpoint_of, pages
from flysidecars.browser.session import TabSession, attach
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed
from flysidecars.sdk.call import object_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LOAD_S = 20.0
"""The longest wait for a page to load, seconds."""
SETTLE_S = 10.0
"""The longest wait for a page that a click or a key has begun to load, seconds."""
TURN_S = 2.0
"""The longest wait for one turn of the page's event loop, seconds."""
MAX_URL = 8192
MAX_TITLE = 1000


class BrowserPage:
    """An attached tab and the document in it."""

    __slots__ = ("frames", "loader", "session")

    def __init__(self, session: TabSession) -> None:
        self.session = session
        self.read_state()

    def read_state(self) -> None:
        """Read which document is loaded now, into `frames` and `loader`.

        `frames` is the main frame's id, then the ids of the frames in the same process. `loader` is the id
        of the main frame's document; each navigation gives a new one.
        """
        tree = object_field(self.session.command("Page.getFrameTree"), "frameTree")
        main = object_field(tree, "frame")
        self.frames = list(_frames(tree))
        self.loader = str(main.get("loaderId", ""))
        self.session.frame = self.frames[0] if self.frames else ""

    def location(self) -> JsonObject:
        """`url`, `title` and `tab` of the current page, and `dialogs` if the page opened any."""
        history = self.session.command("Page.getNavigationHistory")
        entries, index = history.get("entries"), history.get("currentIndex")
        row: object = None
        if isinstance(entries, list) and isinstance(index, int) and 0 <= index < len(entries):
            row = entries[index]
        fields = row if isinstance(row, dict) else {}
        found: JsonObject = {
            "url": str(fields.get("url", ""))[:MAX_URL],
            "title": str(fields.get("title", ""))[:MAX_TITLE],
            "tab": self.session.tab.id,
        }
        if self.session.dialogs:
            found["dialogs"] = self.session.dialogs
        return found

    def load(self, url: str) -> None:
        """Load an address and wait until the document is complete.

        Raises `ToolFailed`: `navigation-failed`, `navigation-timeout`.
        """
        session, before = self.session, self.session.document
        answer = session.command("Page.navigate", limit_s=LOAD_S, url=url)
        error = answer.get("errorText")
        if error or answer.get("isDownload"):
            why = str(error or "it is a download")[:200]
            raise ToolFailed(
                "navigation-failed", f"the page did not load: {why}", reason=why, dialogs=session.dialogs
            )
        if "loaderId" in answer and not session.wait(lambda: self._has_loaded(before), LOAD_S):
            session.send("Page.stopLoading")
            raise ToolFailed("navigation-timeout", f"the page did not load within {LOAD_S:g} s")
        self.read_state()

    def _has_loaded(self, before: str) -> bool:
        return self.session.document != before and self.session.document in self.session.loaded

    def settle(self) -> None:
        """Wait until a page that the last input has begun to load is loaded. Returns at once if none is."""
        session = self.session
        # A click may start the load only in the page's next turn, as a timer or a promise; after two turns
        # the browser has reported it as scheduled or started.
        session.pause(TURN_S)
        session.pause(TURN_S)
        session.wait(lambda: not session.scheduled or session.loading, TURN_S)
        session.wait(lambda: not session.loading, SETTLE_S)
        self.read_state()


def _frames(tree: JsonObject) -> Iterator[str]:
    frame = object_field(tree, "frame")
    if isinstance(frame.get("id"), str):
        yield str(frame["id"])
    children = tree.get("childFrames")
    for child in children if isinstance(children, list) else ():
        if isinstance(child, dict):
            yield from _frames(child)


def web_address(call: Call) -> str:
    """The input's `url`. Raises `InvalidInput` for anything but http, https and about:blank."""
    url = call.text("url")
    if len(url) > MAX_URL or not (url == "about:blank" or url.lower().startswith(("http://", "https://"))):
        raise InvalidInput(
            "url", "an address that begins with http:// or https://, or about:blank, is needed"
        )
    return url


@contextmanager
def current_page(call: Call) -> Iterator[BrowserPage]:
    """The page of the most recently active tab, for the block.

    If the request has a `target` (the tab and the address that a person approved), it is the page of that
    tab. Raises `Unavailable` and `ToolFailed`: `no-page`, and `target-changed` if the tab is gone or shows
    another address.
    """
    seen = object_field(call.raw, "target")
    with attach(call, _current(call, seen)) as session:
        page = BrowserPage(session)
        if "url" in seen and page.location()["url"] != seen["url"]:
            raise ToolFailed("target-changed", "the tab shows another page than the one that was approved")
        yield page


def _current(call: Call, seen: JsonObject) -> Tab:
    tabs = pages(endpoint_of(call.config))
    if seen:
        tabs = [tab for tab in tabs if tab.id == seen.get("tab")]
        if not tabs:
            raise ToolFailed("target-changed", "the tab that was approved is gone")
    if not tabs:
        raise ToolFailed("no-page", "the browser shows no web page", remedy="open one with browser.open")
    return tabs[0]
