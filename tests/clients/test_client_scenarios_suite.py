"""Every scenario with every published program of agents, as the table in docs/clients/README.md has them.

Runs with FLYTUI_SUITES=full, and writes what it found to docs/clients/results.json.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kits.agent_programs import (
    AGENT_PROGRAMS,
    LONGEST,
    AgentProgram,
    PlainRoot,
    client_root,
    connect,
    running,
)
from kits.client_scenarios import (
    APPROVED,
    ASKS,
    DIGEST,
    FREE,
    PENDING,
    approve,
    deny,
    missing_names,
    open_card,
)
from kits.model_endpoint import FINAL, ModelEndpoint, ScriptedCall, model_endpoint
from kits.terminals import BIN, console, needs, until

pytestmark = [pytest.mark.suite, pytest.mark.e2e, pytest.mark.timeout(1800)]
REASON = "not on a Friday"
LONG_WAIT_S = 180
MADE = "made.txt"
"""What the program's own command would make."""


class Case:
    """A program and its root."""

    def __init__(self, program: AgentProgram, root: PlainRoot, note: Callable[[str, object], None]) -> None:
        self.program, self.root, self._note = program, root, note

    def found(self, outcome: str) -> None:
        """Say in the table what happens, where that is not simply that it holds."""
        self._note("outcome", outcome)

    def decisions(self) -> list[str]:
        """What was decided about the calls that asked."""
        return [line["decision"] for line in self.root.audit() if line["event"] == "APPROVAL_DECIDED"]

    def started(self, tool: str) -> int:
        """How often the tool was started."""
        lines = [line for line in self.root.audit() if line["event"] == "TOOL_STARTED"]
        return sum(line.get("tool") == tool for line in lines)

    def own_command(self) -> ScriptedCall:
        """A call of the program's own tool for commands, which makes a file."""
        assert self.program.shell is not None
        tool, member = self.program.shell
        return ScriptedCall(tool, {member: f"printf made > {MADE}"})

    def hooked(self) -> bool:
        """Connect with the hook, where the program has one."""
        if self.program.shell is None:
            self.found("–")
            return False
        connect(self.root, self.program, "--permission", "--hook")
        return True

    def made(self) -> bool:
        """Whether the program's own command has run."""
        return (self.root.folder / MADE).exists()


@pytest.fixture(params=AGENT_PROGRAMS, ids=lambda program: program.id)
def case(
    request: pytest.FixtureRequest, tmp_path: Path, record_property: Callable[[str, object], None]
) -> Iterator[Case]:
    needs("tmux")
    program: AgentProgram = request.param
    program.command()  # it skips, or fails, where the program is not installed
    root = client_root(tmp_path)
    record_property("client", program.id)
    record_property("scenario", request.function.__name__.removeprefix("test_"))
    yield Case(program, root, record_property)
    root.end()


def refusals(model: ModelEndpoint) -> list[str]:
    """Why the interface of the model refused requests."""
    return [one.refusal for one in model.seen if one.refusal]


def test_tools(case: Case) -> None:
    """Every tool is offered to the model, and its interface refuses none."""
    connect(case.root, case.program, "--permission")
    with model_endpoint() as model, running(case.program, case.root, model) as run:
        assert run.wait() == 0
        assert missing_names(case.root, model) == case.program.leaves_out
        assert refusals(model) == []
        if case.program.leaves_out:
            case.found(f"holds, but for {', '.join(sorted(case.program.leaves_out))}")


def test_first_turn(case: Case) -> None:
    """The first request to the model has every tool."""
    connect(case.root, case.program, "--permission")
    with model_endpoint() as model, running(case.program, case.root, model) as run:
        model.wait_seen(1)
        assert missing_names(case.root, model, 0) == case.program.leaves_out
        assert run.wait() == 0
        assert FINAL in run.output()


def test_allowed(case: Case) -> None:
    """A call that needs nobody is answered."""
    connect(case.root, case.program, "--permission")
    with model_endpoint(FREE) as model, running(case.program, case.root, model) as run:
        assert run.wait() == 0
        assert DIGEST in model.results[0]


def test_approved(case: Case) -> None:
    """A call that a person approves is answered in place."""
    connect(case.root, case.program, "--permission")
    with (
        console(case.root) as tmux,
        model_endpoint(ASKS) as model,
        running(case.program, case.root, model) as run,
    ):
        approve(tmux, run, "ask.do")
        assert run.wait() == 0
        assert APPROVED in model.results[0]
    assert case.started("ask.do") == 1


def test_denied(case: Case) -> None:
    """A call that a person denies tells the model the reason."""
    connect(case.root, case.program, "--permission")
    with (
        console(case.root) as tmux,
        model_endpoint(ASKS) as model,
        running(case.program, case.root, model) as run,
    ):
        deny(tmux, run, "ask.do", REASON)
        run.wait()
        assert REASON in model.results[0]
    assert case.started("ask.do") == 0


