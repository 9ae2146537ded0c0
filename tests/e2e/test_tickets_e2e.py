"""A program that does not wait, a person who closes the console and comes back, an answer that was kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.scenes import assert_whole
from kits.terminals import Root, console, make_root, needs

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
CALL = ("call", "mock.echo", "message=later", "--no-wait", "--json")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    root = make_root(tmp_path, only=("mock.echo",))
    root.trust()
    yield root
    root.end()


def asked(root: Root) -> dict[str, str]:
    """Make the call; what became of it."""
    done = root.flytui(*CALL)
    result = json.loads(done.stdout)
    assert done.returncode == {"pending": 8, "success": 0, "denied": 4}[result["status"]], done.stderr
    return result


def test_a_ticket_outlives_the_console_and_is_answered_once(root: Root) -> None:
    with console(root) as first:
        first.sees("mock.echo")
        assert asked(root)["status"] == "pending"
        assert asked(root)["status"] == "pending"
    assert asked(root)["status"] == "pending", "nobody is there, and the ticket waits"
    with console(root) as again:
        again.sees("mock.echo")
        again.keys("C-o")
        again.sees("MEDIUM")
        again.decide()
        assert asked(root)["status"] == "success"
        assert asked(root)["status"] == "pending"
    started = [line for line in root.audit() if line["event"] == "TOOL_STARTED"]
    decided = [line for line in root.audit() if line["event"] == "APPROVAL_DECIDED"]
    assert len(started) == 1
    assert [line["decision"] for line in decided] == ["approved"]
    assert decided[0]["subject"] == started[0]["subject"]
    assert_whole(root)
