"""`lsp.*` against servers that are well, odd or broken; the real one is in tests/e2e."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from flysidecars.child_process import ChildProcess
from flysidecars.utility.lsp.framing import MAX_HEADER_BYTES, FramingError, MessageReader, encode

SERVER = str(Path(__file__).with_name("languageserver.py"))
TEXT = "🙂🙂 = 1\nzwei = 2\n"


def lsp(way: str) -> dict[str, Any]:
    return {"lsp": {"argv": [sys.executable, SERVER, way]}}


@pytest.fixture
def ask(starter):
    """Ask one process of one call."""
    (starter.project / "a.x").write_text(TEXT)

    def run(way: str, tool: str, given: dict[str, Any], **more: Any) -> dict[str, Any]:
        config = {"lsp": {"timeoutMs": 20_000, **more}}
        answered = starter.call("utility.local", tool, given, delegates=lsp(way), config=config)
        assert answered.stderr == ""
        return answered.answer

    return run


def told(starter) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (starter.project / "SAID").read_text().splitlines()]


def marked(folder: Path) -> list[int]:
    """Processes that work in the folder."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/cwd") == str(folder):
                found.append(int(name))
        except OSError:
            continue
    return found


# --- what is well


def test_symbols_of_a_file_are_flat_and_in_order(starter, ask) -> None:
    answer = ask("", "lsp.symbols", {"path": "a.x"})
    first, second = answer["symbols"]
    assert first == {
        "name": "a",
        "kind": "class",
        "path": "a.x",
        "line": 1,
        "column": 1,
        "endLine": 1,
        "endColumn": 7,
    }
    assert second == {
        "name": "b",
        "kind": "method",
        "container": "a",
        "path": "a.x",
        "line": 2,
        "column": 6,
        "endLine": 2,
        "endColumn": 9,
    }
    methods = [message.get("method") for message in told(starter)]
    assert methods[:2] == ["initialize", "initialized"]
    assert methods[-2:] == ["shutdown", "exit"]
    opened = next(m for m in told(starter) if m.get("method") == "textDocument/didOpen")
    assert opened["params"]["textDocument"]["text"] == TEXT


def test_odd_answers_are_read_as_far_as_they_go(ask) -> None:
    (one,) = ask("flat", "lsp.symbols", {"path": "a.x"})["symbols"]
    assert (one["name"], one["kind"], one["container"], one["line"]) == ("b", "function", "a", 2)
    assert ask("null", "lsp.symbols", {"path": "a.x"})["symbols"] == []


def test_a_long_answer_is_cut_and_says_so(ask) -> None:
    answer = ask("many", "lsp.symbols", {"path": "a.x"})
    assert len(answer["symbols"]) + answer["truncated"] == 6002
    assert len(json.dumps(answer)) < 1_048_576


def test_path_and_query_together_filter(ask) -> None:
    assert [row["name"] for row in ask("", "lsp.symbols", {"path": "a.x", "query": "B"})["symbols"]] == ["b"]


def test_of_the_project_only_what_lies_in_it(ask) -> None:
    (one,) = ask("", "lsp.symbols", {"query": "f"})["symbols"]
    assert (one["path"], one["line"], one["column"], one["endColumn"]) == ("a.x", 1, 3, 5)


@pytest.mark.parametrize(("way", "first"), [("", "process"), ("pull", "pulled"), ("working", "process")])
def test_findings_asked_for_or_awaited(ask, way: str, first: str) -> None:
    answer = ask(way, "lsp.diagnostics", {"path": "./a.x"})
    assert answer["settled"] is True
    nowhere, one, two = answer["diagnostics"]
    assert nowhere == {"message": "nowhere", "path": "a.x"}
    assert one.pop("message").startswith(first)
    assert one == {"severity": "error", "path": "a.x", "line": 1, "column": 3, "endLine": 1, "endColumn": 5}
    assert (two["severity"], two["source"], two["code"], two["line"]) == ("warning", "s", "12", 2)


def test_a_server_that_says_nothing_is_told_as_that(ask) -> None:
    answer = ask("mute", "lsp.diagnostics", {"path": "a.x"}, timeoutMs=800)
    assert (answer["diagnostics"], answer["settled"]) == ([], False)


def test_what_the_server_asks_is_answered(starter, ask) -> None:
    assert ask("asks", "lsp.symbols", {"path": "a.x"}, settings={"a": {"b": 7}})["ok"] is True
    answers = {m["id"]: m for m in told(starter) if "method" not in m}
    folder = {"uri": starter.project.as_uri(), "name": "project"}
    assert [answers[f"s{number}"].get("result") for number in range(6)] == [
        [7, None, {"a": {"b": 7}}],
        None,
        None,
        None,
        [folder],
        {"applied": False, "failureReason": "this client only reads"},
    ]
    assert answers["s6"]["error"]["code"] == -32601


# --- what is not


@pytest.mark.parametrize(
    ("way", "code", "words"),
    [
        ("dies", "delegate-failed", "closed its pipes"),
        ("hangs", "server-timeout", "initialize"),
        ("half", "delegate-failed", "in the middle of a message"),
        ("half-body", "delegate-failed", "in the middle of a message"),
        ("garbage", "delegate-failed", "header of the protocol"),
        ("no-length", "delegate-failed", "Content-Length"),
        ("two-lengths", "delegate-failed", "Content-Length"),
        ("huge", "delegate-failed", "larger than"),
        ("long-header", "delegate-failed", "longer than"),
        ("no-json", "delegate-failed", "not JSON"),
        ("array", "delegate-failed", "not an object"),
        ("flood", "delegate-failed", "too many messages"),
    ],
)
def test_a_broken_server_is_a_structured_failure(starter, ask, way: str, code: str, words: str) -> None:
    answer = ask(way, "lsp.symbols", {"path": "a.x"}, timeoutMs=1000 if way == "hangs" else 20_000)
    assert (answer["ok"], answer["code"], answer["delegate"]) == (False, code, "lsp")
    assert words in answer["error"]
    assert answer["stderrTail"] == "a word on stderr\n"
    assert answer.get("serverExitCode") == {"dies": 7, "half": 0, "half-body": 0}.get(way)
    assert marked(starter.project) == []


