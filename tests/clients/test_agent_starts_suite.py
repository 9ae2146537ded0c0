"""Each of the published programs of agents is started again and again on a busy machine, with its own time
limits: the first request to the model has every tool, each time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.agent_programs import AGENT_PROGRAMS, AgentProgram, client_root, connect, running
from kits.client_scenarios import missing_names
from kits.model_endpoint import FINAL, model_endpoint
from kits.suites import FULL

pytestmark = [pytest.mark.suite, pytest.mark.e2e, pytest.mark.timeout(1800)]
STARTS = 20 if FULL else 1


@pytest.fixture
def busy() -> Iterator[None]:
    """A loop that never pauses on each core."""
    loops = [
        subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(len(os.sched_getaffinity(0)))
    ]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("program", AGENT_PROGRAMS, ids=lambda program: program.id)
def test_each_start_has_every_tool_in_the_first_turn(program: AgentProgram, tmp_path: Path) -> None:
    program.command()  # it skips, or fails, where the program is not installed
    root = client_root(tmp_path)
    try:
        connect(root, program, "--permission")
        missing = []
        for _ in range(STARTS):
            with model_endpoint() as model, running(program, root, model) as run:
                assert run.wait() == 0
                assert FINAL in run.output()
                missing.append(missing_names(root, model, 0))
        assert missing == [program.leaves_out] * STARTS
    finally:
        root.end()
