"""The kit: what reaches a tool, and what leaves it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
sys.path[:0] = {paths!r}
from flysidecars.sdk import Call, InvalidInput, JsonObject, Sidecar, ToolFailed, Unavailable

sidecar = Sidecar("test")

@sidecar.tool("say")
def say(call: Call) -> JsonObject:
    print("a library that prints")
    os.write(1, b"and one that writes\\n")
    call.log("hello", "warning")
    call.progress(1, 2, "half")
    number = call.integer("n", 1, 9, 5)
    return {{"said": call.text("text"), "n": number, "maybe": call.optional_text("maybe")}}

@sidecar.tool("disk")
def disk(call: Call) -> JsonObject:
    raise OSError(28, "No space left on device")

@sidecar.tool("bug")
def bug(call: Call) -> JsonObject:
    return {{"x": 1 / 0}}

@sidecar.tool("fail")
def fail(call: Call) -> JsonObject:
    raise ToolFailed("own-code", "it failed", ok=True, rejected="/x", code_of_provider=7)

sys.exit(sidecar.answer_probe() if "--probe" in sys.argv else sidecar.answer_request())
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    root = Path(__file__).resolve().parents[2]
    file = tmp_path / "sidecar.py"
    file.write_text(PROGRAM.format(paths=[str(root / "sidecars"), str(root / "core")]))
    return [sys.executable, str(file)]


def ask(program: list[str], stdin: bytes, *more: str) -> tuple[int, list[dict[str, object]], str]:
    done = subprocess.run([*program, *more], input=stdin, capture_output=True, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def request(tool: str, **input: object) -> bytes:
    return json.dumps({"tool": tool, "input": input, "someKeyOfLater": 1}).encode()


def test_events_then_answer_and_prints_go_to_stderr(program: list[str]) -> None:
    code, lines, stderr = ask(program, request("say", text="x"))
    assert code == 0
    assert lines == [
        {"event": "log", "level": "warning", "message": "hello"},
        {"event": "progress", "progress": 1, "total": 2, "message": "half"},
        {"ok": True, "said": "x", "n": 5, "maybe": None},
    ]
    assert "a library that prints" in stderr
    assert "and one that writes" in stderr


@pytest.mark.parametrize(
    "input",
    [
        {},
        {"text": 1},
        {"text": "x", "n": 0},
        {"text": "x", "n": 10},
        {"text": "x", "n": True},
        {"text": "x", "n": 2.0},
        {"text": "x", "n": "3"},
        {"text": "x", "maybe": []},
    ],
)
def test_typed_access_refuses(program: list[str], input: dict[str, object]) -> None:
    code, lines, _ = ask(program, request("say", **input))
    assert (code, lines[-1]["ok"], lines[-1]["code"]) == (1, False, "invalid-input")


@pytest.mark.parametrize(
    "stdin",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"input": {}}',
        b'{"tool": 3}',
        b'{"tool": "say", "input": []}',
        b'{"tool": "say", "config": "x"}',
        b'{"tool": "say", "delegates": 1}',
        b'{"tool": "say", "projectDir": 1}',
        b'{"tool": "say", "input": {"n": NaN}}',
        b'{"tool": "say"} {"tool": "say"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_requests_that_are_none(program: list[str], stdin: bytes) -> None:
    code, lines, _ = ask(program, stdin)
    assert (code, len(lines), lines[0]["code"]) == (1, 1, "invalid-request")


def test_failures_keep_code_and_fields(program: list[str]) -> None:
    code, lines, _ = ask(program, request("fail"))
    assert code == 1
    assert lines == [
        {"ok": False, "code": "own-code", "error": "it failed", "rejected": "/x", "code_of_provider": 7}
    ]


def test_failures_of_the_system_are_answers(program: list[str]) -> None:
    _, lines, _ = ask(program, request("disk"))
    assert lines[0]["code"] == "os-error"
    assert lines[0]["errno"] == "ENOSPC"


def test_a_bug_is_no_answer(program: list[str]) -> None:
    code, lines, stderr = ask(program, request("bug"))
    assert (code, lines) == (1, [])
    assert "ZeroDivisionError" in stderr


def test_unknown_tool_names_those_there_are(program: list[str]) -> None:
    _, lines, _ = ask(program, request("nope"))
    assert lines[0]["code"] == "not-found"
    assert lines[0]["tools"] == ["bug", "disk", "fail", "say"]


@pytest.mark.parametrize("by_flag", [True, False])
def test_probe_without_a_function_of_its_own(program: list[str], by_flag: bool) -> None:
    stdin = b"" if by_flag else request("say", probe=True)
    code, lines, _ = ask(program, stdin, *(["--probe"] if by_flag else []))
    assert code == 0
    assert lines[0]["tools"] == {name: {"status": "healthy"} for name in ("say", "disk", "bug", "fail")}


def test_lone_surrogates_do_not_leave(program: list[str]) -> None:
    _, lines, _ = ask(program, b'{"tool": "say", "input": {"text": "a\\ud800b\\ud83d\\ude42"}}')
    assert lines[-1]["said"] == "a?b\U0001f642"


def test_a_caller_that_has_gone_is_no_crash(program: list[str]) -> None:
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write(request("say", text="x"))
        process.stdin.close()
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode == 1
