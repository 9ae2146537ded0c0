"""The tools `lsp.symbols` and `lsp.diagnostics`.

A one-shot process starts a server for its call and ends it. A persistent process keeps up to `MAX_WARM`
servers running and replaces those that fail.
"""

from __future__ import annotations

import atexit
import json
import os
import time

from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed, Unavailable
from flysidecars.sdk.call import object_field
from flysidecars.sdk.paths import in_project
from flysidecars.utility.lsp.positions import DocumentPositions, read_text, uri_of
from flysidecars.utility.lsp.results import bounded_answer, diagnostics_of, sorted_rows, symbols_of
from flysidecars.utility.lsp.session import open_document, start_server, wait_for_diagnostics
from flysidecars.utility.probe import NO_SERVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from flysidecars.utility.lsp.server import LanguageServer

DEFAULT_LIMIT_MS = 25_000
"""For a whole call; less than the 30 s after which the kernel ends a call by default."""
SHUTDOWN_S = 2.0
MAX_WARM = 4

_Key = tuple[str, ...]
_warm: dict[_Key, LanguageServer] = {}


def lsp_symbols(call: Call) -> JsonObject:
    """List the symbols of a file, or those of the project that match `query`.

    Raises `InvalidInput`, `Unavailable`, and `ToolFailed`: `not-offered`, `invalid-config`, and those of
    `LanguageServer` and `read_text`.
    """
    path, query = call.optional_text("path"), call.optional_text("query")
    if path is None and query is None:
        raise InvalidInput("path", "a path or a query is needed")
    _argv(call)
    if path is None:
        return _with_server(
            call, lambda server, deadline: _project_symbols(call, server, str(query), deadline)
        )
    document = _Document(call, path)

    def ask(server: LanguageServer, deadline: float) -> JsonObject:
        _require(server, "documentSymbolProvider", "the symbols of a file")
        with open_document(call, server, document.path, document.uri, document.text, deadline):
            params = {"textDocument": {"uri": document.uri}}
            result = server.request(call, "textDocument/documentSymbol", params, deadline)
        rows = sorted_rows(symbols_of(result, document.places, document.path))
        part = (query or "").casefold()
        return bounded_answer("symbols", [row for row in rows if part in str(row["name"]).casefold()])

    return _with_server(call, ask)


def lsp_diagnostics(call: Call) -> JsonObject:
    """List the diagnostics of a file: requested if the server supports that, else those that it publishes.

    `settled` is false if they may be incomplete. Raises as `lsp_symbols` does.
    """
    _argv(call)
    document = _Document(call, call.text("path"))

    def ask(server: LanguageServer, deadline: float) -> JsonObject:
        with open_document(call, server, document.path, document.uri, document.text, deadline):
            if server.capabilities.get("diagnosticProvider"):
                params = {"textDocument": {"uri": document.uri}}
                result = server.request(call, "textDocument/diagnostic", params, deadline)
                items, settled = (result.get("items") if isinstance(result, dict) else None), True
            else:
                items, settled = wait_for_diagnostics(call, server, document.absolute, deadline)
        rows = sorted_rows(diagnostics_of(items, document.places, document.path))
        return bounded_answer("diagnostics", rows) | {"settled": settled}

    return _with_server(call, ask)


class _Document:
    """A file below the project and its text."""

    def __init__(self, call: Call, path: str) -> None:
        self.path = os.path.normpath(in_project(call, path))
        self.absolute = os.path.normpath(os.path.join(call.project_dir, self.path))
        self.uri = uri_of(self.absolute)
        self.text = read_text(call, path)
        self.places = DocumentPositions(call)
        self.places.add_text(self.path, self.text)


def _project_symbols(call: Call, server: LanguageServer, query: str, deadline: float) -> JsonObject:
    _require(server, "workspaceSymbolProvider", "symbols of the whole project")
    result = server.request(call, "workspace/symbol", {"query": query}, deadline)
    return bounded_answer("symbols", symbols_of(result, DocumentPositions(call), None))


def _require(server: LanguageServer, capability: str, what: str) -> None:
    if not server.capabilities.get(capability):
        raise ToolFailed("not-offered", f"{server.name} does not offer {what}", delegate="lsp")


def _with_server(call: Call, ask: Callable[[LanguageServer, float], JsonObject]) -> JsonObject:
    argv = _argv(call)
    own = object_field(call.config, "lsp")
    limit = own.get("timeoutMs", DEFAULT_LIMIT_MS)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 100 <= limit <= 86_400_000:
        raise ToolFailed("invalid-config", "config.lsp.timeoutMs: milliseconds from 100 are needed")
    deadline = time.monotonic() + limit / 1000
    key = (*argv, call.project_dir, json.dumps(own, sort_keys=True))
    if call.persistent and key in _warm:
        try:
            return _ask_warm(key, ask, deadline)
        except ToolFailed as failed:
            # A kept server may have died since the last call: try once more with a new one.
            if failed.code != "delegate-failed":
                raise
    server = start_server(call, argv, own, deadline)
    try:
        answer = ask(server, deadline)
    except BaseException:
        server.end()
        raise
    if call.persistent:
        _keep_warm(key, server)
    else:
        server.shut_down(call, time.monotonic() + SHUTDOWN_S)
    return answer


def _argv(call: Call) -> tuple[str, ...]:
    argv = call.delegate("lsp")
    if argv is None:
        raise Unavailable(*NO_SERVER, reasonCode="delegate-missing")
    return argv


def _ask_warm(key: _Key, ask: Callable[[LanguageServer, float], JsonObject], deadline: float) -> JsonObject:
    # Taken out and put back at the end: the dict stays in order of use, and `_keep_warm` ends the oldest.
    server = _warm.pop(key)
    server.begin_call()
    try:
        return ask(server, deadline)
    finally:
        if server.broken:
            server.end()
        else:
            _warm[key] = server


def _keep_warm(key: _Key, server: LanguageServer) -> None:
    if not _warm:
        atexit.register(_end_all)
    _warm[key] = server
    while len(_warm) > MAX_WARM:
        _warm.pop(next(iter(_warm))).end()


def _end_all() -> None:
    while _warm:
        _warm.popitem()[1].end()
