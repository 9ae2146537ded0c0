"""The short way of a command beside a running kernel imports little, and prints what the other does."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flycore.client import sync_client
from flycore.client.sync_client import ConnectionEnded, NoDirectKernel, SyncClient
from flytui.cli import direct
from flytui.cli.direct import Words, read_words
from kits.command import NAMING_MODULES, ORDINARY, SHORT
from kits.command_line import LONGEST, REGISTRY, Desk, until

HEAVY = (
    "click", "asyncio", "anyio", "msgspec", "websockets", "rich", "textual", "jsonschema", "dataclasses",
    "inspect", "flycore.kernel", "flycore.pipeline", "flycore.server", "flycore.client.client",
    "flytui.cli.root_command", "flytui.cli.commands",
)  # fmt: skip
"""What must not be imported: libraries, the kernel, and the ordinary command line."""
CALL = ("call", "try.echo", '{"message": "hi"}')


@pytest.fixture(scope="module")
def beside(settled: Desk) -> Iterator[Desk]:
    with settled.serving():
        settled.run("catalog")  # which waits for the probes: no answer changes after it
        yield settled


def completion(shell: str, line: str, at: str) -> dict[str, str]:
    """The variables by which a shell asks what completes a line."""
    return {"_FLYTUI_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": at}


def completed(desk: Desk, shell: str, line: str, at: str, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], env=desk.environ | completion(shell, line, at), cwd=desk.root,
        input="", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("line", ["flytui call tr", "flytui why ", "flytui inspect t", "flytui disable "])
def test_names_are_completed_by_the_kernel_as_by_the_files(beside: Desk, shell: str, line: str) -> None:
    at = line.split(" ")[-1] if shell == "fish" else "2"
    done = completed(beside, shell, line, at, NAMING_MODULES)
    assert not {name for name in done.stderr.splitlines()[-1].split() if name.startswith(HEAVY)}
    environ = beside.environ | completion(shell, line, at)
    usual = ORDINARY.run(["-c"], environ, beside.root, b"", LONGEST)
    assert "try" in done.stdout
    assert done.stdout == usual.stdout.decode()


def event(desk: Desk, command: str) -> str:
    return json.dumps(
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command},
         "cwd": str(desk.root)}
    )  # fmt: skip


def ran(
    desk: Desk, *words: str, given: str = "", program: str = NAMING_MODULES
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *words], env=desk.environ, cwd=desk.root, input=given,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("hook", "claude-code"), "ls"),
        (CALL, ""),
        ((*CALL, "--json"), ""),
        (("call", "try.echo", "message=hi"), ""),
        (("status", "--json"), ""),
        (("status",), ""),
        (("catalog", "--json"), ""),
        (("catalog",), ""),
        (("why", "try.echo"), ""),
        (("why", "try.echo", "--json"), ""),
    ],
    ids=[
        "hook",
        "call",
        "call-json",
        "call-words",
        "status-json",
        "status",
        "catalog-json",
        "catalog",
        "why",
        "why-json",
    ],
)
def test_beside_a_kernel_little_is_imported(beside: Desk, words: tuple[str, ...], given: str) -> None:
    done = ran(beside, *words, given=event(beside, given) if given else "")
    assert done.returncode == 0, done.stderr
    imported = set(done.stderr.splitlines()[-1].split())
    assert "flycore.client.sync_client" in imported
    assert not {name for name in imported if name.startswith(HEAVY)}


def ordinary(desk: Desk, *words: str, given: str = "", own: bool = False) -> subprocess.CompletedProcess[str]:
    """The same command without the short way, forked, or as a process of its `own`. A call that fails needs
    one: the caller behind all forked ones is the test, which would be paused for its repeated failures."""
    if own:
        program = "import sys\nfrom flytui.cli.root_command import run\nsys.exit(run())\n"
        return ran(desk, *words, given=given, program=program)
    done = ORDINARY.run(["-c", *words], desk.environ, desk.root, given.encode(), LONGEST)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def without_changing(text: str) -> str:
    """A text without what differs between two calls: ids, times, ages and counts of connections."""
    kept = []
    for line in text.splitlines():
        name = line.strip().partition(":")[0]
        if name not in ('"callId"', '"durationMs"', '"waitedMs"', '"clients"', '"discoveredAt"'):
            kept.append(re.sub(r"in \d+ ms|\b\d+[smh] ago", "…", line))
    return "\n".join(kept)


@pytest.mark.parametrize(
    "words",
    [
        CALL,
        (*CALL, "--json"),
        ("--json", *CALL, "--say", "a test", "--timeout-ms", "5000"),
        ("call", "try.echo", "--input", '{"message": "a\\u0007\\u202eb \\ud83d\\ude00"}'),
        ("call", "try.echo", "{}"),
        ("call", "try.echo", "{}", "--json"),
        ("call", "no.such", "{}"),
        ("call", "no.such", "{}", "--json"),
        ("call", "try.echo", '{"a": 1, "a": 2}'),
        ("call", "try.echo", '{"message": "hi"}', "--timeout-ms", "0"),
        ("call", "try.echo", "message=hi"),
        ("status", "--json"),
        ("status",),
        ("status", "--json", "extra"),
        ("call", "try.echo"),
        ("call", "try.echo", "message=12", "delayMs=1", 'more={"a": [1]}', "--json"),
        ("call", "try.echo", "message=hi", "message=ho"),
        ("call", "try.echo", "message"),
        ("call", "try.echo", "-"),
        ("call", "no.such", "a=b"),
        ("catalog",),
        ("catalog", "--json"),
        ("catalog", "--plain"),
        ("catalog", "--all"),
        ("catalog", "--filter", "state:unav"),
        ("catalog", "extra"),
        *(("why", name) for name in ("try.echo", "web.search", "vision.ocr", "file.hash", "web.fetch")),
        *(("why", name, "--json") for name in ("try.echo", "web.search", "try.ecko")),
        ("why", "try.ecko"),
        ("why",),
        ("why", "\x1b[31mx\u202e"),
    ],
)
def test_the_output_is_that_of_the_ordinary_way(beside: Desk, words: tuple[str, ...]) -> None:
    short = ran(beside, *words, program=SHORT)
    usual = ordinary(beside, *words, own="call" in words and short.returncode != 0)
    assert short.returncode == usual.returncode
    assert without_changing(short.stdout) == without_changing(usual.stdout)
    assert without_changing(short.stderr) == without_changing(usual.stderr)


@pytest.fixture
def hostile(desk: Desk) -> Iterator[Desk]:
    """A kernel runs on a root whose files, probe and policy say what could harm a terminal."""
    text = "a\x1b]0;x\x07\x9b31m\u202eb\u200b\U0001f600\u2066\U000e0041 é ü\x7f\ttail"
    desk.allow({"schemaVersion": 1, "rules": [{"tool": "try.echo", "decision": "ask", "because": text}]})
    program = desk.root / "evil"
    answer = {"ok": True, "tools": {"evil.one": {"status": "degraded", "reason": text, "remedy": text}}}
    says = f"printf '%s' {shlex.quote(text)} >&2\necho {shlex.quote(json.dumps(answer))}"
    program.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    program.chmod(0o755)
    tool: dict[str, object] = {"name": "evil.one", "description": text, "summary": text, "risk": "low"}
    tool["inputSchema"] = {"type": "object"}
    sidecars: dict[str, object] = {
        **REGISTRY["sidecars"],
        "evil": {"command": "./evil", "tools": [tool]},
        "off": {"command": "./evil", "enabled": False, "disabledReason": text, "tools": ["web.fetch"]},
        "gone": {"command": f"./{text}", "tools": ["web.extract"]},
    }
    desk.write({"schemaVersion": 2, "sidecars": sidecars})
    desk.trust()
    sidecars["evil"] = {"command": "./evil", "args": [text], "tools": [tool]}
    desk.write({"schemaVersion": 2, "sidecars": sidecars, text: 1})
    with desk.serving():
        yield desk


def test_hostile_texts_are_printed_as_by_the_ordinary_way(hostile: Desk) -> None:
    """An entry that changed and waits for trust, a faulty registry, a probe and rules with such texts."""
    shown = ""
    words = [("status",), ("catalog",), ("catalog", "--json")]
    words += [("why", name) for name in ("evil.one", "try.echo", "web.fetch", "web.extract")]
    for command in words:
        short = ran(hostile, *command, program=SHORT)
        usual = ordinary(hostile, *command)
        assert without_changing(short.stdout) == without_changing(usual.stdout)
        assert short.stderr == usual.stderr
        assert (short.returncode, usual.returncode) == (0, 0)
        shown += short.stdout + short.stderr
    assert "⟦U+202E⟧" in shown
    assert "waits for trust" in shown
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u200b", "\u2066"} & set(shown)


@pytest.mark.parametrize("command", ["ls", "rm -rf .", "cat /etc/passwd"])
@pytest.mark.parametrize("more", [(), ("--without-console", "ask", "--wait", "1")])
def test_the_answer_of_the_hook_is_the_same(beside: Desk, command: str, more: tuple[str, ...]) -> None:
    words = ("hook", "claude-code", *more)
    short = ran(beside, *words, given=event(beside, command), program=SHORT)
    usual = ordinary(beside, *words, given=event(beside, command))
    assert (short.returncode, short.stdout) == (usual.returncode, usual.stdout) == (0, usual.stdout)
    assert json.loads(short.stdout)["hookSpecificOutput"]["permissionDecision"] in ("allow", "deny", "ask")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_call(beside: Desk, signum: signal.Signals) -> None:
    argv = [
        sys.executable,
        "-m",
        "flytui",
        "call",
        "try.echo",
        '{"message": "hi", "delayMs": 60000}',
        "--json",
    ]
    with subprocess.Popen(
        argv, env=beside.environ, cwd=beside.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until("the call runs", lambda: beside.document("status")["kernel"]["running"] == 1)
        process.send_signal(signum)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signum, err
    assert json.loads(out)["error"]["code"] == "cancelled"
    until("the kernel ended it", lambda: beside.document("status")["kernel"]["running"] == 0)


def test_progress_is_shown_for_a_call_that_takes_longer(beside: Desk) -> None:
    with beside.terminal("call", "try.echo", '{"message": "hi", "delayMs": 3000}') as shown:
        shown.until("try.echo: 0:0")
        assert shown.end() == 0
    assert "success: try.echo" in shown.shown


def test_an_output_that_nobody_reads_ends_as_ever(beside: Desk) -> None:
    argv = [sys.executable, "-m", "flytui", *CALL]
    for redirected, code in (("| true", 1), (">/dev/full", 1)):
        script = f'set -o pipefail; trap "" PIPE; "$@" {redirected}'
        done = subprocess.run(
            ["bash", "-c", script, "bash", *argv], env=beside.environ, cwd=beside.root,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in (0, code)
        assert "Traceback" not in done.stderr


# --- words


@pytest.mark.parametrize(
    "words",
    [
        [], ["--help"], ["call", "--help"], ["catalog", "--all"],
        ["why", "t", "--filter", "x"], ["call", "t", "{}", "--wait-approver", "1"],
        ["call", "t", "{}", "--json", "--json"], ["--root", "/nowhere", "status"], ["status", "-x"],
        ["--json=1", "status"], ["call", "t", "{}", "--no-wait=1"], ["call", "t", "{}", "--wait", "1"],
        ["hook", "claude-code", "--print-config"], ["--say", "x", "call", "t", "{}"], ["call", "-"],
        ["call", "--", "t"],
    ],
)  # fmt: skip
def test_whatever_is_unusual_is_left_to_the_ordinary_way(words: list[str]) -> None:
    with pytest.raises(direct.OrdinaryWay):
        read_words(words)


def test_plain_words_are_read(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert read_words(["--root", root, "call", "t", "{}", "--say=x", "--json"]) == Words(
        "call", ("t", "{}"), {"--root": root, "--say": "x", "--json": ""}
    )


def test_without_a_kernel_the_ordinary_way_does_it(trusted: Desk) -> None:
    trusted.end_kernel()
    assert trusted.document("status")["running"] is False
    done = trusted.run("call", "try.echo", '{"message": "hi"}')
    assert done.returncode == 0, done.stderr
    assert "hi" in done.stdout


# --- what answers on a socket


def client_of(answer: bytes) -> SyncClient:
    """A client whose other end sends these bytes, and then nothing more."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.settimeout(10)

    def send() -> None:
        with theirs:
            theirs.recv(65_536)
            theirs.sendall(answer)

    threading.Thread(target=send).start()
    return SyncClient(ours)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 101 X\r\nSec-WebSocket-Accept: AAAA\r\n\r\n\x81\x02{}",
        b"x" * 100_000,
        os.urandom(64) + b"\r\n\r\n",
    ],
    ids=range(6),
)
def test_a_program_that_is_no_kernel_is_not_asked(answer: bytes) -> None:
    client = client_of(answer)
    with pytest.raises((NoDirectKernel, ConnectionEnded)):
        client.open(viewer=False)
    client.close()


