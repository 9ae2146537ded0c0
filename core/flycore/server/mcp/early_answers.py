"""Answers the first messages of a client over standard input while the rest of the program is imported.

Clients wait for `initialize` and `tools/list` before they show anything, and the SDK and a kernel take much
longer to import and to open than these answers take. So they are given here: the list as it was when a
server of this root last made it. Only plain messages are answered; the first other one, and all after it,
are left to the SDK, which also gets the messages that begin its session. Nothing that takes long to import is
used.
"""

from __future__ import annotations

import json
import os
import select
import threading
from pathlib import Path
from typing import Any, NamedTuple

import flycore
from flycore.model.json import Json, JsonObject
from flycore.server.mcp.jsonrpc import MessageRefused, read_message
from flysafe.beneath import read_beneath

SERVER_NAME = "flytui"
INSTRUCTIONS = (
    "Tools of this project. Risky calls wait for a person, who sees the exact input and approves or denies "
    "it; nothing you send decides that. A call that ends `approval-pending` has not run: to resume it, make "
    "exactly the same call again. A denial says why; do not repeat a denied call unchanged."
)
SESSION_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions of the protocol whose sessions begin with `initialize`."""
MAX_LIST_BYTES = 4 * 1024 * 1024
MAX_HELD_BYTES = 4 * 1024 * 1024
"""Bytes of an unfinished line that are read here."""
READ_BYTES = 65_536
LATER = ("resources/list", "resources/templates/list", "prompts/list")
"""Requests that the SDK answers, and that clients send before they ask for the tools."""


def initialize_result(version: str) -> JsonObject:
    """Return the answer to `initialize` of a client that asks for this version, one of SESSION_VERSIONS."""
    return {
        "protocolVersion": version,
        "capabilities": {
            "completions": {},
            "logging": {},
            "prompts": {"listChanged": True},
            "resources": {"subscribe": False, "listChanged": True},
            "tools": {"listChanged": True},
        },
        "serverInfo": {"name": SERVER_NAME, "title": SERVER_NAME, "version": flycore.__version__},
        "instructions": INSTRUCTIONS,
    }


class Handover(NamedTuple):
    """What a client has sent and got so far."""

    unread: bytes = b""
    """What the SDK has to read before anything else."""
    answered: str | None = None
    """The id of the `initialize` among it, whose second answer is not sent; as a text."""
    listed: bytes | None = None
    """The list of tools that the client got; None where it got none."""


class EarlyAnswers:
    """Answers over the two descriptors until `stop`."""

    def __init__(self, source: int, sink: int, stored_list: Path) -> None:
        self._source, self._sink, self._stored_list = source, sink, stored_list
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._unread, self._kept = b"", b""
        self._answered: str | None = None
        self._listed: bytes | None = None
        self._thread = threading.Thread(target=self._run, name="early answers", daemon=True)

    def start(self) -> None:
        """Begin to read and to answer, in a thread of its own."""
        self._thread.start()

    def stop(self) -> Handover:
        """End, and return what the SDK has to know. Nothing is read or written here afterwards."""
        os.write(self._waker, b"x")
        self._thread.join()
        os.close(self._wake)
        os.close(self._waker)
        return Handover(self._kept + self._unread, self._answered, self._listed)

    def _run(self) -> None:
        try:
            while self._take_lines() and len(self._unread) <= MAX_HELD_BYTES:
                ready, _, _ = select.select([self._source, self._wake], [], [])
                if self._wake in ready:
                    return
                part = os.read(self._source, READ_BYTES)
                if not part:
                    return
                self._unread += part
        except OSError:
            return  # the SDK meets the same fault, and says so

    def _take_lines(self) -> bool:
        """Answer the whole lines that are there. Return False at one that is left to the SDK."""
        while b"\n" in self._unread:
            line, _, rest = self._unread.partition(b"\n")
            if line.strip() and not self._take(line):
                return False
            self._unread = rest
        return True

    def _take(self, line: bytes) -> bool:
        try:
            message = read_message(line, "the line")
        except MessageRefused:
            return False
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return False
        method, message_id, params = message.get("method"), message.get("id"), message.get("params", {})
        if method == "initialize":
            return self._initialize(line, message_id, params)
        if self._answered is None or not isinstance(params, dict):
            return False
        if method == "notifications/initialized" and "id" not in message:
            self._kept += line + b"\n"
            return True
        if method in LATER and message_id is not None:
            # Nothing depends on when these are answered: the list of tools need not wait for them.
            self._kept += line + b"\n"
            return len(self._kept) <= MAX_HELD_BYTES
        if message_id is None or set(params) - {"_meta"}:
            return False
        if method == "ping":
            self._write(message_id, b"{}")
            return True
        return method == "tools/list" and self._list_tools(message_id)

    def _initialize(self, line: bytes, message_id: Json, params: Json) -> bool:
        if self._answered is not None or message_id is None or not isinstance(params, dict):
            return False
        version, info = params.get("protocolVersion"), params.get("clientInfo")
        named = isinstance(info, dict) and all(isinstance(info.get(key), str) for key in ("name", "version"))
        if version not in SESSION_VERSIONS or not named or not isinstance(params.get("capabilities"), dict):
            return False
        self._write(message_id, json.dumps(initialize_result(str(version))).encode("ascii"))
        self._answered = str(message_id)
        self._kept += line + b"\n"
        return True

    def _list_tools(self, message_id: Json) -> bool:
        try:
            listed = read_beneath(self._stored_list.parent, self._stored_list.name, MAX_LIST_BYTES)
            value: Any = json.loads(listed)
        except (OSError, ValueError, RecursionError):
            return False
        if not isinstance(value, dict) or not isinstance(value.get("tools"), list):
            return False
        self._write(message_id, listed)
        self._listed = listed
        return True

    def _write(self, message_id: Json, result: bytes) -> None:
        head = f'{{"jsonrpc":"2.0","id":{json.dumps(message_id)},"result":'.encode("ascii")
        remaining = memoryview(head + result + b"}\n")
        while remaining:
            remaining = remaining[os.write(self._sink, remaining) :]
