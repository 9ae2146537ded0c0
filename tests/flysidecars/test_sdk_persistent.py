"""The kit in a process that stays: requests as lines, cancels while a tool runs, bugs that end nothing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import sys, threading, time
sys.path[:0] = {paths!r}
from flysidecars.sdk import Call, Cancelled, JsonObject, Sidecar

sidecar = Sidecar("test")
tidied = []

@sidecar.tool("count")
def count(call: Call, text: str, times: int = 1, words: list[str] | None = None) -> JsonObject:
    '''Counts letters.

    And more.'''
    return {{"letters": len(text) * times, "words": words, "tidied": len(tidied)}}

@sidecar.tool("double")
def double(number: float) -> float:
    return number * 2

@sidecar.tool("long")
def long(call: Call) -> JsonObject:
    try:
        while True:
            call.progress(1)
            time.sleep(0.005)
    except Cancelled:
        tidied.append(1)
        raise

@sidecar.tool("bug")
def bug(call: Call) -> JsonObject:
    return {{"x": 1 / 0}}

@sidecar.tool("no-json")
def no_json(call: Call) -> JsonObject:
    return {{"x": float("nan")}}

@sidecar.tool("task")
def task(call: Call) -> JsonObject:
    call.busy(True)
    threading.Timer(0.05, call.busy, (False,)).start()
    return {{}}

sys.exit(sidecar.main(sys.argv[1:]))
"""