def test_errors_and_what_is_not_offered(starter, ask) -> None:
    answer = ask("error", "lsp.symbols", {"path": "a.x"})
    assert (answer["code"], answer["method"]) == ("server-error", "textDocument/documentSymbol")
    assert "no idea" in answer["error"]
    assert ask("poor", "lsp.symbols", {"query": "x"})["code"] == "not-offered"
    assert ask("dies-later", "lsp.symbols", {"path": "a.x"})["code"] == "delegate-failed"
    assert marked(starter.project) == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "invalid-input"),
        ({"path": "../x"}, "outside-project"),
        ({"path": "/etc/passwd"}, "outside-project"),
        ({"path": "none"}, "not-found"),
        ({"path": "."}, "not-a-file"),
        ({"path": "bytes"}, "not-text"),
        ({"path": "way"}, "outside-project"),
    ],
)
def test_no_server_starts_for_what_is_no_text_of_the_project(starter, ask, given: Any, code: str) -> None:
    (starter.project / "bytes").write_bytes(b"\xff\xfe")
    (starter.project / "way").symlink_to("/etc/passwd")
    assert ask("", "lsp.symbols", given)["code"] == code
    assert not (starter.project / "SAID").exists()


def test_without_a_server_it_is_unavailable_with_a_remedy(starter) -> None:
    probed = starter.call("utility.local", "lsp.symbols", {"probe": True}).answer["tools"]
    for tool in ("lsp.symbols", "lsp.diagnostics"):
        answer = starter.call("utility.local", tool, {"path": "a.x"}).answer
        assert (answer["code"], answer["reasonCode"]) == ("unavailable", "delegate-missing")
        assert "delegates.lsp" in answer["remedy"]
        assert probed[tool] == {
            "status": "unavailable",
            "code": "delegate-missing",
            "reason": answer["error"],
            "remedy": answer["remedy"],
        }
    assert probed["file.hash"] == {"status": "healthy"}
    well = starter.call("utility.local", "lsp.symbols", {"probe": True}, delegates=lsp(""))
    assert well.answer["tools"]["lsp.symbols"] == {"status": "healthy"}
    gone = {"lsp": {"argv": [str(starter.project / "none")]}}
    (starter.project / "a.x").write_text(TEXT)
    answer = starter.call("utility.local", "lsp.symbols", {"path": "a.x"}, delegates=gone).answer
    assert answer["code"] == "delegate-failed"


# --- a process that stays


def test_a_server_is_kept_warm_and_replaced_when_it_is_gone(starter, wait_for, stay) -> None:
    file = starter.project / "a.x"
    file.write_text(TEXT)
    one = stay("utility.local", projectDir=str(starter.project), delegates=lsp(""))

    def server() -> int:
        rows = one.answer("lsp.diagnostics", {"path": "a.x"})["diagnostics"]
        return int(next(row["message"] for row in rows if row["message"].startswith("process")).split()[1])

    first = server()
    assert server() == first
    os.kill(first, 9)
    second = server()
    assert second != first
    assert one.leave() == 0
    wait_for(lambda: not os.path.exists(f"/proc/{second}"), "the end of the server")


def test_a_call_that_is_taken_back_ends_its_server(starter, wait_for, stay) -> None:
    (starter.project / "a.x").write_text(TEXT)
    one = stay("utility.local", projectDir=str(starter.project), delegates=lsp("hangs"))
    name = one.ask("lsp.symbols", {"path": "a.x"})
    assert one.hear()["event"] == "progress"
    one.send({"cancel": name})
    assert one.hear()["code"] == "cancelled"
    assert [pid for pid in marked(starter.project) if pid != one.process.pid] == []
    assert one.leave() == 0


# --- the pieces


def test_frames_come_whole_however_they_are_cut() -> None:
    messages = [{"jsonrpc": "2.0", "id": number, "x": "é" * number} for number in range(20)]
    stream = b"".join(map(encode, messages))
    for size in (1, 2, 3, 7, 1000):
        frames = MessageReader()
        found = [m for at in range(0, len(stream), size) for m in frames.feed(stream[at : at + size])]
        assert found == messages
        assert not frames.partial


def test_a_header_that_never_ends_is_refused() -> None:
    frames = MessageReader()
    line = b"Content-X: y\r\n"
    assert frames.feed(line * (MAX_HEADER_BYTES // len(line))) == []
    assert frames.partial
    with pytest.raises(FramingError):
        frames.feed(line)


HIDE = """
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(15, signal.SIG_IGN)
        open("up", "w").close()
        signal.pause()
    os._exit(0)
signal.pause()
"""


def test_who_hides_in_another_session_is_ended_too(tmp_path: Path, wait_for) -> None:
    child = ChildProcess([sys.executable, "-c", HIDE], str(tmp_path), talks=False)
    wait_for((tmp_path / "up").exists, "the hidden one")
    assert len(marked(tmp_path)) == 2
    assert child.exit_code() is None
    assert child.end(grace_s=0.2) == -15
    child.close()
    wait_for(lambda: marked(tmp_path) == [], "an empty folder")
