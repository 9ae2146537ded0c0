"""The browser tools that only read: snapshot and screenshot."""

from __future__ import annotations

from flysidecars.browser.accessibility_tree import MAX_NODES, document_mark, list_elements
from flysidecars.browser.element import find_element
from flysidecars.browser.page import BrowserPage, current_page
from flysidecars.browser.session import CommandFailed
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed
from flysidecars.sdk.call import object_field

MAX_FRAMES = 50
MAX_SIDE = 16_384
"""The largest width or height of a picture in pixels; the browser draws no larger ones."""
SCREENSHOT_S = 20.0
"""The longest wait for a picture, seconds."""


def snapshot(call: Call) -> JsonObject:
    """The accessibility tree of the page, or of one element."""
    limit = call.integer("limit", 1, MAX_NODES, MAX_NODES)
    with current_page(call) as page:
        element = find_element(call, page) if call.optional_text("target") is not None else None
        mark = document_mark(page.session.tab.id, page.loader)
        found = list_elements(
            list(_trees(page, element.backend if element and limit == 1 else None, only_root=limit == 1)),
            mark,
            limit=limit,
            within=element.backend if element else None,
        )
        if element is not None and not found.nodes:
            found.nodes.append({"target": element.ref, "role": "none"})
        answer: JsonObject = {**page.location(), "nodes": found.nodes}
        if limit > 1 and found.total > len(found.nodes):
            answer["truncated"] = True
            answer["total"] = found.total
        return answer


def _trees(page: BrowserPage, backend: int | None, *, only_root: bool) -> list[list[JsonObject]]:
    """The tree of each frame; with `backend`, that element alone; with `only_root`, the root alone."""
    session = page.session
    if only_root and backend is None:
        number = object_field(session.command("DOM.getDocument", depth=0), "root").get("backendNodeId")
        backend = number if isinstance(number, int) else None
    if backend is not None:
        found = session.command("Accessibility.getPartialAXTree", backendNodeId=backend, fetchRelatives=False)
        return [[{**row, "parentId": None, "childIds": []} for row in _rows(found.get("nodes"))]]
    trees = []
    for frame in page.frames[:MAX_FRAMES]:
        try:
            found = session.command("Accessibility.getFullAXTree", frameId=frame)
        except CommandFailed:
            continue  # the frame is gone, or belongs to another process
        trees.append(_rows(found.get("nodes")))
    return trees


def _rows(nodes: object) -> list[JsonObject]:
    return [row for row in nodes if isinstance(row, dict)] if isinstance(nodes, list) else []


def screenshot(call: Call) -> JsonObject:
    """Take a PNG of the visible part of the page, or of the whole page with `fullPage`.

    Raises `InvalidInput` and `ToolFailed`: `browser-failed`, `exists`, `outside-project`.
    """
    import base64

    from flysidecars.computer.screenshot import PNG_MAGIC, read_png
    from flysidecars.sdk.paths import write_new

    path = call.optional_text("path")
    if path is not None and not path.lower().endswith(".png"):
        raise InvalidInput("path", "a name that ends with .png is needed")
    if path is None and not call.artifact_dir:
        raise ToolFailed("invalid-request", "the request names neither artifactDir nor a path")
    with current_page(call) as page:
        clip = _whole_page_clip(page) if call.input.get("fullPage") is True else {}
        taken = page.session.command(
            "Page.captureScreenshot",
            limit_s=SCREENSHOT_S,
            format="png",
            captureBeyondViewport=bool(clip),
            **clip,
        )
        where = page.location()
    picture = read_png(base64.b64decode(str(taken.get("data", ""))))
    if picture is None:
        raise ToolFailed("browser-failed", "the browser returned no picture")
    if path is None:
        file = write_new(call.artifact_dir, "page.png", picture.png, PNG_MAGIC)
    else:
        file = write_new(call.project_dir, path, picture.png, PNG_MAGIC, call=call)
    answer: JsonObject = {"path": path or file, "width": picture.width, "height": picture.height}
    artifact = {"path": file, "mimeType": "image/png", "bytes": len(picture.png)}
    return {**answer, **where, "artifacts": [artifact]}


def _whole_page_clip(page: BrowserPage) -> JsonObject:
    size = object_field(page.session.command("Page.getLayoutMetrics"), "cssContentSize")
    clip: JsonObject = {"x": 0, "y": 0, "scale": 1}
    for key in ("width", "height"):
        value = size.get(key)
        clip[key] = max(1, min(value if isinstance(value, int | float) else 1, MAX_SIDE))
    return {"clip": clip}