class Talk:
    """One process and the lines that go to and fro."""

    def __init__(self, argv: list[str], **more: Any) -> None:
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more)
        self.count = 0

    def send(self, document: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(document).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        heard: dict[str, Any] = json.loads(self.process.stdout.readline())
        return heard

    def ask(self, tool: str, input: Any = None, **more: Any) -> str:
        self.count += 1
        name = f"r{self.count}"
        self.send({"tool": tool, "input": input or {}, "requestId": name, "persistent": True, **more})
        return name

    def answer(self, tool: str, input: Any = None, **more: Any) -> dict[str, Any]:
        name = self.ask(tool, input, **more)
        heard = self.hear()
        assert heard.pop("requestId") == name
        return heard

    def leave(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(30)


@pytest.fixture
def talk() -> Iterator[Callable[..., Talk]]:
    made: list[Talk] = []

    def start(argv: list[str], **more: Any) -> Talk:
        made.append(Talk(argv, **more))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        one.process.wait()
        for pipe in (one.process.stdin, one.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    root = Path(__file__).resolve().parents[2]
    file = tmp_path / "sidecar.py"
    file.write_text(PROGRAM.format(paths=[str(root / "sidecars"), str(root / "core")]))
    return [sys.executable, str(file)]


def test_one_process_answers_line_after_line_and_leaves_with_stdin(talk: Any, program: list[str]) -> None:
    one = talk(program)
    for number in range(3):
        answer = one.answer("count", {"text": "abc", "times": number})
        assert answer == {"ok": True, "letters": 3 * number, "words": None, "tidied": 0}
    assert one.answer("double", {"number": 4}) == {"ok": True, "result": 8}
    assert one.answer("nothing")["code"] == "not-found"
    assert one.answer("count", {"probe": True})["ok"] is True
    assert one.leave() == 0


@pytest.mark.parametrize(
    ("input", "field"),
    [
        ({}, "text"),
        ({"text": 1}, "text"),
        ({"text": "a", "times": True}, "times"),
        ({"text": "a", "times": 1.5}, "times"),
        ({"text": "a", "words": ["a", 1]}, "words[1]"),
        ({"text": "a", "more": 1}, "more"),
    ],
)
def test_typed_functions_check_their_input(talk: Any, program: list[str], input: Any, field: str) -> None:
    answer = talk(program).answer("count", input)
    assert (answer["code"], answer["field"]) == ("invalid-input", field)


def test_the_schema_is_made_of_the_annotations(program: list[str]) -> None:
    done = subprocess.run([*program, "--schema"], capture_output=True, check=True)
    tools = {tool["name"]: tool for tool in json.loads(done.stdout)}
    assert tools["count"]["description"] == "Counts letters."
    schema = tools["count"]["input_schema"]
    assert schema["required"] == ["text"]
    assert schema["properties"]["times"] == {"type": "integer", "default": 1}
    assert schema["properties"]["words"] == {"type": ["array", "null"], "items": {"type": "string"}}
    assert tools["long"]["input_schema"] == {"type": "object"}


def test_a_cancel_is_seen_while_the_tool_runs(talk: Any, program: list[str]) -> None:
    one = talk(program)
    name = one.ask("long")
    assert one.hear()["event"] == "progress"
    one.send({"cancel": "another"})
    one.send({"cancel": name})
    while (heard := one.hear()).get("event"):
        pass
    assert (heard["code"], heard["requestId"]) == ("cancelled", name)
    one.send({"cancel": name})  # too late, and means nothing
    assert one.answer("count", {"text": "a"})["tidied"] == 1


def test_bugs_and_broken_requests_end_nothing(talk: Any, program: list[str]) -> None:
    one = talk(program, stderr=subprocess.DEVNULL)
    answer = one.answer("bug")
    assert (answer["ok"], answer["code"]) == (False, "internal")
    assert "ZeroDivisionError" in answer["error"]
    assert one.answer("no-json")["code"] == "internal"
    assert one.answer("count", [1])["code"] == "invalid-request"
    assert one.answer("double", {"number": 1}) == {"ok": True, "result": 2}


def test_busy_is_said_and_needs_a_process_that_stays(talk: Any, program: list[str]) -> None:
    one = talk(program)
    name = one.ask("task")
    assert [one.hear() for _ in range(3)] == [
        {"event": "busy", "busy": True},
        {"ok": True, "requestId": name},
        {"event": "busy", "busy": False},
    ]
    alone = json.dumps({"tool": "task", "input": {}}).encode()
    done = subprocess.run(program, input=alone, capture_output=True, check=False)
    answer = json.loads(done.stdout)
    assert (answer["code"], done.returncode) == ("unavailable", 1)
    assert "process-json-persistent" in answer["remedy"]


def test_our_own_sidecars_stay(talk: Any, starter: Any) -> None:
    (starter.project / "a").write_bytes(b"hello")
    where = {"projectDir": str(starter.project)}
    one = talk(starter.argv("utility.local"), env=starter.env)
    for _ in range(2):
        answer = one.answer("file.hash", {"path": "a"}, **where)
        assert answer["digest"] == hashlib.sha256(b"hello").hexdigest()
    echo = talk(starter.argv("mock.echo"), env=starter.env)
    assert echo.answer("x.y", {"a": 1})["echo"] == {"a": 1}
    name = echo.ask("x.y", {"delayMs": 3_600_000})
    assert echo.hear()["event"] == "progress"
    echo.send({"cancel": name})
    while (heard := echo.hear()).get("event"):
        pass
    assert heard["code"] == "cancelled"
    assert echo.leave() == 0


def test_a_program_that_described_itself_gets_the_input_alone(program: list[str]) -> None:
    environ = {**os.environ, "FLYTUI_TOOL_NAME": "count"}

    def run(stdin: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(program, input=stdin, capture_output=True, env=environ, check=False)

    good, bad = run(b'{"text": "abca"}'), run(b'{"text": 5}')
    assert (good.returncode, "ok" in json.loads(good.stdout)) == (0, False)
    assert (bad.returncode, bad.stdout) == (1, b"")
    assert b"text" in bad.stderr
    # The name of a tool that the program does not have changes nothing.
    environ["FLYTUI_TOOL_NAME"] = "another"
    assert json.loads(run(b'{"tool": "count", "input": {"text": "a"}}').stdout)["ok"] is True
