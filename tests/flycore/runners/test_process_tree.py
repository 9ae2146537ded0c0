"""Who belongs to a call's tree, at the moments that are hard to look at."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from flycore.model.enums import Level
from flycore.model.session import CALL_ID_VARIABLE
from flycore.runners.child import process_tree, run
from flycore.runners.child.confined_start import ConfinedStart
from flycore.runners.child.process import ChildProcess, own_exit_code
from flycore.runners.child.process_tree import ProcessTree, become_subreaper
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.child.spawn import SpawnSpec
from flysafe import control_groups
from flysafe.control_groups import MemoryControl, MemoryGroup, MemoryGroups, own_groups
from flysafe.procfs import Process, own_children, process_table, ticks_now
from kits.kernel import until
from kits.sandbox_levels import needs_level, python_confined
from kits.started_children import started_children

ORPHAN_MAKER = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    print("up", flush=True)
    time.sleep(600)
time.sleep(600)
"""


class OwnChild(ChildProcess):
    """A child that neither the launcher nor a namespace knows, as those of a launcher that was ended."""

    def continue_start(self) -> OSError | None:
        return None

    def exit_code(self) -> int | None:
        return own_exit_code(self.pid)

    def close(self) -> None:
        os.close(self.pidfd)


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
    tree = process_tree.register(OwnChild(leader.pid, os.pidfd_open(leader.pid)), call_id, mark)

    def look_and_leave() -> set[int]:
        seen = own_children()
        monkeypatch.setattr(process_tree, "own_children", own_children)
        os.kill(leader.pid, signal.SIGKILL)
        os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
        return seen

    monkeypatch.setattr(process_tree, "_signal_group", lambda leader, number: None)
    monkeypatch.setattr(process_tree, "own_children", look_and_leave)
    try:
        assert await process_tree.end_tree(tree, 2.0) == process_tree.TreeEnd(killed=0, survivors=0)
        assert started_children() <= before | {leader.pid}
    finally:
        leader.wait()
        tree.process.close()
        process_tree.forget(tree)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has an item for each time that the process table was read."""
    read: list[int] = []

    def counted() -> dict[int, Process]:
        read.append(1)
        return process_table()

    monkeypatch.setattr(process_tree, "process_table", counted)
    return read


@pytest.fixture
def enforced() -> None:
    """Skips where bwrap does not work; before `nothing_left` counts children, because it is tried here."""
    needs_level(Level.ENFORCED)


@pytest.mark.anyio
@pytest.mark.usefixtures("enforced", "nothing_left")
async def test_confined_calls_that_end_at_once_read_no_process_table(
    tmp_path: Path, tables: list[int]
) -> None:
    os.mkfifo(tmp_path / "go")
    go = os.open(tmp_path / "go", os.O_RDWR)
    ends: list[ChildExit] = []

    async def call(number: int) -> None:
        spec = SpawnSpec(
            argv=("/bin/sh", "-c", f": > up{number}; dd if=go bs=1 count=1 status=none"),
            cwd=str(tmp_path),
            env={"PATH": "/usr/bin:/bin"},
            call_id=f"{os.getpid()}-at-once-{number}",
            confine=python_confined(Level.ENFORCED, tmp_path),
        )
        ends.append(await run_child(spec, b"", RunLimits(timeout_ms=60_000, max_output_bytes=100)))

    try:
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(call, number)
            await until(lambda: len(list(tmp_path.glob("up*"))) == 8)
            os.write(go, bytes(8))
            # This holds the event loop until all have ended, so that it sees every end at once.
            for leader in process_tree._registered:
                os.waitid(os.P_PID, leader, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222  # see above
    finally:
        os.close(go)
    assert [(end.exit_code, end.survivors, end.left_behind) for end in ends] == [(0, 0, 0)] * 8
    assert not tables


@pytest.mark.anyio
@pytest.mark.parametrize(("left", "survivors"), [((5, 4, 3, 2, 1, 0), 0), ((5, 4, 4, 4), 4)])
async def test_a_killed_tree_is_waited_for_as_long_as_it_gets_smaller(
    left: tuple[int, ...], survivors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, clock = iter(left), itertools.count(step=1.5)
    running = Process(1 << 30, "R", parent=0, session=0, terminal=0, started=0, name="it")

    def members(tree: ProcessTree) -> tuple[list[Process], bool]:
        return [running] * next(looks), True

    monkeypatch.setattr(process_tree, "_members", members)
    monkeypatch.setattr(process_tree, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(process_tree, "_signal_group", lambda leader, number: None)
    monkeypatch.setattr(process_tree, "send_signal", lambda *given: None)
    ended = await process_tree.end_tree(ProcessTree(OwnChild(1 << 30, -1), "call", 0), 0)
    assert ended.survivors == survivors


IGNORES_TERM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            if sys.argv[1:]:
                while True:
                    if os.fork():
                        os._exit(0)
        break
print("up", flush=True)
time.sleep(600)
"""
TIME_LIMIT = RunLimits(timeout_ms=1_000, max_output_bytes=1_000)


