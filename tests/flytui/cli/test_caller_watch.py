"""A hook or an MCP server whose caller or reader is gone ends, and what it asked a person is withdrawn."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from kits.command_line import Desk, Terminal
from kits.forked import start_forker

EVENT = {
    "session_id": "abc",
    "cwd": "/src/shop",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "make"},
}
INIT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
MESSAGES: tuple[dict[str, Any], ...] = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INIT},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "shell_run", "arguments": {"command": "make"}}},
)  # fmt: skip
HOOK = json.dumps(EVENT).encode()
MCP = b"".join(json.dumps(message).encode() + b"\n" for message in MESSAGES)
COMMANDS = {
    "hook": (("hook", "claude-code"), HOOK),
    "hook, forked": (("hook", "claude-code"), HOOK),
    "mcp": (("mcp",), MCP),
}
AGENT = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:])
print(child.pid, file=sys.stderr, flush=True)
child.wait()
"""
"""An agent that starts a command and waits for it. The pipes are the test's, and outlive the agent."""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    root, home = tmp_path / "shop", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    (home / "run").mkdir(mode=0o700)
    desk = Desk(root, home)
    desk.write({"schemaVersion": 2, "sidecars": {}})
    return desk


class Asks(NamedTuple):
    """A command that asks a person."""

    words: tuple[str, ...]
    given: bytes
    """Its input."""
    forked: bool


@pytest.fixture(params=COMMANDS)
def asks(request: pytest.FixtureRequest) -> Asks:
    return Asks(*COMMANDS[request.param], forked="forked" in request.param)


def waiting(desk: Desk) -> int:
    """How many requests wait for the console."""
    kernel = desk.document("status")["kernel"]
    return 0 if kernel is None else int(kernel["waiting"])


class Asking:
    """A started program, below it a command whose request waits in an open console."""

    def __init__(self, console: Terminal, process: subprocess.Popen[bytes], reader: IO[bytes]) -> None:
        self.console, self.process, self.reader = console, process, reader

    def ends(self, desk: Desk, pid: int) -> None:
        """Wait until the process has ended and nothing waits."""
        self.console.until_so("the command has ended", lambda: not Path(f"/proc/{pid}/exe").exists())
        self.console.until_so("the request is gone", lambda: waiting(desk) == 0)


@contextmanager
def asking(desk: Desk, argv: list[str], asks: Asks) -> Iterator[Asking]:
    """An open console, and that command with a request. Its pipes stay open until the test closes them."""
    given = asks.given
    with desk.terminal() as console:
        console.until("Catalog")
        if asks.forked:
            start_forker(desk)
        with subprocess.Popen(
            argv, env=desk.environ, cwd=desk.root,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(given)
            process.stdin.flush()
            if b"jsonrpc" not in given:
                process.stdin.close()
            try:
                console.until_so("the request waits", lambda: waiting(desk) == 1)
                yield Asking(console, process, process.stdout)
            finally:
                process.kill()


def test_it_ends_when_nobody_reads_its_answer(desk: Desk, asks: Asks) -> None:
    words = asks.words
    with asking(desk, desk.argv(*words), asks) as one:
        one.reader.close()
        one.ends(desk, one.process.pid)
        assert one.process.wait(60) == (0 if "mcp" in words else 2)


@pytest.mark.parametrize("through", ["nothing", "a shell", "a shell and a wrapper"])
def test_it_ends_when_its_caller_was_killed_whoever_holds_its_pipes(
    desk: Desk, asks: Asks, through: str
) -> None:
    words = asks.words
    argv = desk.argv(*words)
    line = {
        "nothing": argv,
        "a shell": ["sh", "-c", f"{shlex.join(argv)}; exit $?"],
        "a shell and a wrapper": ["bash", "-c", f"timeout 600 {shlex.join(argv)} | cat"],
    }[through]
    with asking(desk, [sys.executable, "-c", AGENT, *line], asks) as one:
        assert one.process.stderr is not None
        child = int(one.process.stderr.readline())
        os.kill(one.process.pid, signal.SIGKILL)
        one.process.wait(60)
        one.ends(desk, child)


def test_it_ends_when_only_the_shell_between_was_killed(desk: Desk, asks: Asks) -> None:
    words = asks.words
    line = ["sh", "-c", f"{shlex.join(desk.argv(*words))}; exit $?"]
    with asking(desk, line, asks) as one:
        os.kill(one.process.pid, signal.SIGKILL)
        one.console.until_so("the request is gone", lambda: waiting(desk) == 0)


def test_it_goes_on_when_only_its_caller_s_starter_was_killed(desk: Desk, asks: Asks) -> None:
    words = asks.words
    argv = desk.argv(*words, *(() if "mcp" in words else ("--wait", "3")))
    agent = shlex.join([sys.executable, "-c", AGENT, *argv])
    with asking(desk, ["sh", "-c", f"{agent}; exit $?"], asks) as one:
        os.kill(one.process.pid, signal.SIGKILL)
        one.process.wait(60)
        if "mcp" in words:
            assert one.process.stdin is not None
            one.process.stdin.write(b'{"jsonrpc": "2.0", "id": 3, "method": "ping"}\n')
            one.process.stdin.flush()
        expected = b'"id":3' if "mcp" in words else b'"permissionDecision":"deny"'
        assert any(expected in line for line in iter(one.reader.readline, b""))
