"""Web servers on loopback that answer byte by byte, and one inside the network that must not be reached."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

PATIENCE_S = 30.0

Respond = Callable[["Talk"], None]


@dataclass
class Talk:
    """One connection: the request, and the stream for the answer."""

    connection: socket.socket
    head: str
    body: bytes
    over: threading.Event

    @property
    def path(self) -> str:
        return self.head.split(" ", 2)[1]

    def header(self, name: str) -> str | None:
        rows = (line.partition(":") for line in self.head.split("\r\n")[1:])
        return next((value.strip() for key, _, value in rows if key.lower() == name.lower()), None)

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def answer(self, body: bytes = b"", status: str = "200 OK", **headers: str) -> None:
        """A complete answer. `content_type="..."` becomes the header `Content-Type`."""
        rows = {"Content-Length": str(len(body)), "Connection": "close"}
        rows |= {key.replace("_", "-").title(): value for key, value in headers.items()}
        lines = "".join(f"{key}: {value}\r\n" for key, value in rows.items())
        self.send(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + body)

    def json(self, value: object) -> None:
        self.answer(json.dumps(value).encode(), content_type="application/json")

    def endlessly(self, data: bytes, every_s: float = 0.0) -> None:
        """Send the same bytes again and again, until the other side has closed or the server ends."""
        while not self.over.wait(every_s):
            self.send(data)


@dataclass
class Web:
    """A server. `asked` holds the head of every request, `connections` counts the accepted connections."""

    port: int
    asked: list[Talk] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(respond: Respond, host: str = "127.0.0.1") -> Iterator[Web]:
    """Serve for the block; every connection has ended after it."""
    over = threading.Event()
    listener = socket.create_server((host, 0))
    web = Web(listener.getsockname()[1])
    threads: list[threading.Thread] = []

    def talk(connection: socket.socket) -> None:
        with connection:
            connection.settimeout(PATIENCE_S)
            try:
                head, _, rest = _until_blank(connection).partition(b"\r\n\r\n")
                talk = Talk(connection, head.decode("latin-1"), rest, over)
                wanted = int(talk.header("Content-Length") or 0)
                while len(talk.body) < wanted and (more := connection.recv(65536)):
                    talk.body += more
                web.asked.append(talk)
                respond(talk)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if over.is_set():
                connection.close()
                return
            web.connections += 1
            thread = threading.Thread(target=talk, args=(connection,))
            threads.append(thread)
            thread.start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield web
    finally:
        over.set()
        socket.create_connection((host, web.port)).close()
        accepting.join()
        listener.close()
        for thread in threads:
            thread.join()


def _until_blank(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(65536)):
            raise OSError("left")
        data += more
    return data


class PersistentSidecar:
    """A persistent sidecar process that answers request after request, so that each saves a start."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def ask(self, request: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Send a request; returns the answer and the events before it."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({**json.loads(request), "persistent": True}).encode() + b"\n")
        self._process.stdin.flush()
        events: list[dict[str, Any]] = []
        while "ok" not in (said := json.loads(self._process.stdout.readline())):
            events.append(said)
        return said, events

    def end(self) -> str:
        """Close its stdin, wait for its end, and return its stderr."""
        _, stderr = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == 0
        return stderr.decode()
