"""A language server for tests, run as a program: `python languageserver.py WAY`. It behaves in one of many
ways, and writes what it was told into the file SAID beside the project's files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

way = sys.argv[1] if len(sys.argv) > 1 else ""
said = os.open("SAID", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def send(message: dict[str, object]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    raw(
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length: %d\r\n\r\n" % len(body)
        + body
    )


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def receive() -> dict[str, object]:
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line[15:])
    message: dict[str, object] = json.loads(sys.stdin.buffer.read(length)) if length else {}
    if not message:
        sys.exit(0)
    os.write(said, (json.dumps(message) + "\n").encode())
    return message


def point(line: int, character: int) -> dict[str, int]:
    return {"line": line, "character": character}


def span(line: int, start: int, end: int) -> dict[str, object]:
    return {"start": point(line, start), "end": point(line, end)}


def misbehave() -> None:
    sys.stderr.write("a word on stderr\n")
    sys.stderr.flush()
    if way == "dies":
        os._exit(7)
    if way == "hangs":
        subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        while True:
            time.sleep(100)
    if way == "half":
        raw(b"Content-Length: 10")
        os._exit(0)
    if way == "half-body":
        raw(b"Content-Length: 10\r\n\r\n{}")
        os._exit(0)
    if way == "garbage":
        raw(b"hello, I am no server\n")
    if way == "no-length":
        raw(b"Content-Type: x\r\n\r\n{}")
    if way == "two-lengths":
        raw(b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}")
    if way == "huge":
        raw(b"Content-Length: 99999999999\r\n\r\n{}")
    if way == "long-header":
        raw(b"Content-Length: 2\r\nContent-Type: " + b"x" * 100_000)
    if way == "no-json":
        raw(b"Content-Length: 2\r\n\r\n{]")
    if way == "array":
        raw(b"Content-Length: 2\r\n\r\n[]")
    if way == "flood":
        note = b'{"method":"window/logMessage"}'
        try:
            while True:
                raw((b"Content-Length: %d\r\n\r\n" % len(note) + note) * 500)
        except BrokenPipeError:
            os._exit(0)


ASKED = (
    ("workspace/configuration", {"items": [{"section": "a.b"}, {"section": "none"}, {}]}),
    ("client/registerCapability", {"registrations": []}),
    ("window/workDoneProgress/create", {"token": "t"}),
    ("window/showMessageRequest", {"message": "?", "actions": [{"title": "yes"}]}),
    ("workspace/workspaceFolders", None),
    ("workspace/applyEdit", {"edit": {}}),
    ("never/heard", None),
)


def initialised(number: object) -> None:
    if way == "asks":
        for asked, (method, params) in enumerate(ASKED):
            send({"id": f"s{asked}", "method": method, "params": params})
            while "method" in receive():
                pass
    offered = {"documentSymbolProvider": True, "workspaceSymbolProvider": {"resolveProvider": True}}
    if way == "pull":
        offered["diagnosticProvider"] = {"interFileDependencies": False}
    send({"id": number, "result": {"capabilities": {} if way == "poor" else offered}})


def symbols(uri: object) -> object:
    if way == "flat":
        where = {"uri": uri, "range": span(1, 4, 9)}
        return [{"name": "b", "kind": 12, "location": where, "containerName": "a"}, {"kind": 1}, "x", None]
    if way == "null":
        return None
    inner = {"name": "b", "kind": 6, "range": span(1, 0, 9), "selectionRange": span(1, 5, 6)}
    many = [{"name": f"n{number}", "kind": 13, "range": span(2, 0, 1)} for number in range(6000)]
    return [
        {"name": "a", "kind": 5, "range": span(0, 0, 9), "children": [inner]},
        *(many if way == "many" else []),
    ]


def findings(message: str) -> list[dict[str, object]]:
    return [
        {"range": span(1, 2, 3), "severity": 2, "message": "later", "source": "s", "code": 12},
        {"range": span(0, 4, 6), "severity": 1, "message": message},
        {"range": "broken", "severity": 99, "message": "nowhere"},
    ]


def opened(uri: object) -> None:
    if way == "working":
        send({"method": "$/progress", "params": {"token": 1, "value": {"kind": "begin"}}})
        send({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": []}})
        time.sleep(0.6)
        send({"method": "$/progress", "params": {"token": 1, "value": {"kind": "end"}}})
    if way not in ("mute", "pull"):
        escaped = str(uri).replace("file:///", "file://localhost/").replace("a.x", "%61.x")
        for message in ("early", f"process {os.getpid()}"):
            params = {"uri": escaped, "diagnostics": findings(message)}
            send({"method": "textDocument/publishDiagnostics", "params": params})


def main() -> None:
    misbehave()
    while True:
        message = receive()
        number, method, params = message.get("id"), message["method"], message.get("params")
        uri = params["textDocument"]["uri"] if isinstance(params, dict) and "textDocument" in params else None
        if method == "initialize":
            initialised(number)
        elif method == "textDocument/didOpen":
            opened(uri)
        elif way == "dies-later" and number is not None:
            os._exit(0)
        elif method == "textDocument/documentSymbol" and way == "error":
            send({"id": number, "error": {"code": -32603, "message": "no idea"}})
        elif method == "textDocument/documentSymbol":
            send({"id": number, "result": symbols(uri)})
        elif method == "workspace/symbol":
            base = os.getcwd()
            places = [f"file://{base}/a.x", "file:///etc/passwd", f"file://{base}/../b.x", "http://x/y", None]
            found = [
                {"name": f"f{at}", "kind": 12, "location": {"uri": p, "range": span(0, 4, 6)}}
                for at, p in enumerate(places)
            ]
            send({"id": number, "result": found})
        elif method == "textDocument/diagnostic":
            send({"id": number, "result": {"kind": "full", "items": findings("pulled")}})
        elif method == "shutdown":
            send({"id": number, "result": None})
        elif method == "exit":
            sys.exit(0)


main()
