"""The published programs of agents, each connected by `flytui connect`: a first turn with all tools, a call
that needs nobody, and one that a person approves at the console."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.agent_programs import AGENT_PROGRAMS, AgentProgram, PlainRoot, client_root, connect, running
from kits.client_scenarios import APPROVED, ASKS, DIGEST, FREE, approve, missing_names
from kits.model_endpoint import FINAL, model_endpoint
from kits.terminals import console, needs

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
