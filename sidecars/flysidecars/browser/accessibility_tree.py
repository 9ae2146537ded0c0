"""Turns the browser's accessibility tree into a flat list of elements in reading order. Pure functions."""

from __future__ import annotations

import json
import re

from flysidecars.sdk import JsonObject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 120_000
"""JSON bytes of the listed elements; below the tool's result limit, with room for address and title."""
MAX_NODES = 5000
"""Elements in a list."""
MAX_TEXT = 1000
"""Characters of a name or a value."""
MAX_DEPTH = 200
"""The largest `depth` of an element; deeper elements are listed with this one."""
_DROPPED = frozenset(("none", "generic", "InlineTextBox", "LineBreak", "ListMarker", "Iframe"))
"""Roles of elements that are not listed themselves; their children are."""
_TRUE = ("disabled", "focused", "modal", "multiselectable", "readonly", "required", "selected", "busy")
_TRISTATE = ("checked", "pressed", "expanded")
_REF = re.compile(r"e([1-9][0-9]{0,9})-([0-9a-f]{8})")


def document_mark(tab: str, loader: str) -> str:
    """Eight hex digits that name a document. Each navigation gives the tab another mark."""
    from hashlib import sha256

    return sha256(f"{tab}\n{loader}".encode()).hexdigest()[:8]


def make_ref(backend: int, mark: str) -> str:
    """The ref of an element: its backend node id in the browser and the mark of its document."""
    return f"e{backend}-{mark}"


def parse_ref(target: str) -> tuple[int, str] | None:
    """The backend node id and the document mark of a ref; None for any other text (a CSS selector)."""
    found = _REF.fullmatch(target)
    return (int(found[1]), found[2]) if found else None


class TreeListing:
    """The listed elements, and how many the page has in all."""

    __slots__ = ("nodes", "total")

    def __init__(self, nodes: list[JsonObject], total: int) -> None:
        self.nodes = nodes
        self.total = total


def list_elements(
    trees: list[list[JsonObject]], mark: str, *, limit: int = MAX_NODES, within: int | None = None
) -> TreeListing:
    """The elements of each frame's tree, the main frame first; at most `limit` of them and `MAX_BYTES`.

    `trees` are the nodes that the browser returned for each frame. With `within`, a backend node id, only
    that element and its descendants are listed.
    """
    nodes: list[JsonObject] = []
    total, size = 0, 0
    for tree in trees:
        for node in _TreeReader(tree, mark).read(within):
            total += 1
            size += len(json.dumps(node)) + 2
            if len(nodes) < limit and size <= MAX_BYTES:
                nodes.append(node)
    return TreeListing(nodes, total)


class _TreeReader:
    """Reads the elements of one frame's tree."""

    def __init__(self, tree: list[JsonObject], mark: str) -> None:
        self._by_id = {str(node.get("nodeId")): node for node in tree}
        self._mark = mark

    def read(self, within: int | None) -> Iterator[JsonObject]:
        rows = self._by_id.values()
        if within is None:
            roots = [row for row in rows if row.get("parentId") is None]
        else:
            roots = [row for row in rows if row.get("backendDOMNodeId") == within]
        # The tree comes from outside: a node may be its own descendant, and depth has no limit. So there is
        # no recursion, and every node is read once.
        seen: set[str] = set()
        stack = [(row, 0, 0, "") for row in reversed(roots)]
        while stack:
            row, depth, owner, context = stack.pop()
            name = str(row.get("nodeId"))
            if name in seen:
                continue
            seen.add(name)
            backend = row.get("backendDOMNodeId")
            here = backend if isinstance(backend, int) and _text(row, "role") != "StaticText" else owner
            shown = self._element(row, depth, here, context, whole=within is not None and backend == within)
            if shown is not None:
                yield shown
                context = f"{shown.get('name', '')}\n{shown.get('value', '')}".strip() or context
            deeper = min(depth + (shown is not None), MAX_DEPTH)
            children = row.get("childIds")
            inner = reversed(children if isinstance(children, list) else [])
            known = (self._by_id[str(child)] for child in inner if str(child) in self._by_id)
            stack.extend((child, deeper, here, context) for child in known)

    def _element(
        self, row: JsonObject, depth: int, here: int, context: str, *, whole: bool
    ) -> JsonObject | None:
        """The element as it is listed; None if it has no content of its own, or if the name of an element
        around it (`context`) contains its text already."""
        role, name = _text(row, "role"), _text(row, "name")
        if not here or (not whole and (row.get("ignored") is True or role in _DROPPED)):
            return None
        if role == "StaticText":
            if not name.strip() or name.strip() in context:
                return None
            role = "text"
        node: JsonObject = {"target": make_ref(here, self._mark), "role": role or "none"}
        if name:
            node["name"] = name
        value = _text(row, "value")
        if value:
            node["value"] = value
        states = list(_states(row))
        if states:
            node["states"] = states
        if depth:
            node["depth"] = depth
        return node


def _states(row: JsonObject) -> Iterator[str]:
    properties = row.get("properties")
    for item in properties if isinstance(properties, list) else ():
        inner = item.get("value") if isinstance(item, dict) else None
        name, value = item.get("name"), inner.get("value") if isinstance(inner, dict) else None
        if name in _TRUE and value is True:
            yield str(name)
        elif name in _TRISTATE and value is not None:
            word = {True: "", "true": "", False: "not ", "false": "not ", "mixed": "half "}.get(value)
            if word is not None:
                yield f"{word}{name}"
        elif name == "invalid" and value not in (None, False, "false"):
            yield "invalid"
        elif name == "level" and isinstance(value, int):
            yield f"level {value}"


def _text(row: JsonObject, key: str) -> str:
    found = row.get(key)
    value = found.get("value") if isinstance(found, dict) else None
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)[:MAX_TEXT]
    return ""
