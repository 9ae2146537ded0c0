"""Suite S6, forged: an agent that calls gives itself a pseudo-terminal and opens a `flytui` of its own there.

While somebody holds the root, nothing that it types decides anything and no code comes to it. Once nobody
does, that console is the root's own, as any unsandboxed shell of the user could open one; then the log says
on which terminal and beneath which programs it was.
"""

from __future__ import annotations

import json
import os
import re
import signal
import string
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kits.command_line import ESCAPES
from kits.console_processes import processes_of
from kits.scenes import IN_PROJECT, described, program, write_registry
from kits.terminals import BIN, PATIENCE, Root, Tmux, console, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.suite, pytest.mark.timeout(300)]

AGENT = """
import os, pty, selectors, subprocess, sys, termios
flytui, root, shown, *results = sys.argv[1:]
calls = [
    subprocess.Popen(
        [flytui, "--root", root, "call", tool, "{}", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=open(result, "wb"),
        stderr=subprocess.DEVNULL,
    )
    for tool, result in zip(("do.it", "do.high"), results)
]
child, terminal = pty.fork()
if not child:
    termios.tcsetwinsize(0, (40, 120))
    os.execv(flytui, [flytui, "--root", root])
print(os.getpid(), child, flush=True)
with selectors.DefaultSelector() as selector, open(shown, "wb", buffering=0) as kept:
    selector.register(0, selectors.EVENT_READ)
    selector.register(terminal, selectors.EVENT_READ)
    there = True
    while there:
        for key, _ in selector.select():
            try:
                data = os.read(key.fd, 65_536)
            except OSError:
                data = b""
            if not data and key.fd == terminal:
                selector.unregister(terminal)
                os.close(terminal)
                os.waitpid(child, 0)
                terminal = -1
            elif key.fd == terminal:
                kept.write(data)
            elif data and terminal >= 0:
                os.write(terminal, data)
            there = there and (bool(data) or key.fd != 0)
    for process in calls:
        process.kill()
        process.wait()
"""
RUN = f"""#!{sys.executable} -SE
import sys
import time
sys.stdin.buffer.read()
open("ran", "a").write("x")
print('{{"ok": true}}')
"""
TOOLS = ("do.it", "do.high")
CODE = r"\b[A-Z2-9]{4}-[A-Z2-9]{4}\b"
ESCAPE = "\x1b[27u"
"""The key in a form of its own: the byte alone would make alt-keys of what follows in one burst."""
BACK = ESCAPE * 2
WRONG = "AAAA AAAA"
READY = "keys ready ●"
LETTERS = string.ascii_lowercase.replace("q", "")
"""What may be typed without leaving: every letter that confirms, chooses or opens but the one that quits."""
CLICKS = "".join(f"\x1b[<0;{x};{y}M\x1b[<0;{x};{y}m" for y in range(1, 41, 2) for x in range(2, 120, 8))
TOUCHED = {
    "APPROVAL_DECIDED",
    "TOOL_STARTED",
    "LEASE_CHANGED",
    "RULE_CHANGED",
    "BLOCK_CHANGED",
    "REGISTRY_EDITED",
    "QUESTION_ANSWERED",
    "PANIC_RELEASED",
    "CONSOLE_ATTACHED",
}


