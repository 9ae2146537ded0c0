"""Finds an element of the page by ref or CSS selector, brings it into view, and gives it the focus."""

from __future__ import annotations

import math

from flysidecars.browser.accessibility_tree import document_mark, make_ref, parse_ref
from flysidecars.browser.page import BrowserPage
from flysidecars.browser.session import CommandFailed
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed
from flysidecars.sdk.call import object_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

STALE_HINT = "take a new browser.snapshot"
# `ownerDocument.hasFocus` says whether the window is in front, too; `contains` accepts a child with focus.
HAS_FOCUS = """function () {
  const root = this.getRootNode();
  const focused = root.activeElement;
  return this.isConnected && this.ownerDocument.hasFocus() && focused !== null && this.contains(focused);
}"""


class Element:
    """An element of the page, by its backend node id in the browser."""

    __slots__ = ("backend", "page", "ref")

    def __init__(self, page: BrowserPage, backend: int) -> None:
        self.page = page
        self.backend = backend
        self.ref = make_ref(backend, document_mark(page.session.tab.id, page.loader))

    def point(self) -> tuple[float, float]:
        """Scroll the element into view and return a point of it, in CSS pixels of the viewport.

        A click at the point hits the element. Raises `ToolFailed`: `not-visible`, or `covered`, which names
        the element that lies over it.
        """
        session = self.page.session
        session.command("Page.bringToFront")
        try:
            session.command("DOM.scrollIntoViewIfNeeded", backendNodeId=self.backend)
            quads = session.command("DOM.getContentQuads", backendNodeId=self.backend).get("quads")
        except CommandFailed as refused:
            raise ToolFailed("not-visible", "the element is not shown on the page") from refused
        view = object_field(session.command("Page.getLayoutMetrics"), "cssLayoutViewport")
        width, height = _number(view.get("clientWidth")), _number(view.get("clientHeight"))
        scrolled = _number(view.get("pageX")), _number(view.get("pageY"))
        own: set[int] | None = None
        over = 0
        for x, y in _middles(quads, width, height):
            hit = self._node_at(x + scrolled[0], y + scrolled[1])
            own = own if own is not None else self._own_numbers()
            if hit in own:
                return x, y
            over = hit or over
        if over:
            raise ToolFailed("covered", f"{self._describe(over)} lies over the element: nothing was clicked")
        raise ToolFailed("not-visible", "no part of the element is in view")

    def focus(self) -> None:
        """Give the element the keyboard focus. Raises `ToolFailed` (`not-focusable`)."""
        session = self.page.session
        try:
            session.command("DOM.scrollIntoViewIfNeeded", backendNodeId=self.backend)
            session.command("Page.bringToFront")
            # Without this the page has no focus while another window or tab of the user is in front.
            session.command("Emulation.setFocusEmulationEnabled", enabled=True)
            session.command("DOM.focus", backendNodeId=self.backend)
        except CommandFailed as refused:
            raise ToolFailed("not-focusable", "the element takes no keyboard focus") from refused
        if not self.has_focus():
            raise ToolFailed("not-focusable", "the element did not keep the focus")

    def has_focus(self) -> bool:
        """Whether the keyboard focus is on the element or inside it."""
        session = self.page.session
        try:
            answer = session.command("DOM.resolveNode", backendNodeId=self.backend)
            found = session.command(
                "Runtime.callFunctionOn",
                objectId=object_field(answer, "object").get("objectId"),
                functionDeclaration=HAS_FOCUS,
                returnByValue=True,
            )
        except CommandFailed:
            return False
        return object_field(found, "result").get("value") is True

    def _node_at(self, x: float, y: float) -> int:
        """The id of the innermost element at a point of the document; 0 for none."""
        # This command counts from the document's corner; all others count from the viewport's.
        try:
            found = self.page.session.command("DOM.getNodeForLocation", x=int(x), y=int(y))
        except CommandFailed:
            return 0
        number = found.get("backendNodeId")
        return number if isinstance(number, int) else 0

    def _own_numbers(self) -> set[int]:
        """The backend node ids of the element and of all its descendants."""
        described = self.page.session.command(
            "DOM.describeNode", backendNodeId=self.backend, depth=-1, pierce=True
        )
        return set(_all_numbers(object_field(described, "node")))

    def _describe(self, backend: int) -> str:
        described = self.page.session.command("DOM.describeNode", backendNodeId=backend)
        node = object_field(described, "node")
        name = str(node.get("nodeName", "another element")).lower()[:60]
        attributes = node.get("attributes")
        pairs = attributes if isinstance(attributes, list) else []
        values = dict(zip(pairs[::2], pairs[1::2], strict=False))
        return (
            f"<{name}"
            + "".join(f' {key}="{str(values[key])[:60]}"' for key in ("id", "class") if key in values)
            + ">"
        )


