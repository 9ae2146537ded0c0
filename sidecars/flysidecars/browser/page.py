"""The page in a tab: which document it is, where it is, and loading another."""

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
"""Longest wait for a page to load."""
SETTLE_S = 10.0
"""Longest wait for a page that a click or a key has begun to load."""
TURN_S = 2.0
"""Longest wait for the page to take its next turn."""
MAX_URL = 8192
MAX_TITLE = 1000


class BrowserPage:
    """An attached tab and the document in it."""

    __slots__ = ("frames", "loader", "session")

    def __init__(self, session: TabSession) -> None:
        self.session = session
        self.read_state()

    def read_state(self) -> None:
        """See which document is there now. `frames`: the main frame's id, then those of its own process;
        `loader` changes with each document of the main frame."""
        tree = object_field(self.session.command("Page.getFrameTree"), "frameTree")
        main = object_field(tree, "frame")
        self.frames = list(_frames(tree))
        self.loader = str(main.get("loaderId", ""))
        self.session.frame = self.frames[0] if self.frames else ""

    def location(self) -> JsonObject:
        """`url`, `title` and `tab` of what is shown now; `dialogs` where the page asked something."""
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

    def go(self, url: str) -> None:
        """Load an address and wait until it has loaded. Raises `ToolFailed`: `navigation-failed`,
        `navigation-timeout`."""
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
        """Wait for a page that the last input has begun to load, as far as that has begun."""
        session = self.session
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
    """The input's `url`; raises `InvalidInput` for anything but http, https and about:blank."""
    url = call.text("url")
    if len(url) > MAX_URL or not (url == "about:blank" or url.lower().startswith(("http://", "https://"))):
        raise InvalidInput(
            "url", "an address that begins with http:// or https://, or about:blank, is needed"
        )
    return url


@contextmanager
def current_page(call: Call) -> Iterator[BrowserPage]:
    """The page of the tab that was active last; where the kernel names one, of exactly that tab, and where
    it names the address that a person saw, only while it still shows that. Raises `Unavailable`,
    `ToolFailed` (`no-page`, `target-changed`)."""
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
        raise ToolFailed("no-page", "the browser shows no web page", remedy="open one: browser.open")
    return tabs[0]