@pytest.mark.anyio
@pytest.mark.usefixtures("enforced", "nothing_left")
async def test_a_confined_tree_is_ended_without_the_process_table(
    tmp_path: Path, tables: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "TERM_GRACE_S", 0.1)
    ended = await run_child(
        spec_of(tmp_path, confine=python_confined(Level.ENFORCED, tmp_path)), b"", TIME_LIMIT
    )
    assert (ended.timed_out, ended.survivors, ended.stdout.split()) == (True, 0, [b"up"] * 7)
    assert ended.killed
    assert not tables


class GroupsWithoutMemory(MemoryGroups):
    """Groups that limit nothing, below one without a controller."""

    def create(self, most_bytes: int) -> MemoryGroup:
        folder = Path(self._folder) / f"flytui-call-{next(self._numbers)}"
        folder.mkdir()
        entrance = os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        return MemoryGroup(self, str(folder), entrance)


@pytest.fixture
def real_group(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A control group of version 2 below which each call gets one of its own."""
    folders = own_groups(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    folder = Path(folders[-1] if folders else "/nonexistent") / f"flytui-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"NOT TESTED, no control group can be made on this machine: {error}")
    monkeypatch.setattr(control_groups, "_claimed", [MemoryControl(GroupsWithoutMemory(str(folder)))])
    yield folder
    folder.rmdir()


@pytest.mark.root
@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("words", [(), ("forks without end",)])
async def test_a_control_group_is_killed_as_a_whole(
    words: tuple[str, ...],
    real_group: Path,
    tmp_path: Path,
    tables: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "TERM_GRACE_S", 0.1)
    # So no other signal ends those that are in no group of the leader.
    monkeypatch.setattr(process_tree, "send_signal", lambda process, *numbers: None)
    if not (real_group / "cgroup.kill").exists():
        pytest.skip("NOT TESTED, this kernel has no cgroup.kill")
    ended = await run_child(spec_of(tmp_path, *words), b"", TIME_LIMIT)
    # One that forks without end may have too many processes before its time is over.
    assert (ended.timed_out or ended.process_limited, ended.survivors, ended.exit_code) == (True, 0, -9)
    assert b"up" in ended.stdout
    assert not tables
    assert [name for name in os.listdir(real_group) if name.startswith("flytui")] == []


@pytest.mark.root
@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_program_that_leaves_its_control_group_is_ended(
    real_group: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "TERM_GRACE_S", 0.1)
    leaves = f"import os\nif os.fork() == 0:\n  open('{real_group}/cgroup.procs', 'w').write('0')\n"
    ended = await run_child(spec_of(tmp_path, code=leaves + IGNORES_TERM), b"", TIME_LIMIT)
    assert (ended.timed_out, ended.survivors, ended.exit_code) == (True, 0, -9)
    assert (real_group / "cgroup.procs").read_text() == ""


def spec_of(
    folder: Path,
    *words: str,
    code: str = IGNORES_TERM,
    confine: Callable[[SpawnSpec], ConfinedStart] | None = None,
) -> SpawnSpec:
    return SpawnSpec(
        argv=(sys.executable, "-I", "-S", "-c", code, *words),
        cwd=str(folder),
        env={"PATH": "/usr/bin:/bin"},
        call_id=f"{os.getpid()}-ends",
        confine=confine,
    )
