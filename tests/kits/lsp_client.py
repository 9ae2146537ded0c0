"""A small client of a language server over standard input and output, as an editor is one."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LONGEST = 60.0
"""Seconds after which a server does not answer any more."""


class LanguageServer:
    """A running server, with the documents that are open in it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._buffer = b""
        self._requests = 0

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The result of a request. What the server asks meanwhile is answered with nothing."""
        self._requests += 1
        number = self._requests
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            self._answer(message)

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def open(self, file: Path, language: str) -> None:
        """Open a document with the text of its file."""
        document = {"uri": file.as_uri(), "languageId": language, "version": 1, "text": file.read_text()}
        self.tell("textDocument/didOpen", {"textDocument": document})

    def completions(self, file: Path, line: int, character: int) -> dict[str, str]:
        """The proposals at a place, counted from 0: each label with its documentation."""
        found = self.ask("textDocument/completion", _place(file, line, character))
        items = found["items"] if isinstance(found, dict) else found or []
        return {item["label"]: _text(item.get("documentation", "")) for item in items}

    def hover(self, file: Path, line: int, character: int) -> str:
        """The text that an editor shows at a place."""
        found = self.ask("textDocument/hover", _place(file, line, character))
        contents = found["contents"] if found else ""
        return " ".join(map(_text, contents)) if isinstance(contents, list) else _text(contents)

    def _answer(self, message: dict[str, Any]) -> None:
        if "id" not in message or "method" not in message:
            return
        wanted = message.get("params", {})
        settings = (
            [{}] * len(wanted.get("items", ())) if message["method"] == "workspace/configuration" else None
        )
        self._send({"id": message["id"], "result": settings})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        while b"\r\n\r\n" not in self._buffer:
            self._fill()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        lengths = [
            line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-l")
        ]
        length = int(lengths[0])
        while len(self._buffer) < length:
            self._fill()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        message: dict[str, Any] = json.loads(body)
        return message

    def _fill(self) -> None:
        assert self._process.stdout is not None
        end = time.monotonic() + LONGEST
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
        data = os.read(self._process.stdout.fileno(), 65_536) if ready else b""
        assert data, "the language server does not answer"
        self._buffer += data


def _place(file: Path, line: int, character: int) -> dict[str, Any]:
    return {"textDocument": {"uri": file.as_uri()}, "position": {"line": line, "character": character}}


def _text(value: Any) -> str:
    return str(value.get("value", "")) if isinstance(value, dict) else str(value)


@contextmanager
def language_server(command: list[str], folder: Path, options: dict[str, Any]) -> Iterator[LanguageServer]:
    """A server that runs for a folder. Its `options` are what an editor hands over at the start."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        server = LanguageServer(process)
        snippets = {"completionItem": {"snippetSupport": True, "documentationFormat": ["plaintext"]}}
        capabilities = {"textDocument": {"completion": snippets, "hover": {"contentFormat": ["plaintext"]}}}
        server.ask(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": folder.as_uri(),
                "capabilities": capabilities,
                "initializationOptions": options,
                "workspaceFolders": [{"uri": folder.as_uri(), "name": "shop"}],
            },
        )
        server.tell("initialized", {})
        yield server
    finally:
        process.kill()
        process.communicate()
