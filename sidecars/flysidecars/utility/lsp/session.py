"""Starts a server for a project, opens documents in it, and waits for its diagnostics."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager

from flysidecars.sdk import Call, JsonObject
from flysidecars.sdk.call import object_field
from flysidecars.utility.lsp.positions import uri_of
from flysidecars.utility.lsp.server import LanguageServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIRST_DIAGNOSTICS_S = 10.0
"""The longest wait for the first diagnostics of a file from a server that reports no work, seconds."""
QUIET_S = 0.5
"""Diagnostics are complete when for this many seconds none were published and no work ended."""
_LANGUAGES = {
    "bash": "shellscript",
    "c": "c",
    "cc": "cpp",
    "cpp": "cpp",
    "cs": "csharp",
    "css": "css",
    "go": "go",
    "h": "c",
    "hpp": "cpp",
    "html": "html",
    "java": "java",
    "js": "javascript",
    "json": "json",
    "jsx": "javascriptreact",
    "kt": "kotlin",
    "lua": "lua",
    "md": "markdown",
    "mjs": "javascript",
    "php": "php",
    "py": "python",
    "pyi": "python",
    "rb": "ruby",
    "rs": "rust",
    "sh": "shellscript",
    "toml": "toml",
    "ts": "typescript",
    "tsx": "typescriptreact",
    "yaml": "yaml",
    "yml": "yaml",
}
_CAPABILITIES: JsonObject = {
    "general": {"positionEncodings": ["utf-16"]},
    "window": {"workDoneProgress": True},
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "didChangeConfiguration": {"dynamicRegistration": True},
        "symbol": {"symbolKind": {"valueSet": list(range(1, 27))}},
    },
    "textDocument": {
        "synchronization": {"dynamicRegistration": False},
        "documentSymbol": {
            "hierarchicalDocumentSymbolSupport": True,
            "symbolKind": {"valueSet": list(range(1, 27))},
        },
        "publishDiagnostics": {"relatedInformation": False, "versionSupport": False},
        "diagnostic": {"dynamicRegistration": False, "relatedDocumentSupport": False},
    },
}


def language_of(path: str) -> str:
    """The protocol's language id for a file name. An unknown extension is its own id."""
    ending = os.path.splitext(path)[1].lstrip(".").lower()
    return _LANGUAGES.get(ending, ending or "plaintext")


def start_server(call: Call, argv: Sequence[str], own: JsonObject, deadline: float) -> LanguageServer:
    """Start and initialize a server for the project. `own` is `config.lsp` of the entry.

    Raises `ToolFailed`; the server has ended then.
    """
    settings = object_field(own, "settings")
    call.progress(0, message=f"starting {os.path.basename(argv[0])}")
    server = LanguageServer(argv, call.project_dir, settings)
    try:
        _initialize(call, server, own, deadline)
    except BaseException:
        server.end()
        raise
    return server


def _initialize(call: Call, server: LanguageServer, own: JsonObject, deadline: float) -> None:
    root = uri_of(call.project_dir)
    server.folders = [{"uri": root, "name": os.path.basename(call.project_dir) or "project"}]
    params: JsonObject = {
        "processId": os.getpid(),
        "clientInfo": {"name": "flytui"},
        "rootPath": call.project_dir,
        "rootUri": root,
        "workspaceFolders": server.folders,
        "capabilities": _CAPABILITIES,
        "initializationOptions": own.get("initializationOptions"),
    }
    result = server.request(call, "initialize", params, deadline)
    if isinstance(result, dict) and isinstance(result.get("capabilities"), dict):
        server.capabilities = result["capabilities"]
    server.notify("initialized", {})
    if server.settings:
        server.notify("workspace/didChangeConfiguration", {"settings": server.settings})


@contextmanager
def open_document(
    call: Call, server: LanguageServer, path: str, uri: str, text: str, deadline: float
) -> Iterator[None]:
    """Open a document in the server for the block."""
    if uri in server.closed:
        # When a document is closed, some servers publish that it has no diagnostics any more. That would be
        # taken for the diagnostics of the document that is opened now.
        server.catch_up(call, deadline)
    document = {"uri": uri, "languageId": language_of(path), "version": 1, "text": text}
    server.notify("textDocument/didOpen", {"textDocument": document})
    try:
        yield
    finally:
        if not server.broken:
            server.closed.add(uri)
            server.notify("textDocument/didClose", {"textDocument": {"uri": uri}})


def wait_for_diagnostics(
    call: Call, server: LanguageServer, path: str, deadline: float
) -> tuple[object, bool]:
    """Wait for the diagnostics that a server publishes for the open document at the absolute `path`.

    Returns them, and whether they were complete before `deadline`.
    """
    # The protocol has no message that says "no more diagnostics", and a server may publish several times
    # while it works. So we wait until it has been quiet.
    server.published.pop(path, None)
    give_up = time.monotonic() + FIRST_DIAGNOSTICS_S
    call.progress(0, message=f"waiting for the diagnostics of {server.name}")

    def settled() -> bool:
        now = time.monotonic()
        if server.working:
            return False
        return now - server.last_update >= QUIET_S if path in server.published else now > give_up

    done = server.wait(call, settled, deadline)
    published = path in server.published
    return server.published.pop(path, []), done and published
