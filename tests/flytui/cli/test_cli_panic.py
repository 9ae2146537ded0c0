"""`flytui panic` as a process: with a kernel, without one, beside one that is mute, and its release."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from flycore.registry.paths import find_paths
from kits.command import WITHOUT_PATIENCE
from kits.command_line import Desk, until

SLOW = ("call", "try.echo", "message=hi", "delayMs=60000", "--json")
CALL = ("call", "try.echo", "message=hi", "--json")


def events(desk: Desk) -> list[str]:
    """Names of the log's lines."""
    return [line["event"] for line in desk.document("audit", "tail", "-n", "50")["lines"]]


def test_it_ends_what_runs_and_says_what_that_was(trusted: Desk) -> None:
    process = trusted.start(*SLOW)
    until("the call runs", lambda: "TOOL_STARTED" in events(trusted))
    told = trusted.document("panic")
    said, _ = process.communicate(timeout=60)
    result = json.loads(said)
    assert (told["kernel"], told["already"]) == (True, False)
    assert [call["tool"] for call in told["calls"]] == ["try.echo"]
    assert (process.returncode, result["status"], result["error"]["code"]) == (1, "failed", "panic")
    assert trusted.survivors() == []
    assert events(trusted).count("PANIC") == 1


def test_it_holds_for_the_next_kernel_until_a_person_releases_it(trusted: Desk) -> None:
    trusted.end_kernel()
    done = trusted.run("panic")
    assert done.returncode == 0
    assert "everything is stopped" in done.stdout
    assert trusted.document("panic")["already"] is True
    [file] = (trusted.home / "state").glob("flytui/roots/*/panic.json")
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    for _ in range(2):
        trusted.end_kernel()
        refused = trusted.run(*CALL)
        assert (refused.returncode, json.loads(refused.stdout)["error"]["code"]) == (4, "panic")
    assert trusted.document("status")["panic"] is True
    assert "everything is stopped" in trusted.run("status").stdout
    for given in (b"", b"y\n", b"yes\n"):
        assert trusted.run("panic", "--release", given=given).returncode == 4
    assert trusted.run("panic", "--release", "--json").returncode == 4
    assert file.exists()
    for answer, code in (("n", 4), ("", 4), ("ja", 4), ("y", 0)):
        with trusted.terminal("panic", "--release") as terminal:
            terminal.until("y/N")
            terminal.press(f"{answer}\r")
            assert terminal.end() == code
    assert trusted.run(*CALL).returncode == 0
    assert trusted.run("panic", "--release").returncode == 0
    assert [name for name in events(trusted) if name.startswith("PANIC")] == ["PANIC", "PANIC_RELEASED"]


def test_a_kernel_that_runs_is_not_released_by_the_command(trusted: Desk) -> None:
    with trusted.terminal() as console:
        console.until("policy ok")
        assert trusted.document("panic")["kernel"] is True
        with trusted.terminal("panic", "--release") as terminal:
            terminal.until("in the console")
            assert terminal.end() == 4
        refused = trusted.run(*CALL)
        assert json.loads(refused.stdout)["error"]["code"] == "panic"