class Agent:
    """The program that calls, and types on the terminal that it has made itself."""

    def __init__(self, root: Root) -> None:
        self.raw = root.home / "shown"
        self.results = [root.home / f"{tool}.json" for tool in TOOLS]
        words = [str(BIN / "flytui"), str(root.folder), str(self.raw), *map(str, self.results)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", AGENT, *words],
            env=root.environ,
            cwd=root.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.pid, self.console = (int(word) for word in self.process.stdout.readline().split())

    def leaves(self) -> None:
        """Its console is left by its own key, once it has taken every key before it."""
        until("its console leaves", self._has_left)

    def _has_left(self) -> bool:
        self.types(f"{ESCAPE}qq")  # out of what is open, and leave though it asks
        return not Path(f"/proc/{self.console}").exists()

    def types(self, keys: str) -> None:
        """As many keys, in one burst."""
        assert self.process.stdin is not None
        self.process.stdin.write(keys.encode())
        self.process.stdin.flush()

    @property
    def shown(self) -> str:
        """All that its terminal was ever sent, without escape sequences."""
        return ESCAPES.sub("", self.raw.read_text(errors="replace")) if self.raw.exists() else ""

    def after(self, keys: str, pattern: str) -> str:
        """Type, and wait for what is drawn from then on."""
        before = len(self.shown)
        self.types(keys)
        until(f"/{pattern}/ on the agent's terminal", lambda: re.search(pattern, self.shown[before:]))
        return self.shown[before:]

    def result(self, at: int) -> dict[str, object]:
        """What one of its calls came to."""
        text = until("the agent's result", lambda: self.results[at].read_text().strip())
        result = json.loads(text)
        assert isinstance(result, dict)
        return result

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    root = make_root(tmp_path, json.dumps({"schemaVersion": 2, "sidecars": {}}))
    write_registry(root, {"do": _entry(root)})
    root.trust()
    yield root
    root.end()


def _entry(root: Root) -> dict[str, object]:
    return {
        "command": program(root, "do", RUN),
        "tools": [described("do.it"), described("do.high", "high")],
        "permissions": IN_PROJECT,
    }


@contextmanager
def agent_of(root: Root) -> Iterator[Agent]:
    agent = Agent(root)
    try:
        yield agent
    finally:
        agent.end()


@contextmanager
def holder(root: Root, kind: str) -> Iterator[Tmux]:
    """A console in which a person sits: the root's own, or one let in at `flytui serve`."""
    if kind == "console":
        with console(root) as tmux:
            yield tmux
        return
    root = replace(root, forked=False)  # whoever asks to decide is shown with its parent
    serve = Tmux(root)
    serve.open(str(BIN / "flytui"), "--root", str(root.folder), "serve")
    try:
        serve.sees(r"socket +/")
        with console(root) as tmux:
            tmux.sees("Attached to")
            code = serve.sees(CODE)[0]
            assert re.search(r"flytui \(pid \d+\) in tmux \(pid \d+\)", serve.screen().replace("\n", ""))
            tmux.text(code)
            tmux.keys("Enter")
            tmux.sees(r"at pid \d+")
            yield tmux
    finally:
        serve.end()


def hold_text(person: Tmux) -> None:
    """No card opens by itself while a text field is being written in."""
    person.sees("Catalog")
    person.keys("/")
    person.text("do")
    person.sees("keep the filter")


@contextmanager
def agent_held_off(root: Root, person: Tmux) -> Iterator[Agent]:
    hold_text(person)
    with agent_of(root) as agent:
        yield agent


def waiting(root: Root) -> int:
    """How many requests do; -1 where the kernel has not said so in time."""
    kernel = json.loads(root.flytui("status", "--json").stdout)["kernel"]
    return -1 if kernel is None else int(kernel["waiting"])


def new_code(person: Tmux, agent: Agent, codes: list[str]) -> None:
    """The next code is before the person, beside the program that asks."""
    found = until(
        "another code before the person",
        lambda: [code for code in re.findall(CODE, person.screen()) if code not in codes],
    )
    codes.append(found[0])
    person.sees(rf"flytui \(pid {processes_of(agent.console).console}\) in python\S* \(pid {agent.pid}\)")


def three_wrong(agent: Agent) -> None:
    """As many wrong codes as a code allows."""
    agent.after(f"{WRONG}\r", "tries left: 2")
    agent.after(f"{WRONG}\r", "tries left: 1")
    agent.after(f"{WRONG}\r", "now invalid")


def decide_both(person: Tmux, agent: Agent) -> None:
    """Approve the call of medium risk and deny the other, whichever card comes first. Both calls were made at
    once, and the card of the one that arrived first opens first."""

    def are_decided() -> bool:
        screen = person.screen()
        if READY in screen:
            person.keys("d" if "then ‹" in screen else "a")
            time.sleep(0.5)
        return all(result.exists() and result.stat().st_size > 0 for result in agent.results)

    until("both are decided", are_decided)


@pytest.mark.parametrize("kind", ["console", "serve"])
def test_nothing_that_it_types_decides_and_no_code_comes_to_it(root: Root, kind: str) -> None:
    codes: list[str] = []
    with holder(root, kind) as person:
        hold_text(person)
        before = [line["event"] for line in root.audit()]
        with agent_of(root) as agent:
            until("both wait", lambda: waiting(root) == len(TOOLS))
            until("its console asks", lambda: "Attached to" in agent.shown)
            new_code(person, agent, codes)
            three_wrong(agent)
            for _ in range(3):
                agent.after("\x1bOQ", "Attached to|another code|A code is shown")
                new_code(person, agent, codes)
                three_wrong(agent)
            agent.after("\x1bOQ", "too many codes")
            agent.types(f"\x1b[200~{WRONG}\x1b[201~\r{CLICKS}")
            agent.after(ESCAPE, "cannot decide")
            write_registry(root, {"do": _entry(root), "new": _entry(root)})
            person.sees("entry waits")
            agent.after("\x0f", "viewer · cannot decide · P pairs")
            for key in f"a{LETTERS}a":
                agent.types(key)
            agent.types(f"{BACK}\x0f\x1b[200~a\x1b[201~\r\n{CLICKS}")
            agent.types(f"{BACK}2{LETTERS}\r{BACK}4{LETTERS}\r{BACK}Taa\r{BACK}EX\r{BACK}")
            agent.leaves()
            shown = "".join(re.findall(r"[A-Z2-9]", agent.shown))
            assert len(set(codes)) == 4
            assert [code for code in codes if code.replace("-", "") in shown] == []

            events = [line["event"] for line in root.audit()][len(before) :]
            assert TOUCHED.isdisjoint(events)
            assert "TRUST_DECIDED" not in events
            assert waiting(root) == len(TOOLS)
            assert not (root.folder / "ran").exists()
            assert not list((root.home / "config").glob("flytui/policy.jsonc"))

            person.keys("Escape")
            person.keys("C-o")
            decide_both(person, agent)
            assert [agent.result(at)["status"] for at in range(2)] == ["success", "denied"]


def test_a_stop_is_not_released_from_there(root: Root) -> None:
    with console(root) as person, agent_held_off(root, person) as agent:
        until("its console asks", lambda: "Attached to" in agent.shown)
        agent.after(ESCAPE, "cannot decide")
        assert root.flytui("panic").returncode == 0
        until("it is told", lambda: "STOPPED" in agent.shown)
        until("it is open", lambda: agent.types("\x0f") or "Everything is stopped" in agent.shown)
        agent.types(f"\r{'r' * 20}{LETTERS}\r\x1b[200~r\x1b[201~{CLICKS}")
        agent.leaves()
        assert [agent.result(at)["error"]["code"] for at in range(2)] == ["panic", "panic"]
        assert "PANIC_RELEASED" not in [line["event"] for line in root.audit()]
        person.sees("STOPPED")


def test_once_nobody_holds_the_root_its_console_is_the_roots_own_and_the_log_says_whose(root: Root) -> None:
    """Who may decide is the console beside the kernel; terminal and ancestry are hints in the log."""
    with console(root) as person, agent_held_off(root, person) as agent:
        until("its console asks", lambda: "Attached to" in agent.shown)
        agent.after(ESCAPE, "cannot decide")
        until("both wait", lambda: waiting(root) == len(TOOLS))
        os.kill(person.pid, signal.SIGTERM)
        until("its kernel is gone", lambda: "kernel gone" in agent.shown)
        assert TOUCHED.isdisjoint(line["event"] for line in root.audit() if line.get("choice"))
        assert not (root.folder / "ran").exists()
        agent.after("O", "policy ok")
        [opened] = [
            line
            for line in root.audit()
            if line["event"] == "CONSOLE_OPENED" and line["pid"] == processes_of(agent.console).console
        ]
        assert re.fullmatch(r"pts/\d+", opened["terminal"])
        assert opened["beneath"][1].endswith(f" {agent.pid}")
        assert opened["caller"].startswith("python")
