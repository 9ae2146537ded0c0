"""Turns the answers of language servers into rows of one form. Anything that breaks the protocol is left
out."""

from __future__ import annotations

import json

from flysidecars.sdk import JsonObject
from flysidecars.utility.lsp.positions import DocumentPositions

MAX_ROWS = 5000
MAX_BYTES = 512 * 1024
"""Bytes of the rows of an answer as JSON."""
_NAME = 400
_MESSAGE = 4000
_DEPTH = 64
KINDS = (
    *("file", "module", "namespace", "package", "class", "method", "property", "field", "constructor"),
    *("enum", "interface", "function", "variable", "constant", "string", "number", "boolean", "array"),
    *("object", "key", "null", "enum-member", "struct", "event", "operator", "type-parameter"),
)
"""The names of the symbol kinds 1 to 26 of the protocol."""
SEVERITIES = ("error", "warning", "information", "hint")


def symbols_of(result: object, places: DocumentPositions, path: str | None) -> list[JsonObject]:
    """The symbols of an answer to `textDocument/documentSymbol` (nested or flat, all in `path`) or, if
    `path` is None, to `workspace/symbol` (only those below the project)."""
    found: list[JsonObject] = []
    waiting = [(item, "", 0) for item in reversed(_dicts(result))]
    while waiting:
        item, container, depth = waiting.pop()
        row = _symbol(item, container, places, path)
        if row is not None:
            found.append(row)
        name = str(item.get("name", ""))[:_NAME]
        if depth < _DEPTH:
            waiting += [(child, name, depth + 1) for child in reversed(_dicts(item.get("children")))]
    return found


def diagnostics_of(items: object, places: DocumentPositions, path: str) -> list[JsonObject]:
    """The diagnostics of one file."""
    found: list[JsonObject] = []
    for item in _dicts(items):
        message = item.get("message")
        if isinstance(message, dict):
            message = message.get("value")
        if not isinstance(message, str):
            continue
        row: JsonObject = {"message": message[:_MESSAGE], "path": path}
        severity = item.get("severity")
        if isinstance(severity, int) and 1 <= severity <= len(SEVERITIES):
            row["severity"] = SEVERITIES[severity - 1]
        for key in ("source", "code"):
            if isinstance(item.get(key), str | int):
                row[key] = str(item[key])[:_NAME]
        found.append(row | places.span(path, item.get("range")))
    return found


def sorted_rows(rows: list[JsonObject]) -> list[JsonObject]:
    """The rows by path, line and column. Rows without a position come first."""
    return sorted(rows, key=lambda row: (str(row.get("path")), _number(row, "line"), _number(row, "column")))


def bounded_answer(name: str, rows: list[JsonObject]) -> JsonObject:
    """The answer with as many rows as fit. `truncated` is the number of those that do not."""
    kept: list[JsonObject] = []
    size = 0
    for row in rows[:MAX_ROWS]:
        size += len(json.dumps(row))
        if size > MAX_BYTES:
            break
        kept.append(row)
    return {name: kept} if len(kept) == len(rows) else {name: kept, "truncated": len(rows) - len(kept)}


def _symbol(
    item: JsonObject, container: str, places: DocumentPositions, path: str | None
) -> JsonObject | None:
    name, kind = item.get("name"), item.get("kind")
    location = item.get("location")
    place = location if isinstance(location, dict) else {}
    where = path or places.relative(place.get("uri"))
    if not isinstance(name, str) or where is None:
        return None
    row: JsonObject = {"name": name[:_NAME], "path": where}
    if isinstance(kind, int) and 1 <= kind <= len(KINDS):
        row["kind"] = KINDS[kind - 1]
    around = item.get("containerName") or container
    if isinstance(around, str) and around:
        row["container"] = around[:_NAME]
    whole = places.span(where, item.get("range", place.get("range")))
    return row | whole | _start(places.span(where, item.get("selectionRange")))


def _start(span: JsonObject) -> JsonObject:
    """The start of a span: the row of a symbol begins at its name, not at a comment or decorator."""
    return {key: value for key, value in span.items() if key in ("line", "column")}


def _dicts(value: object) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(row: JsonObject, key: str) -> int:
    value = row.get(key)
    return value if isinstance(value, int) else 0
