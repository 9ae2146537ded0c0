"""ctrl+x ctrl+x in a real terminal: while a call runs, and while a text field has the focus."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.terminals import Root, Tmux, console, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
POLICY = {
    "schemaVersion": 1,
    "rules": [{"tool": "mock.echo", "decision": "allow", "because": "it only echoes"}],
}
SLOW = ("call", "mock.echo", "message=hi", "delayMs=600000", "--json")
CALL = ("call", "mock.echo", "message=hi", "--json")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    root = make_root(tmp_path, only=("mock.echo",))
    folder = root.home / "config" / "flytui"
    folder.mkdir(parents=True)
    (folder / "policy.jsonc").write_text(json.dumps(POLICY))
    root.trust()
    yield root
    root.end()


def processes_of(call_id: str) -> list[str]:
    """What runs for that call. A probe of a sidecar, which no stop ends, has another id."""
    mark, found = f"FLYTUI_CALL_ID={call_id}".encode(), []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def started(root: Root) -> list[str]:
    """The ids of calls whose program was started."""
    return [line["callId"] for line in root.audit() if line["event"] == "TOOL_STARTED"]


def release(tmux: Tmux) -> None:
    tmux.keys("C-o")
    tmux.sees("Everything is stopped")
    tmux.keys("Enter")
    tmux.decide("r")
    tmux.lacks("STOPPED")


def test_a_running_call_ends_with_its_processes_and_only_the_person_lets_calls_run_again(root: Root) -> None:
    with console(root) as tmux:
        agent = root.start(*SLOW)
        until("it is started", lambda: started(root))
        (call,) = started(root)
        until("its process is there", lambda: processes_of(call))
        tmux.keys("C-x")
        tmux.sees("ctrl.x again within a second")
        tmux.keys("C-x", "C-x")
        tmux.sees("everything STOPPED · ctrl.o releases")
        out, err = agent.communicate(timeout=60)
        assert (agent.returncode, json.loads(out)["error"]["code"]) == (1, "panic"), err
        assert processes_of(call) == []
        assert json.loads(root.flytui(*CALL).stdout)["error"]["code"] == "panic"
        release(tmux)
        assert root.flytui(*CALL).returncode == 0
    assert [line["event"] for line in root.audit() if line["event"].startswith("PANIC")] == [
        "PANIC",
        "PANIC_RELEASED",
    ]


def test_it_works_from_a_text_field_and_outlives_the_console(root: Root) -> None:
    with console(root) as tmux:
        tmux.keys("/")
        tmux.text("echo")
        tmux.sees(r"mock\.echo")
        tmux.keys("C-x", "C-x")
        tmux.sees("everything STOPPED")
        tmux.sees(r"(?m)^ *echo\b")
        tmux.keys("C-q")
        until("the console left", lambda: not json.loads(root.flytui("status", "--json").stdout)["running"])
    with console(root) as tmux:
        tmux.sees("everything STOPPED")
        release(tmux)


def test_a_caller_that_loops_is_asked_about_and_paused(root: Root) -> None:
    with console(root) as tmux:
        for _ in range(3):
            root.flytui("call", "no.such", "n=1")
        tmux.sees("calls a tool that does not exist")
        paused = json.loads(root.flytui(*CALL).stdout)
        assert paused["error"]["code"] == "paused"
        tmux.decide("c")
        until("calls are taken again", lambda: root.flytui(*CALL).returncode == 0)
