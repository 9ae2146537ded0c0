"""The published programs of agents, each connected by `flytui connect`: a first turn with all tools, a call
that needs nobody, and one that a person approves at the console."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.agent_programs import AGENT_PROGRAMS, AgentProgram, PlainRoot, client_root, connect, running
from kits.client_scenarios import APPROVED, ASKS, DIGEST, FREE, approve, missing_names
from kits.model_endpoint import FINAL, ScriptedCall, model_endpoint
from kits.terminals import console, needs

COPILOT = next(program for program in AGENT_PROGRAMS if program.id == "copilot")
CLAUDE = next(program for program in AGENT_PROGRAMS if program.id == "claude-code")
MADE = "made.txt"
MAKES = ScriptedCall("bash", {"command": f"printf made > {MADE}", "description": "make it"})

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture(params=AGENT_PROGRAMS, ids=lambda program: program.id)
def program(request: pytest.FixtureRequest) -> AgentProgram:
    needs("tmux")
    program: AgentProgram = request.param
    program.command()  # it skips, or fails, where the program is not installed
    return program


@pytest.fixture
def root(program: AgentProgram, tmp_path: Path) -> Iterator[PlainRoot]:
    root = client_root(tmp_path)
    yield root
    root.end()


def test_its_first_turn_has_every_tool_and_its_calls_are_answered(
    root: PlainRoot, program: AgentProgram
) -> None:
    program.command()
    connect(root, program, "--permission")
    with (
        console(root) as tmux,
        model_endpoint(FREE, ASKS) as model,
        running(program, root, model) as run,
    ):
        approve(tmux, run, "ask.do")
        assert run.wait() == 0
        assert missing_names(root, model, 0) == program.leaves_out
        assert [one.refusal for one in model.seen if one.refusal] == []
        assert DIGEST in model.results[0]
        assert APPROVED in model.results[1]
        assert FINAL in run.output()


@pytest.fixture
def copilot_root(tmp_path: Path) -> Iterator[PlainRoot]:
    needs("tmux")
    COPILOT.command()
    root = client_root(tmp_path)
    yield root
    root.end()


def asked(root: PlainRoot) -> list[str]:
    """The tools that a person was asked about, in their order."""
    return [line["tool"] for line in root.audit() if line["event"] == "APPROVAL_ASKED"]


@pytest.mark.parametrize("with_its_own", [False, True], ids=["claude_code_s_files", "both"])
def test_claude_code_s_files_work_in_copilot_cli_and_nothing_is_asked_twice(
    copilot_root: PlainRoot, with_its_own: bool
) -> None:
    root = copilot_root
    connect(root, CLAUDE, "--hook", "--permission")
    if with_its_own:
        connect(root, COPILOT, "--hook")
    reads = ScriptedCall("view", {"path": str(root.folder / "read.txt")})
    searches = ScriptedCall("grep", {"pattern": "clients", "paths": ".", "output_mode": "content"})
    outside = ScriptedCall("view", {"path": "/etc/passwd"})
    with (
        console(root) as tmux,
        model_endpoint(FREE, reads, searches, ASKS, MAKES) as model,
        running(COPILOT, root, model, "--allow-all-tools") as run,
    ):
        approve(tmux, run, "ask.do")
        approve(tmux, run, MADE)
        assert run.wait() == 0
        hashed, read, found, done, _ = model.results
    assert DIGEST in hashed
    assert "what the clients hash" in read
    assert "what the clients hash" in found
    assert APPROVED in done
    assert (root.folder / MADE).read_text() == "made"
    assert asked(root) == ["ask.do", "agent.shell"]
    with model_endpoint(outside, MAKES) as model, running(COPILOT, root, model, "--allow-all") as run:
        run.wait()
        assert all("Denied by preToolUse hook" in result for result in model.results)


def test_what_copilot_cli_was_told_to_deny_stays_denied(copilot_root: PlainRoot) -> None:
    root = copilot_root
    connect(root, COPILOT, "--hook")
    with (
        console(root) as tmux,
        model_endpoint(MAKES) as model,
        running(COPILOT, root, model, "--allow-all-tools", "--deny-tool=shell") as run,
    ):
        approve(tmux, run, MADE)
        run.wait()
        assert "denied due to the following rules" in model.results[0]
    assert not (root.folder / MADE).exists()