def test_no_console(case: Case) -> None:
    """Without a console, a call that asks is refused and says why."""
    connect(case.root, case.program, "--permission")
    with model_endpoint(ASKS) as model, running(case.program, case.root, model) as run:
        run.wait()
        assert "no-approver" in model.results[0]
    assert case.started("ask.do") == 0


def test_console_after(case: Case) -> None:
    """A console that is opened after the program is asked."""
    opened = threading.Event()
    connect(case.root, case.program, "--permission")
    with (
        model_endpoint(FREE, ASKS._replace(after=opened)) as model,
        running(case.program, case.root, model) as run,
    ):
        model.wait_seen(2)
        with console(case.root) as tmux:
            opened.set()
            approve(tmux, run, "ask.do")
            assert run.wait() == 0
        assert DIGEST in model.results[0]
        assert APPROVED in model.results[1]


@pytest.mark.parametrize("scenario", ["interrupted", "killed"])
def test_withdrawn(case: Case, scenario: str, record_property: Callable[[str, object], None]) -> None:
    """A person's interrupt, and a kill, withdraw what waits."""
    record_property("scenario", scenario)
    connect(case.root, case.program, "--permission")
    with (
        console(case.root) as tmux,
        model_endpoint(ASKS) as model,
        running(case.program, case.root, model) as run,
    ):
        open_card(tmux, run, "ask.do")
        if scenario == "killed":
            run.kill()
        else:
            run.send(signal.SIGINT)
        until("the withdrawal", lambda: case.decisions() == ["withdrawn"], LONGEST)
        tmux.sees("withdrawn")
    assert case.started("ask.do") == 0


def test_three_minutes(case: Case) -> None:
    """A person approves after three minutes."""
    connect(case.root, case.program, "--permission")
    with (
        console(case.root) as tmux,
        model_endpoint(*[ASKS] * 12) as model,
        running(case.program, case.root, model) as run,
    ):
        open_card(tmux, run, "ask.do")
        end = time.monotonic() + LONG_WAIT_S
        while time.monotonic() < end:
            assert run.process.poll() is None, "the program has ended"
            time.sleep(1.0)
        before = len(model.results)
        open_card(tmux, run, "ask.do")
        tmux.decide()
        until("the result", lambda: any(APPROVED in text for text in model.results), LONGEST)
        if before:
            assert all(PENDING in text for text in model.results[:before]), model.results
            case.found(f"holds, with {before} tickets")
    assert case.started("ask.do") >= 1


def test_hook_allow(case: Case) -> None:
    """The program's own command runs after a person's approval."""
    if not case.hooked():
        return
    with (
        console(case.root) as tmux,
        model_endpoint(case.own_command()) as model,
        running(case.program, case.root, model, *case.program.shell_words) as run,
    ):
        approve(tmux, run, MADE)
        assert run.wait() == 0
    assert case.made()
    assert case.started("agent.shell") == 1


def test_hook_deny(case: Case) -> None:
    """The program's own command is denied, and the model reads the reason."""
    if not case.hooked():
        return
    with (
        console(case.root) as tmux,
        model_endpoint(case.own_command()) as model,
        running(case.program, case.root, model, *case.program.shell_words) as run,
    ):
        deny(tmux, run, MADE, REASON)
        run.wait()
        assert REASON in model.results[0]
    assert not case.made()


def test_hook_killed(case: Case) -> None:
    """A kill withdraws what the hook asks."""
    if not case.hooked():
        return
    with (
        console(case.root) as tmux,
        model_endpoint(case.own_command()) as model,
        running(case.program, case.root, model, *case.program.shell_words) as run,
    ):
        open_card(tmux, run, MADE)
        run.kill()
        until("the withdrawal", lambda: case.decisions() == ["withdrawn"], LONGEST)
        tmux.sees("withdrawn")
    assert not case.made()


def test_hook_absent(case: Case) -> None:
    """Without a hook the program's own command runs, so that the other cases show what a hook does."""
    if case.program.shell is None:
        case.found("–")
        return
    with (
        model_endpoint(case.own_command()) as model,
        running(case.program, case.root, model, *case.program.shell_words) as run,
    ):
        run.wait()
    assert case.made()


def test_hook_broken(case: Case) -> None:
    """The program's own command does not run where the hook fails."""
    if not case.hooked():
        return
    broken = case.root.home / "bin" / "flytui"
    broken.parent.mkdir()
    broken.write_text(
        f'#!/bin/sh\n[ "$1" = hook ] || [ "$3" = hook ] && kill -KILL $$\nexec {BIN}/flytui "$@"\n'
    )
    broken.chmod(0o755)
    case.root.extra["PATH"] = f"{broken.parent}:{case.root.environ['PATH']}"
    with (
        model_endpoint(case.own_command()) as model,
        running(case.program, case.root, model, *case.program.shell_words) as run,
    ):
        run.wait()
        assert len(model.results) == 1
    assert not case.made()