def test_a_kernel_that_never_answers_is_left_to_the_other_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_client, "OPEN_SECONDS", 0.05)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    client = SyncClient(ours)
    with theirs, closing(client), pytest.raises(TimeoutError):
        client.open(viewer=False)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    client = SyncClient(ours)
    with theirs, closing(client), pytest.raises(NoDirectKernel):
        client.ask("client.hello", {})


def test_any_error_of_the_hook_blocks_the_tool(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any other exit code than 2 would let the agent run its tool."""

    def broken(words: Words) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(direct, "_read_request", broken)
    with open(os.devnull, "w", encoding="utf-8") as null:
        monkeypatch.setattr(sys, "stdout", null)
        assert direct.run_direct(["hook", "claude-code"]) == 2
    assert "nothing is allowed: RecursionError" in capsys.readouterr().err


def frames(*parts: bytes) -> Iterator[dict[str, Any] | None]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    client = SyncClient(ours)
    with theirs:
        theirs.sendall(b"".join(parts))
        theirs.shutdown(socket.SHUT_WR)
        try:
            yield from client.answers("r1", 10.0)
        finally:
            client.close()


TEXT = b'{"type": "x", "correlationId": "r1", "payload": {}}'


def test_messages_may_come_in_parts_with_pings_between() -> None:
    parts = (
        b"\x01" + bytes([10]) + TEXT[:10],
        b"\x89\x02hi",
        b"\x80" + bytes([len(TEXT) - 10]) + TEXT[10:],
    )
    with closing(frames(*parts)) as messages:
        assert next(messages) == json.loads(TEXT)
    long = TEXT[:-2] + b'"a": "' + b"x" * 70_000 + b'"}}'
    with closing(frames(b"\x81\x7f" + len(long).to_bytes(8, "big") + long)) as messages:
        assert next(messages) == json.loads(long)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x81",
        b"\x81\x7f" + b"\xff" * 8,
        b"\x88\x00",
        b"\x81\x82\0\0\0\0{}",
        b"\xc1\x02{}",
        b"\x81\x02{{",
        b"\x81\x7e\xff\xff{}",
    ],
    ids=range(8),
)
def test_a_broken_connection_ends_the_wait(data: bytes) -> None:
    with pytest.raises(ConnectionEnded):
        next(frames(data))
