"""Who belongs to a call's tree, at the moments that are hard to look at."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from flycore.model.session import CALL_ID_VARIABLE
from flycore.runners.child import process_tree
from flycore.runners.child.process_tree import ProcessTree, become_subreaper
from flysafe.procfs import Process, own_children, ticks_now
from kits.started_children import started_children

ORPHAN_MAKER = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    print("up", flush=True)
    time.sleep(600)
time.sleep(600)
"""


def orphan_maker(call_id: str) -> subprocess.Popen[bytes]:
    """Started as calls are, with a child in a session of its own."""
    leader = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", ORPHAN_MAKER],
        env={CALL_ID_VARIABLE: call_id},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert leader.stdout is not None
    with leader.stdout as stdout:
        assert stdout.readline() == b"up\n"
    return leader


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_leader_that_leaves_while_one_looks_hides_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it orphans is its child before the look and ours only after it."""
    become_subreaper()
    before = started_children()
    mark, call_id = ticks_now(), f"{os.getpid()}-leaver"
    leader = orphan_maker(call_id)
    tree = process_tree.register(leader.pid, call_id, mark)

    def look_and_leave() -> frozenset[int]:
        seen = own_children()
        monkeypatch.setattr(process_tree, "own_children", own_children)
        os.kill(leader.pid, signal.SIGKILL)
        os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
        return frozenset(seen)

    monkeypatch.setattr(process_tree, "_signal_group", lambda leader, number: None)
    monkeypatch.setattr(process_tree, "own_children", look_and_leave)
    try:
        assert await process_tree.end_tree(tree, 2.0) == process_tree.TreeEnd(killed=0, survivors=0)
        assert started_children() <= before | {leader.pid}
    finally:
        leader.wait()
        process_tree.forget(tree)


@pytest.mark.anyio
@pytest.mark.parametrize(("left", "survivors"), [((5, 4, 3, 2, 1, 0), 0), ((5, 4, 4, 4), 4)])
async def test_a_killed_tree_is_waited_for_as_long_as_it_gets_smaller(
    left: tuple[int, ...], survivors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, clock = iter(left), itertools.count(step=1.5)
    running = Process(1 << 30, "R", parent=0, session=0, terminal=0, started=0, name="it")

    def members(tree: ProcessTree) -> tuple[list[Process], int]:
        return [running] * next(looks), 0

    monkeypatch.setattr(process_tree, "_members", members)
    monkeypatch.setattr(process_tree, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(process_tree, "_signal_group", lambda leader, number: None)
    monkeypatch.setattr(process_tree, "send_signal", lambda *given: None)
    ended = await process_tree.end_tree(ProcessTree(1 << 30, "call", 0), 0)
    assert ended.survivors == survivors