def find_element(call: Call, page: BrowserPage, key: str = "target") -> Element:
    """The element that the input names at `key`.

    Raises `InvalidInput` and `ToolFailed`: `stale-target`, `no-such-target`, `ambiguous-target`, and
    `target-changed` if a person approved another element.
    """
    target = call.text(key)
    ref = parse_ref(target)
    element = Element(page, ref[0]) if ref else Element(page, _selected(page, target, key))
    if ref and element.ref != target:
        raise ToolFailed("stale-target", "the page has changed since that snapshot", remedy=STALE_HINT)
    try:
        page.session.command("DOM.describeNode", backendNodeId=element.backend)
    except CommandFailed as gone:
        raise ToolFailed("stale-target", "the element is gone from the page", remedy=STALE_HINT) from gone
    approved = object_field(call.raw, "target").get("ref")
    if approved and approved != element.ref:
        raise ToolFailed("target-changed", "this is not the element that was approved")
    return element


def _selected(page: BrowserPage, selector: str, key: str) -> int:
    session = page.session
    root = object_field(session.command("DOM.getDocument", depth=0), "root").get("nodeId")
    try:
        found = session.command("DOM.querySelectorAll", nodeId=root, selector=selector).get("nodeIds")
    except CommandFailed as refused:
        raise InvalidInput(key, "is neither a ref of browser.snapshot nor a CSS selector") from refused
    numbers = found if isinstance(found, list) else []
    if not numbers:
        raise ToolFailed("no-such-target", "no element of the page matches that selector", remedy=STALE_HINT)
    if len(numbers) > 1:
        message = f"{len(numbers)} elements match that selector; name one"
        raise ToolFailed("ambiguous-target", message, count=len(numbers), remedy=STALE_HINT)
    node = object_field(session.command("DOM.describeNode", nodeId=numbers[0]), "node")
    backend = node.get("backendNodeId")
    if not isinstance(backend, int):
        raise ToolFailed("no-such-target", "the element is gone", remedy=STALE_HINT)
    return backend


def _all_numbers(node: JsonObject) -> Iterator[int]:
    stack = [node]
    while stack:
        one = stack.pop()
        number = one.get("backendNodeId")
        if isinstance(number, int):
            yield number
        for key in ("children", "shadowRoots", "pseudoElements"):
            inner = one.get(key)
            stack += [child for child in inner if isinstance(child, dict)] if isinstance(inner, list) else []
        document = one.get("contentDocument")
        if isinstance(document, dict):
            stack.append(document)


def _middles(quads: object, width: float, height: float) -> Iterator[tuple[float, float]]:
    """The middle of the visible part of each of the element's boxes, the largest box first."""
    boxes = []
    for quad in quads if isinstance(quads, list) else ():
        if not isinstance(quad, list) or len(quad) != 8:
            continue
        points = [_number(value) for value in quad]
        left, right = max(0.0, min(points[::2])), min(width, max(points[::2]))
        top, bottom = max(0.0, min(points[1::2])), min(height, max(points[1::2]))
        if right - left >= 1 and bottom - top >= 1:
            boxes.append(((right - left) * (bottom - top), (left + right) / 2, (top + bottom) / 2))
    for _, x, y in sorted(boxes, reverse=True):
        yield math.floor(x), math.floor(y)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