def test_beside_a_kernel_that_does_not_answer_it_stops_the_next_one_and_says_so(
    trusted: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pathlib import Path

    from flycore.client import client
    from flycore.kernel.lock import RootLock
    from flytui.cli.commands import panic
    from flytui.cli.invocation import Invocation

    for name, value in trusted.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(client, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(client, "RECONNECT_SECONDS", 0.0)  # the lock is young
    trusted.end_kernel()
    places = find_paths(str(trusted.root), None, trusted.environ, Path.cwd())
    with RootLock.acquire(places, "console"):
        code = panic._print_stop(Invocation(root=str(trusted.root)), places)
    assert code == panic.EXIT_NOT_SURE
    printed = capsys.readouterr()
    assert f"kill -9 {os.getpid()}" in printed.err
    assert "everything is stopped" not in printed.out + printed.err
    assert json.loads(trusted.run(*CALL).stdout)["error"]["code"] == "panic"


@pytest.mark.long
def test_a_kernel_that_does_not_answer_is_named_and_ended_by_signal(
    trusted: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from flycore.client import client, kernel_link
    from flytui.cli.commands import panic
    from flytui.cli.invocation import Invocation

    kernel = trusted.start("serve")
    until("the kernel runs", lambda: trusted.owner() == "serve")
    os.kill(kernel.pid, signal.SIGSTOP)
    document = json.loads(trusted.run("status", "--json", **WITHOUT_PATIENCE).stdout)
    assert (document["running"], document["heldBy"]) == (False, kernel.pid)
    shown = trusted.run("status", **WITHOUT_PATIENCE).stdout
    assert f"held by pid {kernel.pid}, does not answer" in shown
    for name, value in trusted.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(client, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(client, "RECONNECT_SECONDS", 0.0)
    monkeypatch.setattr(kernel_link, "CONNECT_SECONDS", 0.5)
    assert panic._stop_root(Invocation(root=str(trusted.root)).places())[1] == 0
    kernel.communicate(timeout=60)
    assert json.loads(trusted.run(*CALL).stdout)["error"]["code"] == "panic"
    assert trusted.document("status")["heldBy"] is None


CROWD = """
import select, socket, sys
held = []
try:
    for _ in range(60):
        one = socket.socket(socket.AF_UNIX)
        one.connect(sys.argv[1])
        one.send(b"GET /ws HTTP/1.1\\r\\n")
        held.append(one)
except OSError:
    pass
select.select(held, [], [])
print("refused", flush=True)
sys.stdin.read()
"""


def descriptor_table_size(pid: int) -> int:
    """A bound of the numbers of the process's descriptors. Only root may list those of a kernel."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("FDSize:"))


def test_a_crowd_that_takes_every_descriptor_leaves_some_to_the_persons_commands(trusted: Desk) -> None:
    places = find_paths(str(trusted.root), None, trusted.environ, Path.cwd())
    desk = replace(trusted, forked=False)
    with ExitStack() as stack:
        kernel = desk.start("serve")
        stack.callback(kernel.communicate, timeout=60)
        stack.callback(kernel.kill)
        until("the kernel runs", lambda: desk.owner() == "serve")
        most = descriptor_table_size(kernel.pid) + 30
        resource.prlimit(kernel.pid, resource.RLIMIT_NOFILE, (most, most))
        crowds = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", CROWD, str(places.socket)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            for _ in range(3)
        ]
        # They connect more often than there are descriptors, and less often than a process may.
        for crowd in crowds:
            assert crowd.stdout is not None
            assert crowd.stdout.readline() == b"refused\n"
        assert desk.document("status")["running"]
        done = desk.document("panic")
        assert (done["kernel"], done["stopped"]) == (True, True)
        for crowd in crowds:
            crowd.kill()


@pytest.mark.parametrize("text", ['{"at": 1, "by": "\\u001b[2J\\u202e"}'])
def test_a_file_that_is_broken_or_hostile_stops_and_is_drawn_safely(trusted: Desk, text: str) -> None:
    trusted.run("panic")
    trusted.end_kernel()
    [file] = (trusted.home / "state").glob("flytui/roots/*/panic.json")
    file.write_text(text)
    assert trusted.run(*CALL).returncode == 4
    with trusted.terminal("panic", "--release") as terminal:
        terminal.until("y/N")
        assert "\x1b[2J" not in terminal.raw
        assert "\u202e" not in terminal.raw
        terminal.press("y\r")
        assert terminal.end() == 0
    assert trusted.run(*CALL).returncode == 0


def test_questions_are_listed_with_the_requests(trusted: Desk) -> None:
    with trusted.terminal() as console:
        console.until("policy ok")
        trusted.run("panic")
        listed = trusted.document("approvals")
        assert [question["id"] for question in listed["questions"]] == ["panic"]
        assert "Everything is stopped" in trusted.run("approvals").stdout
