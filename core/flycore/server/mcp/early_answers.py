"""Answers the first messages of a client over standard input while the rest of the program is imported.

Clients wait for `server/discover` or `initialize`, and for the lists, before they show anything, and the
SDK and a kernel take much longer to import and to open than these answers take. So they are given here: the
lists as they were when a server of this root last made them. Only plain messages are answered; the first
other one, and all after it, are left to the SDK, which also gets the messages that begin its session.
`server/discover` is not among these: it is a question, after which a client may still begin a session.
Nothing that takes long to import is used.
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
SINGLE_VERSIONS = ("2026-07-28",)
"""The versions of the protocol without sessions: each request names its version."""
DISCOVER = "server/discover"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
MAX_LIST_BYTES = 8 * 1024 * 1024
MAX_HELD_BYTES = 4 * 1024 * 1024
"""Bytes of an unfinished line that are read here."""
READ_BYTES = 65_536
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
"""The requests for lists, and the member of the answer that is the list."""
Lists = dict[str, dict[str, Any]]
"""Answers to requests for lists, by method."""
_META = "io.modelcontextprotocol/"
SUBSCRIPTION_ID = f"{_META}subscriptionId"
_CHANGES = frozenset(("toolsListChanged", "promptsListChanged", "resourcesListChanged"))
_SERVER_INFO: JsonObject = {"name": SERVER_NAME, "title": SERVER_NAME, "version": flycore.__version__}
_COMPLETE: JsonObject = {
    "cacheScope": "private",
    "resultType": "complete",
    "ttlMs": 0,
    "_meta": {f"{_META}serverInfo": _SERVER_INFO},
}
"""The members that each result has in the protocol without sessions, as the SDK writes them."""


def initialize_result(version: str) -> JsonObject:
    """Return the answer to `initialize` of a client that asks for this version, one of SESSION_VERSIONS."""
    return {
        "protocolVersion": version,
        "capabilities": _capabilities(subscribe=False),
        "serverInfo": _SERVER_INFO,
        "instructions": INSTRUCTIONS,
    }


def discover_result() -> JsonObject:
    """Return the answer to `server/discover` of a client that asks in one of SINGLE_VERSIONS."""
    return {
        **_COMPLETE,
        "capabilities": _capabilities(subscribe=True),
        "instructions": INSTRUCTIONS,
        "supportedVersions": list(SINGLE_VERSIONS),
    }


def _capabilities(*, subscribe: bool) -> JsonObject:
    return {
        "completions": {},
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": subscribe, "listChanged": True},
        "tools": {"listChanged": True},
    }


class Handover(NamedTuple):
    """What a client has sent and got so far."""

    unread: bytes = b""
    """What the SDK has to read before anything else."""
    answered: str | None = None
    """The id of the `initialize` among it, whose second answer is not sent; as a text."""
    subscribed: str | None = None
    """The id of the `subscriptions/listen` among it, which is not acknowledged again; as a text."""
    listed: Lists = {}  # noqa: RUF012 - never changed
    """The lists that the client got."""


class EarlyAnswers:
    """Answers over the two descriptors until `stop`."""

    def __init__(self, source: int, sink: int, stored_lists: Path) -> None:
        self._source, self._sink, self._stored_lists = source, sink, stored_lists
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._unread, self._kept = b"", b""
        self._answered: str | None = None
        self._subscribed: str | None = None
        self._listed: Lists = {}
        self._stored: Lists | None = None
        """The lists in the file; None before they were needed."""
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
        return Handover(self._kept + self._unread, self._answered, self._subscribed, self._listed)

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
        if not isinstance(params, dict):
            return False
        single = _is_single(params)
        if single == (self._answered is not None):
            return False  # nothing has begun yet, or a request of the other kind
        if method == "notifications/initialized" and not single and "id" not in message:
            return self._keep(line)
        if message_id is None:
            return False
        if method == "subscriptions/listen" and single:
            return self._subscribe(line, message_id, params)
        if set(params) - {"_meta"}:
            return False
        if method == DISCOVER and single:
            self._answer(message_id, json.dumps(discover_result()).encode("ascii"))
            return True
        if method == "ping" and not single:
            self._answer(message_id, b"{}")
            return True
        if method not in LISTS:
            return False
        if self._list(str(method), message_id, single=single):
            return True
        # The list of tools need not wait for the others, which only a part of the clients waits for.
        return method != "tools/list" and self._keep(line)

    def _keep(self, line: bytes) -> bool:
        """Keep the line for the SDK, and go on. Return False where too much is kept."""
        self._kept += line + b"\n"
        return len(self._kept) <= MAX_HELD_BYTES

    def _initialize(self, line: bytes, message_id: Json, params: Json) -> bool:
        # After a request that the SDK gets, its session has begun, or there will be none.
        if self._kept or message_id is None or not isinstance(params, dict):
            return False
        version, info = params.get("protocolVersion"), params.get("clientInfo")
        if version not in SESSION_VERSIONS or not _is_named(info):
            return False
        if not isinstance(params.get("capabilities"), dict):
            return False
        self._answer(message_id, json.dumps(initialize_result(str(version))).encode("ascii"))
        self._answered = str(message_id)
        return self._keep(line)

    def _subscribe(self, line: bytes, message_id: Json, params: JsonObject) -> bool:
        wanted = params.get("notifications")
        plain = isinstance(wanted, dict) and all(value is True for value in wanted.values())
        if self._subscribed is not None or set(params) != {"_meta", "notifications"} or not plain:
            return False
        if not isinstance(wanted, dict) or not _CHANGES.issuperset(wanted):
            return False
        about = {"_meta": {SUBSCRIPTION_ID: message_id}, "notifications": wanted}
        message = {"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": about}
        self._write(json.dumps(message).encode("ascii"))
        self._subscribed = str(message_id)
        return self._keep(line)

    def _list(self, method: str, message_id: Json, *, single: bool) -> bool:
        if self._stored is None:
            self._stored = _read_lists(self._stored_lists)
        listed = self._stored.get(method)
        if not isinstance(listed, dict) or not isinstance(listed.get(LISTS[method]), list):
            return False
        result = {**_COMPLETE, **listed} if single else listed
        self._answer(message_id, json.dumps(result).encode("ascii"))
        self._listed[method] = listed
        return True

    def _answer(self, message_id: Json, result: bytes) -> None:
        self._write(
            f'{{"jsonrpc":"2.0","id":{json.dumps(message_id)},"result":'.encode("ascii") + result + b"}"
        )

    def _write(self, message: bytes) -> None:
        remaining = memoryview(message + b"\n")
        while remaining:
            remaining = remaining[os.write(self._sink, remaining) :]


def _read_lists(file: Path) -> Lists:
    """Return the lists that the file has; none where it cannot be used."""
    try:
        value: Any = json.loads(read_beneath(file.parent, file.name, MAX_LIST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_single(params: JsonObject) -> bool:
    """Return whether a request has what each one has in one of SINGLE_VERSIONS."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or meta.get(f"{_META}protocolVersion") not in SINGLE_VERSIONS:
        return False
    info = meta.get(f"{_META}clientInfo")
    return isinstance(meta.get(f"{_META}clientCapabilities"), dict) and (info is None or _is_named(info))


def _is_named(info: Json) -> bool:
    """Return whether it is the `clientInfo` of a client."""
    return isinstance(info, dict) and all(isinstance(info.get(key), str) for key in ("name", "version"))
