"""The first answers of `flytui mcp`, given before the SDK and a kernel are there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from flycore.server.mcp.early_answers import (
    SESSION_VERSIONS,
    SINGLE_VERSIONS,
    EarlyAnswers,
    Handover,
    Lists,
)
from kits.kernel import Root
from kits.mcp_clients import command

INIT: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
X = {"tools": [{"name": "x"}]}
STORED = json.dumps({"tools/list": X}).encode()
EMPTY = json.dumps({"tools/list": {"tools": []}}).encode()
NOTHING: Lists = {"tools/list": {"tools": []}}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
META = "io.modelcontextprotocol/"
ENVELOPE = {
    f"{META}protocolVersion": "2026-07-28",
    f"{META}clientInfo": {"name": "test", "version": "1"},
    f"{META}clientCapabilities": {},
}
LISTEN = {"toolsListChanged": True, "promptsListChanged": True}


def request(number: Any, method: str, params: Any = None) -> dict[str, Any]:
    made = {"jsonrpc": "2.0", "id": number, "method": method}
    return made if params is None else {**made, "params": params}


def single(number: Any, method: str, **params: Any) -> dict[str, Any]:
    """A request of the protocol without sessions."""
    return request(number, method, {"_meta": ENVELOPE, **params})


def lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def early(tmp_path: Path, sent: bytes, stored: bytes | None = None) -> tuple[list[Any], Handover]:
    """What is answered to these bytes, and what is left to the SDK."""
    file = tmp_path / "list.json"
    if stored is not None:
        file.write_bytes(stored)
    source, to_source = os.pipe()
    from_sink, sink = os.pipe()
    os.write(to_source, sent)
    os.close(to_source)
    answers = EarlyAnswers(source, sink, file)
    answers.start()
    answers._thread.join()
    handover = answers.stop()
    with os.fdopen(source, "rb") as rest:
        unread = handover.unread + rest.read()
    os.close(sink)
    with os.fdopen(from_sink, "rb") as told:
        return [json.loads(line) for line in told], handover._replace(unread=unread)


def test_a_session_begins_and_lists_what_was_listed_last(tmp_path: Path) -> None:
    init = request("a", "initialize", INIT)
    sent = lines(init, READY, request(2, "ping"), request(3, "tools/list", {"_meta": {"progressToken": 1}}))
    answers, handover = early(tmp_path, sent, STORED)
    assert [answer["id"] for answer in answers] == ["a", 2, 3]
    assert answers[0]["result"]["protocolVersion"] == "2025-06-18"
    assert answers[2]["result"] == {"tools": [{"name": "x"}]}
    assert handover == Handover(lines(init, READY), "a", None, {"tools/list": X})


@pytest.mark.parametrize(
    "first",
    [
        request(1, "server/discover"),
        request(1, "initialize", {**INIT, "protocolVersion": "1999-01-01"}),
        request(1, "initialize", {"protocolVersion": "2025-06-18"}),
        request(1, "tools/list"),
        request({}, "initialize", INIT),
        {"jsonrpc": "1.0", "id": 1, "method": "initialize", "params": INIT},
        [request(1, "initialize", INIT)],
        READY,
    ],
)
def test_any_other_beginning_is_left_to_the_sdk(tmp_path: Path, first: Any) -> None:
    sent = lines(first, request(2, "ping"))
    assert early(tmp_path, sent, EMPTY) == ([], Handover(sent))


@pytest.mark.parametrize(
    "later",
    [
        request(2, "tools/call", {"name": "x"}),
        request(2, "tools/list", {"cursor": "after:x"}),
        request(1, "initialize", INIT),
        {"jsonrpc": "2.0", "id": 2, "result": {}},
    ],
)
def test_what_is_not_plain_and_all_after_it_is_left_to_the_sdk(tmp_path: Path, later: Any) -> None:
    init = request(1, "initialize", INIT)
    sent = lines(init, later, request(3, "ping")) + b'{"half'
    answers, handover = early(tmp_path, sent, EMPTY)
    assert [answer["id"] for answer in answers] == [1]
    assert handover == Handover(sent, "1")


@pytest.mark.parametrize(
    "stored", [None, b"", b"[]", b'{"tools/list": 1}', b'{"tools/list": {"tools": 1}}', b'{"tools/list": [}']
)
def test_without_a_usable_list_the_sdk_lists(tmp_path: Path, stored: bytes | None) -> None:
    sent = lines(request(1, "initialize", INIT), request(2, "tools/list"))
    answers, handover = early(tmp_path, sent, stored)
    assert [answer["id"] for answer in answers] == [1]
    assert handover.unread == sent
    assert handover.listed == {}


def test_a_client_without_a_session_is_told_of_the_server_and_its_tools(tmp_path: Path) -> None:
    listen = single("l", "subscriptions/listen", notifications=LISTEN)
    later = single(3, "prompts/list")
    sent = lines(
        single("a", "server/discover"), listen, single(2, "server/discover"), later, single(4, "tools/list")
    )
    answers, handover = early(tmp_path, sent, STORED)
    assert [answer.get("id") for answer in answers] == ["a", None, 2, 4]
    assert answers[0]["result"]["supportedVersions"] == ["2026-07-28"]
    acknowledged = {"_meta": {f"{META}subscriptionId": "l"}, "notifications": LISTEN}
    assert (answers[1]["method"], answers[1]["params"]) == (
        "notifications/subscriptions/acknowledged",
        acknowledged,
    )
    assert answers[3]["result"]["tools"] == [{"name": "x"}]
    assert handover == Handover(lines(listen, later), None, "l", {"tools/list": X})


def test_a_session_may_begin_after_a_look_at_the_server(tmp_path: Path) -> None:
    init = request(0, "initialize", INIT)
    sent = lines(single("probe", "server/discover"), init, READY, request(1, "tools/list"))
    answers, handover = early(tmp_path, sent, EMPTY)
    assert [answer["id"] for answer in answers] == ["probe", 0, 1]
    assert answers[1]["result"]["protocolVersion"] == "2025-06-18"
    assert handover == Handover(lines(init, READY), "0", None, NOTHING)


@pytest.mark.parametrize(
    "first",
    [
        request(1, "server/discover", {"_meta": {**ENVELOPE, f"{META}protocolVersion": "2099-01-01"}}),
        request(1, "server/discover", {"_meta": {f"{META}protocolVersion": "2026-07-28"}}),
        request(1, "server/discover", {"_meta": {**ENVELOPE, f"{META}clientInfo": {"name": 1}}}),
        single(1, "server/discover", more=1),
        single(1, "subscriptions/listen", notifications={"resourceSubscriptions": ["file:///x"]}),
        single(1, "subscriptions/listen", notifications={"toolsListChanged": "yes"}),
        single(1, "subscriptions/listen"),
        single(1, "ping"),
        {"jsonrpc": "2.0", "method": "server/discover", "params": {"_meta": ENVELOPE}},
    ],
)
def test_what_is_not_plain_without_a_session_is_left_to_the_sdk(tmp_path: Path, first: Any) -> None:
    sent = lines(first, single(2, "tools/list"))
    assert early(tmp_path, sent, EMPTY) == ([], Handover(sent))


@pytest.mark.parametrize("begin", [[request(0, "initialize", INIT), READY], []])
def test_every_list_that_is_known_is_answered_and_another_one_does_not_hold_up_the_tools(
    tmp_path: Path, begin: list[Any]
) -> None:
    known = {
        "tools/list": X,
        "prompts/list": {"prompts": []},
        "resources/list": {"resources": [{"uri": "x"}]},
    }
    methods = ("prompts/list", "resources/templates/list", "resources/list", "tools/list")
    wanted = [
        (request if begin else single)(number, method) for number, method in enumerate(methods, start=1)
    ]
    answers, handover = early(tmp_path, lines(*begin, *wanted), json.dumps(known).encode())
    results = {answer["id"]: answer["result"] for answer in answers if answer["id"]}
    assert results.keys() == {1, 3, 4}
    assert results[3]["resources"] == [{"uri": "x"}]
    assert handover.unread == lines(*begin, wanted[1])
    assert handover.listed == known


def test_the_two_eras_do_not_mix(tmp_path: Path) -> None:
    init, listen = request(1, "initialize", INIT), single(2, "subscriptions/listen", notifications=LISTEN)
    answers, handover = early(tmp_path, lines(init, listen))
    assert ([answer["id"] for answer in answers], handover.unread) == ([1], lines(init, listen))
    answers, handover = early(tmp_path, lines(listen, init))
    assert ([answer["method"] for answer in answers], handover.unread) == (
        ["notifications/subscriptions/acknowledged"],
        lines(listen, init),
    )


class Session:
    """A process of `flytui mcp`, spoken to line by line."""

    def __init__(self, read: IO[bytes], write: IO[bytes]) -> None:
        self._read, self._write = read, write

    def send(self, *messages: Any) -> None:
        self._write.write(lines(*messages))
        self._write.flush()

    def next(self) -> Any:
        return json.loads(self._read.readline())

    def answer(self, number: Any) -> Any:
        return self.message(number)["result"]

    def message(self, number: Any) -> Any:
        """The answer with that id, an error included."""
        while (message := self.next()).get("id") != number:
            pass
        return message


@contextmanager
def session(root: Root, *words: str) -> Iterator[Session]:
    parameters = command(root, *words)
    with subprocess.Popen(
        [parameters.command, *parameters.args],
        env=parameters.env,
        cwd=root.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Session(process.stdout, process.stdin)
        process.stdin.close()
        rest = process.stdout.read()
        assert b'"result"' not in rest, "a second answer"


def test_the_early_answers_are_those_of_the_sdk_and_the_session_goes_on(tmp_path: Path) -> None:
    root = Root(tmp_path)
    told = []
    # With --plain the command goes the ordinary way, and leaves the list for the next.
    for words in (("--plain",), ()):
        with session(root, *words) as one:
            one.send(request(1, "initialize", INIT))
            begun = one.answer(1)
            one.send(READY, request(2, "tools/list"))
            listed = one.answer(2)
            one.send(request(3, "tools/call", {"name": "no_such", "arguments": {}}), request(4, "ping"))
            assert one.answer(4) == {}
            told.append((begun, {key: listed[key] for key in ("tools",)}))
        assert root.places.mcp_tools_file.stat().st_mode & 0o077 == 0
    assert told[0] == told[1]
    assert told[0][1]["tools"]


def test_the_answers_without_a_session_are_those_of_the_sdk(tmp_path: Path) -> None:
    root = Root(tmp_path)
    told = []
    for words in (("--plain",), ()):
        with session(root, *words) as one:
            one.send(single("l", "subscriptions/listen", notifications=LISTEN))
            acknowledged = one.next()
            # The SDK answers this with the first words, because a request has gone before it.
            one.send(single(1, "server/discover"))
            found = one.answer(1)
            one.send(single(2, "tools/list"))
            listed = one.answer(2)
            one.send(single(3, "tools/call", name="no_such", arguments={}))
            assert one.message(3)["error"]["code"] == -32602
            told.append((acknowledged, found, listed))
    assert told[0] == told[1]
    assert told[0][2]["tools"]


@pytest.mark.parametrize("words", [(), ("--plain",)])
@pytest.mark.parametrize("version", ["2026-07-28", "2099-01-01"])
def test_a_session_begins_after_a_look_at_the_server_whoever_answers_that(
    tmp_path: Path, words: tuple[str, ...], version: str
) -> None:
    root = Root(tmp_path)
    with session(root, *words) as one:
        one.send(
            request("probe", "server/discover", {"_meta": {**ENVELOPE, f"{META}protocolVersion": version}})
        )
        found = one.message("probe")
        if version == "2026-07-28":
            assert found["result"]["supportedVersions"] == [version]
        else:
            assert found["error"]["data"]["supported"] == ["2026-07-28"]
        one.send(request(1, "initialize", INIT), READY, request(2, "tools/list"))
        assert one.answer(1)["protocolVersion"] == "2025-06-18"
        assert one.answer(2)["tools"]


def test_a_client_without_a_session_hears_of_a_list_that_has_changed_since(tmp_path: Path) -> None:
    root = Root(tmp_path)
    with session(root) as first:
        first.send(single(1, "tools/list"))
        now = first.answer(1)["tools"]
    old = {"tools": [{"name": "gone", "inputSchema": {"type": "object"}}]}
    root.places.mcp_tools_file.write_text(json.dumps({"tools/list": old}))
    with session(root) as second:
        second.send(single(1, "tools/list"))
        assert second.answer(1)["tools"] == old["tools"]
        second.send(single("l", "subscriptions/listen", notifications=LISTEN))
        assert second.next()["method"] == "notifications/subscriptions/acknowledged"
        changed = second.next()
        assert changed["method"] == "notifications/tools/list_changed"
        assert changed["params"]["_meta"] == {f"{META}subscriptionId": "l"}
        second.send(single(2, "tools/list"))
        assert second.answer(2)["tools"] == now


def test_a_list_that_has_changed_since_is_announced(tmp_path: Path) -> None:
    root = Root(tmp_path)
    with session(root) as first:
        first.send(request(1, "initialize", INIT), READY, request(2, "tools/list"))
        now = first.answer(2)["tools"]
    old = {"tools": [{"name": "gone", "inputSchema": {"type": "object"}}]}
    root.places.mcp_tools_file.write_text(json.dumps({"tools/list": old}))
    with session(root) as second:
        second.send(request(1, "initialize", INIT), READY, request(2, "tools/list"))
        assert second.answer(1)["protocolVersion"] == "2025-06-18"
        assert second.answer(2) == old
        while second.next().get("method") != "notifications/tools/list_changed":
            pass
        second.send(request(3, "tools/list"))
        assert second.answer(3)["tools"] == now


def test_the_versions_are_those_of_the_sdk() -> None:
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

    assert set(SESSION_VERSIONS) == set(HANDSHAKE_PROTOCOL_VERSIONS)
    assert set(SINGLE_VERSIONS) == set(MODERN_PROTOCOL_VERSIONS)
