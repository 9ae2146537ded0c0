"""Answers the requests that a language server sends to its client.

The client applies no edit, shows no document and runs no command, whatever the server asks for.
"""

from __future__ import annotations

from flysidecars.sdk import JsonObject

_METHOD_NOT_FOUND = -32601
_NULL_RESULTS = frozenset(
    (
        "client/registerCapability",
        "client/unregisterCapability",
        "window/workDoneProgress/create",
        "window/showMessageRequest",
        "workspace/codeLens/refresh",
        "workspace/diagnostic/refresh",
        "workspace/inlayHint/refresh",
        "workspace/semanticTokens/refresh",
    )
)
"""Requests that are answered with null: received, and nothing chosen."""


def answer_request(request: JsonObject, settings: JsonObject, folders: list[JsonObject]) -> JsonObject:
    """The response to a server's request. `settings` come from the entry, `folders` are the workspace's."""
    method, raw_params = request.get("method"), request.get("params")
    params = raw_params if isinstance(raw_params, dict) else {}
    answer: JsonObject = {"id": request.get("id")}
    if method == "workspace/configuration":
        return answer | {"result": _configuration(params.get("items"), settings)}
    if method == "workspace/workspaceFolders":
        return answer | {"result": folders}
    if method == "workspace/applyEdit":
        return answer | {"result": {"applied": False, "failureReason": "this client only reads"}}
    if method == "window/showDocument":
        return answer | {"result": {"success": False}}
    if method in _NULL_RESULTS:
        return answer | {"result": None}
    return answer | {"error": {"code": _METHOD_NOT_FOUND, "message": "this client does not support that"}}


def _configuration(items: object, settings: JsonObject) -> list[object]:
    """One value for each item, null if there is none."""
    if not isinstance(items, list):
        return []
    return [_section(settings, item.get("section") if isinstance(item, dict) else None) for item in items]


def _section(settings: JsonObject, section: object) -> object:
    found: object = settings
    for part in section.split(".") if isinstance(section, str) and section else ():
        found = found.get(part) if isinstance(found, dict) else None
    return found
