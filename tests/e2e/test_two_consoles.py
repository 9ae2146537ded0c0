"""Two consoles on one root: paired by a code, one answer counts, and what is left when a kernel goes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kits.console_processes import ConsoleProcesses, kill_with_kernel, processes_of
from kits.terminals import BIN, Root, Tmux, console, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
CODE = r"\b[A-Z2-9]{4}-[A-Z2-9]{4}\b"
READY = "keys ready ●"
PAIRED = r"at pid \d+"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    root = make_root(tmp_path, only=("mock.echo",))
    root.trust()
    yield root
    root.end()


@contextmanager
def beside(root: Root, width: int = 120, height: int = 40) -> Iterator[Tmux]:
    """A console where one holds the root already: attached, and asking for its code."""
    with console(root, width, height) as tmux:
        tmux.sees("Attached to")
        yield tmux


def pair(first: Tmux, second: Tmux) -> None:
    """Read the code in one console, type it in the other as a person might: small, without its dash."""
    code = first.sees(CODE)[0]
    second.text(code.replace("-", "").lower())
    second.keys("Enter")
    second.sees(PAIRED)


def open_card(tmux: Tmux) -> None:
    """Open what waits, and wait until its keys count."""
    tmux.sees("1 waiting")
    tmux.keys("C-o")
    tmux.sees(READY)


def look_on(tmux: Tmux) -> None:
    """Leave the code alone."""
    tmux.sees("Attached to")
    tmux.keys("Escape")
    tmux.lacks("Attached to")
    tmux.sees("viewer · cannot decide")


def call(root: Root, message: str, *more: str) -> subprocess.Popen[str]:
    return root.start("call", "mock.echo", f"message={message}", "--json", *more)


def result_of(agent: subprocess.Popen[str]) -> dict[str, object]:
    out, err = agent.communicate(timeout=120)
    result = json.loads(out)
    assert isinstance(result, dict), err
    return result


def decided(root: Root) -> list[str]:
    return [str(line["decision"]) for line in root.audit() if line["event"] == "APPROVAL_DECIDED"]


def processes(tmux: Tmux) -> ConsoleProcesses:
    """The processes of the console in that pane."""
    return processes_of(tmux.pid)


def test_both_press_at_the_same_moment_and_one_answer_counts(root: Root) -> None:
    with console(root) as first, beside(root, 80, 24) as second:
        pair(first, second)
        until("the code is gone", lambda: not re.search(CODE, first.screen()))
        agent = call(root, "once")
        for tmux in (first, second):
            open_card(tmux)
        pressing = [
            subprocess.Popen(["tmux", "-S", tmux.socket, "send-keys", key], env=root.environ)
            for tmux, key in ((first, "a"), (second, "d"))
        ]
        for process in pressing:
            process.wait(60)
        result = result_of(agent)
        answers = {"success": "approved once", "denied": "denied"}
        won = answers[str(result["status"])]
        other = second if won == "approved once" else first
        who = processes(first if other is second else second).console
        other.sees(rf"answered by the console on pid {who}: {won}")
        other.keys("a")
        until("one decision in the log", lambda: len(decided(root)) == 1)
        assert root.flytui("audit", "verify").returncode == 0


def test_what_waits_is_there_for_a_console_that_comes_later_and_decided_it_stays(root: Root) -> None:
    with console(root, 80, 24) as first:
        first.sees(r"(available|degraded) +mock\.echo")
        agent = call(root, "later")
        first.sees(READY)
        first.keys("Escape")
        first.lacks(READY)
        with beside(root) as second:
            look_on(second)
            second.sees("1 waiting")
            second.keys("C-o")
            second.sees("viewer · cannot decide · P pairs ○")
            second.keys("a", "d", "t")
            earlier = first.sees(CODE)[0]
            second.keys("P")
            second.sees("Attached to")
            until("another code", lambda: re.findall(CODE, first.screen()) not in ([], [earlier]))
            pair(first, second)
            assert decided(root) == []
            open_card(second)
            second.decide()
            assert result_of(agent)["status"] == "success"
            first.sees("0 waiting")
            second.keys("n")
            second.lacks("approved once")
            second.keys("q")
            until("the second console has left", lambda: "flytui" not in second.screen())
        first.sees("0 waiting")
        with beside(root) as again:
            look_on(again)
            again.sees("0 waiting")
            again.keys("2")
            again.sees("✓ approved")
            assert READY not in again.screen()
        assert decided(root) == ["approved"]


def test_a_wrong_code_and_a_refused_console_decide_nothing(root: Root) -> None:
    with console(root) as first, beside(root, 60, 20) as second:
        first.sees(CODE)
        second.text("AAAAAAAA")
        second.keys("Enter")
        second.sees("tries left: 2")
        first.keys("P")
        first.sees("asks to decide here")
        first.keys("d")
        first.sees("refused: that code is no longer valid")
        second.text("AAAAAAAA")
        second.keys("Enter")
        second.sees("refused")
        second.keys("Escape")
        second.sees("cannot decide")
        second.keys("q")
    events = [line["event"] for line in root.audit()]
    assert "CONSOLE_ATTACHED" not in events
    assert not re.search(CODE, json.dumps(root.audit()))


def test_a_kernel_that_is_killed_is_told_and_its_root_taken_by_a_key(root: Root) -> None:
    with console(root) as first, beside(root) as second:
        pair(first, second)
        kill_with_kernel(processes(first).supervisor)
        second.sees(r"kernel gone \d+ s")
        second.sees(r"looking for it \d+ s more")
        second.keys("O")
        second.sees("policy ok")
        second.lacks("kernel gone")
        agent = call(root, "new")
        open_card(second)
        second.decide()
        assert result_of(agent)["status"] == "success"
        shown = json.loads(root.flytui("status", "--json").stdout)["kernel"]
        assert (shown["pid"], shown["role"]) == (processes(second).kernel, "console")


def test_a_kernel_that_comes_back_is_found_and_wants_its_code_again(root: Root) -> None:
    with beside_serve(root) as serve, console(root) as second:
        second.sees("Attached to flytui serve on pid")
        pair(serve, second)
        serve.keys("C-c")
        second.sees(r"kernel gone [3-9] s")  # so long without a key that the code is asked for by itself
        serve.keys("Up", "Enter")
        second.sees("cannot decide")
        second.sees("Attached to")
        code = until("another code", lambda: re.findall(CODE, serve.screen())[1:])[-1]
        second.text(code)
        second.keys("Enter")
        second.sees(PAIRED)


@contextmanager
def beside_serve(root: Root) -> Iterator[Tmux]:
    """`flytui serve` in a shell, where it can be started again."""
    tmux = Tmux(root)
    tmux.open("bash", "--norc")
    try:
        tmux.text(f"{BIN / 'flytui'} --root {root.folder} serve")
        tmux.keys("Enter")
        tmux.sees(r"socket +/")
        yield tmux
    finally:
        tmux.run("kill-server")


def test_a_ticket_survives_the_console_that_is_detached(root: Root) -> None:
    with console(root) as first, beside(root) as second:
        pair(first, second)
        assert result_of(call(root, "ticket", "--no-wait"))["status"] == "pending"
        open_card(second)
        second.keys("Escape")
        second.lacks(READY)
        second.keys("q")
        until("the second console has left", lambda: "flytui" not in second.screen())
        open_card(first)
        first.decide()
        first.sees("0 waiting")
        assert result_of(call(root, "ticket", "--no-wait"))["status"] == "success"


def test_a_test_call_from_an_attached_console_names_who_makes_it(root: Root) -> None:
    with console(root) as first, beside(root) as second:
        pair(first, second)
        second.keys("/")
        second.sees("keep the filter")
        second.text("mock.echo")
        second.sees(r"1 of \d+ match “mock\.echo”")
        second.sees(r"▌.*mock\.echo")
        second.keys("Enter")
        second.lacks("keep the filter")
        second.keys("t")
        second.sees("Test call")
        second.text("from here")
        second.sees("the input fits")
        second.keys("F5")
        second.sees("asks you")
        open_card(first)
        assert "via the socket" in first.screen()
        first.decide()
        second.sees("success|✓ ok|from here")
    [called] = [line for line in root.audit() if line["event"] == "TOOL_CALLED"]
    assert "via socket" in str(called["caller"]) or "socket" in json.dumps(called)
