"""The launcher: whose child a process is needs no guessing, and a launcher that is gone comes back."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from flycore.model.enums import Code, Status
from flycore.model.program import ConfinementReport, RestrictionOrder
from flycore.runners.child import launcher
from flycore.runners.child.launcher import LaunchedProcess, keep, launch, launcher_id, prepare_launcher
from flycore.runners.child.process import is_readable
from flycore.runners.child.process_tree import become_subreaper
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.child.spawn import SpawnSpec
from flycore.runners.one_shot import ProcessJsonJob, call_sidecar
from flysafe.procfs import children_of, process_table, read_process
from kits import waits
from kits.kernel import until
from kits.started_children import started_children

MakeJob = Callable[..., ProcessJsonJob]
ESCAPES = """
import os, sys
path = {path!r}
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.setsid()
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)
    os.closerange(0, 64)
    os.execve("/bin/sleep", ["sleep", "600"], {{}})
os.close(writing)
os.read(reading, 1)
os.wait()
{more}
os.write(1, b'{{"ok": true}}\\n')
"""
WAITS = """
import os, time
open({path!r}, "w").close()
while not os.path.exists({until!r}):
    time.sleep(0.01)
os.write(1, b'{{"ok": true}}\\n')
"""
OWN_PATH = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
SHEDS_ITS_SETTING = "import ctypes; ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)"


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_an_escapee_ends_with_its_own_call_while_another_runs(sidecar: MakeJob, tmp_path: Path) -> None:
    running, let_go, escaped = tmp_path / "running", tmp_path / "go", tmp_path / "escaped"
    async with anyio.create_task_group() as group:
        waits = sidecar(WAITS.format(path=str(running), until=str(let_go)))
        group.start_soon(call_sidecar, waits)
        await until(running.exists)
        outcome = await call_sidecar(sidecar(ESCAPES.format(path=str(escaped), more="")))
        assert (outcome.status, outcome.survivors) == (Status.SUCCESS, 0)
        assert read_process(int(escaped.read_text())) is None
        let_go.touch()


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_an_escapee_of_a_living_program_is_its_child(sidecar: MakeJob, tmp_path: Path) -> None:
    escaped = tmp_path / "escaped"
    more = f"stat = open('/proc/%s/stat' % open({str(escaped)!r}).read()).read().split()\n"
    more += "assert stat[3] == str(os.getpid()), stat"
    outcome = await call_sidecar(sidecar(ESCAPES.format(path=str(escaped), more=more)))
    assert (outcome.status, outcome.survivors) == (Status.SUCCESS, 0), outcome


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_program_that_sheds_its_setting_leaves_nobody(sidecar: MakeJob, tmp_path: Path) -> None:
    escaped = tmp_path / "escaped"
    code = SHEDS_ITS_SETTING + "\n" + ESCAPES.format(path=str(escaped), more="")
    outcome = await call_sidecar(sidecar(code))
    assert (outcome.status, outcome.survivors) == (Status.SUCCESS, 0)
    assert read_process(int(escaped.read_text())) is None


@pytest.mark.anyio
async def test_a_launcher_that_was_ended_is_started_again(sidecar: MakeJob) -> None:
    prepare_launcher()
    old = ended_launcher()
    outcome = await call_sidecar(sidecar("import os; os.write(1, b'{\"ok\": true}')"))
    assert outcome.status is Status.SUCCESS, outcome
    assert read_process(old) is None
    assert launcher_id() != old


def test_a_launcher_that_is_about_to_start_is_nobodys_orphan() -> None:
    prepare_launcher()
    ended_launcher()
    launcher.renew_launcher()  # it makes a group for itself some milliseconds later
    assert launcher._running[0].process.pid not in started_children()


@pytest.mark.anyio
async def test_a_launcher_that_was_stopped_goes_on(sidecar: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    # A launcher that is given up after that time would be another one afterwards.
    monkeypatch.setattr(launcher, "ANSWER_SECONDS", 600.0)
    prepare_launcher()
    old = launcher_id()
    os.kill(old, signal.SIGSTOP)
    await until(lambda: (process := read_process(old)) is not None and process.state == "T")
    outcome = await call_sidecar(sidecar("import os; os.write(1, b'{\"ok\": true}')"))
    assert outcome.status is Status.SUCCESS, outcome
    assert launcher_id() == old
    assert read_process(old) is not None


@pytest.mark.anyio
async def test_what_cannot_be_executed_is_told_and_leaves_no_child(sidecar: MakeJob, tmp_path: Path) -> None:
    prepare_launcher()
    before = started_children()
    (tmp_path / "plain").write_text("no program")
    for path in ("/no/such/program", str(tmp_path / "plain"), "nowhere-to-be-found"):
        outcome = await call_sidecar(sidecar("", argv=(path,)))
        assert (outcome.status, outcome.code) == (Status.FAILED, Code.SPAWN)
    assert started_children() == before
    child = launch(["/bin/true"], executable=None, cwd="/no/folder", env={}, stdin=0, stdout=1, stderr=2)
    assert is_readable(child.starting, 60.0)
    assert (fault := child.continue_start()) is not None
    assert fault.errno == errno.ENOENT
    ended(child)
    with pytest.raises(ValueError, match="NUL"):
        launch(["/bin/true", "a\0b"], executable=None, cwd="/", env={}, stdin=0, stdout=1, stderr=2)


def test_the_launcher_has_no_environment_and_leads_no_session() -> None:
    become_subreaper()
    prepare_launcher()
    assert run("true") == 0
    pid = launcher_id()
    assert process_table()[pid].session == os.getsid(0)
    assert os.getpgid(pid) == pid


def test_a_child_gets_the_descriptors_it_is_handed_under_their_own_numbers(tmp_path: Path) -> None:
    become_subreaper()
    descriptors = []
    for name in ("one", "two", "three"):
        (tmp_path / name).write_text(name)
        descriptors.append(os.open(tmp_path / name, os.O_RDONLY))
    # In another order than that of their numbers, and one that no process of this test has in use.
    high = os.dup2(descriptors[0], 800, inheritable=False)
    handed = (descriptors[2], high, descriptors[1])
    script = "".join(f"cat /proc/self/fd/{number}; echo;" for number in handed) + "ls /proc/self/fd"
    reading, writing = os.pipe()
    environment = {"PATH": "/usr/bin:/bin"}
    try:
        child = launch(
            ["/bin/sh", "-c", script], executable=None, cwd="/", env=environment,
            stdin=0, stdout=writing, stderr=2, handed=handed,
        )  # fmt: skip
    finally:
        os.close(writing)
        for number in (*descriptors, high):
            os.close(number)
    with os.fdopen(reading) as file:
        lines = file.read().split()
    assert ended(child) == 0
    assert lines[:3] == ["three", "one", "two"]
    # The last one is that of the listing.
    assert sorted(map(int, lines[3:]))[:3] == [0, 1, 2]
    assert len(lines[3:]) == 3 + len(handed) + 1


def test_more_descriptors_than_a_message_carries_are_refused() -> None:
    with pytest.raises(OSError, match=os.strerror(errno.E2BIG)):
        launch(
            ["/bin/true"], executable=None, cwd="/", env={},
            stdin=0, stdout=1, stderr=2, handed=(0,) * 250,
        )  # fmt: skip


def test_the_limits_hold_from_the_first_instruction_on() -> None:
    become_subreaper()
    reading, writing = os.pipe()
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    limits = ((resource.RLIMIT_NOFILE, 77, 77), (resource.RLIMIT_FSIZE, 4096, hard))
    with os.fdopen(reading) as file:
        try:
            child = launch(
                ["/bin/sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -Hf"], executable=None, cwd="/", env={},
                stdin=0, stdout=writing, stderr=2, limits=limits,
            )  # fmt: skip
        finally:
            os.close(writing)
        said = file.read().split()
    assert ended(child) == 0
    assert said == ["77", "77", "unlimited"]


def test_the_exit_of_each_child_is_told() -> None:
    become_subreaper()
    prepare_launcher()
    assert [run("exit 7"), run("kill -9 $$"), run("true")] == [7, -9, 0]


def test_a_child_is_reaped_only_when_it_is_closed() -> None:
    become_subreaper()
    child = launch(["/bin/true"], executable=None, cwd="/", env={}, stdin=0, stdout=1, stderr=2)
    assert is_readable(child.pidfd, 60.0)
    assert child.exit_code() == 0
    process = read_process(child.pid)
    assert process is not None
    assert (process.ended, process.parent) == (True, launcher_id())
    child.close()
    waits.until("it is reaped", lambda: read_process(child.pid) is None)


@pytest.mark.parametrize("moment", ["while it runs", "when it has exited"])
def test_a_child_of_an_ended_launcher_is_this_processs_own(moment: str) -> None:
    become_subreaper()
    reading, writing = os.pipe()
    child = launch(
        ["/bin/sh", "-c", "read line; exit 7"], executable=None, cwd="/", env={},
        stdin=reading, stdout=1, stderr=2,
    )  # fmt: skip
    os.close(reading)
    if moment == "when it has exited":
        os.kill(launcher_id(), signal.SIGSTOP)  # it tells nobody
        os.close(writing)
        assert is_readable(child.pidfd, 60.0)
    ended_launcher()
    if moment == "while it runs":
        assert child.exit_code() is None
        os.close(writing)
    assert ended(child) == 7
    assert read_process(child.pid) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every process")
def test_another_process_of_the_user_reads_nothing_of_a_child_that_starts(tmp_path: Path) -> None:
    """Its memory holds the request, with the secrets of a sidecar."""
    start = Starting(tmp_path)
    child = begin(start, 1)
    for pid in (child.pid, launcher_id()):
        with pytest.raises(PermissionError):
            os.listdir(f"/proc/{pid}/fd")
        with pytest.raises(PermissionError):
            Path(f"/proc/{pid}/environ").read_bytes()
    start.tell(b"")
    assert ended(child) == 0


@pytest.mark.root
def test_a_child_that_starts_has_no_environment_and_no_channel_to_the_kernel(tmp_path: Path) -> None:
    start = Starting(tmp_path)
    child = begin(start, 1)
    assert Path(f"/proc/{child.pid}/environ").read_bytes() in (b"", b"\0")
    start.tell(b"")
    assert ended(child) == 0


def test_a_kept_process_ends_with_a_killed_kernel() -> None:
    code = "import os, subprocess, time\n"
    code += "from flycore.runners.child.launcher import keep\n"
    code += "words = ['/bin/sh', '-c', 'setsid sleep 600 & echo started; wait']\n"
    code += "child = subprocess.Popen(words, start_new_session=True)\n"
    code += "keep(child.pid, os.pidfd_open(child.pid))\n"
    code += "print(child.pid, flush=True)\ntime.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=OWN_PATH, stdout=subprocess.PIPE, text=True
    ) as kernel:
        assert kernel.stdout is not None
        said = {kernel.stdout.readline(), kernel.stdout.readline()} - {"started\n"}
        child = int(said.pop())
        pidfds = [os.pidfd_open(pid) for pid in (child, *children_of(child))]
        assert len(pidfds) == 2
        kernel.kill()
    for pidfd in pidfds:
        assert is_readable(pidfd, 60.0)
        os.close(pidfd)


def test_a_process_that_has_ended_is_kept_no_longer() -> None:
    with subprocess.Popen(["/bin/true"]) as done:
        pidfd = os.pidfd_open(done.pid)
        keep(done.pid, pidfd)
        os.close(pidfd)
    assert run("true") == 0


@pytest.mark.parametrize("stopped", ["its child", "the launcher"])
def test_a_launcher_ends_what_a_killed_kernel_leaves_whoever_is_stopped(stopped: str) -> None:
    code = "import time\nfrom flycore.runners.child.launcher import launch, launcher_id\n"
    code += "child = launch(['/bin/sh', '-c', 'sleep 600 & setsid sleep 600 & echo started; wait'],\n"
    code += "    executable=None, cwd='/', env={'PATH': '/usr/bin:/bin'}, stdin=0, stdout=1, stderr=2)\n"
    code += "print(child.pid, launcher_id(), flush=True)\ntime.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=OWN_PATH,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a supervisor starts one
    ) as kernel:
        assert kernel.stdout is not None
        said = [kernel.stdout.readline(), kernel.stdout.readline()]
        assert "started\n" in said
        (numbers,) = (line for line in said if line != "started\n")
        child, launcher_pid = map(int, numbers.split())
        table = process_table()
        family = [pid for pid, process in table.items() if process.parent == child]
        assert len(family) == 2
        descriptors = [os.pidfd_open(pid) for pid in (child, *family, launcher_pid)]
        # The system sends HUP and CONT to a group that has lost its last parent outside of it.
        victim = launcher_pid if stopped == "the launcher" else child
        os.kill(victim, signal.SIGSTOP)
        waits.until("it has stopped", lambda: (p := read_process(victim)) is not None and p.state == "T")
        kernel.kill()
    for descriptor in descriptors:
        assert is_readable(descriptor, 60.0)
        os.close(descriptor)


def ended_launcher() -> int:
    """Kill the launcher, and return its id once it has ended."""
    pid = launcher_id()
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def ended(child: LaunchedProcess) -> int | None:
    """Wait for the exit of the child, and close it. Returns its exit code."""
    assert is_readable(child.pidfd, 60.0)
    code = child.exit_code()
    child.close()
    return code


def run(script: str) -> int | None:
    child = launch(["/bin/sh", "-c", script], executable=None, cwd="/", env={}, stdin=0, stdout=1, stderr=2)
    return ended(child)


WAITS_TO_BE_LET_GO = """
import errno
def restrict(order):
    with open(order, "rb") as file:
        told = file.read()
    if told == b"fail":
        raise OSError(errno.ENOSPC, "")
"""


@dataclass
class Starting:
    """A confined start whose child waits, before it executes its program, until something is written."""

    folder: Path
    argv: tuple[str, ...] = ("/bin/echo", "ran")
    environment: dict[str, str] = field(default_factory=dict)
    cwd: str = "/"
    descriptors: tuple[int, ...] = ()
    status: int | None = None
    keeps_watch: bool = False
    observer: None = None

    def __post_init__(self) -> None:
        self.module, self.gate = self.folder / "waits.py", self.folder / "gate"
        self.module.write_text(WAITS_TO_BE_LET_GO)
        os.mkfifo(self.gate)
        self.restriction = RestrictionOrder(module=str(self.module), order=os.fsencode(self.gate))

    def tell(self, word: bytes) -> None:
        self.gate.write_bytes(word)

    def close(self) -> None: ...

    def let_go(self) -> None: ...

    def give_up(self) -> None: ...

    def report(self, written: bytes) -> ConfinementReport:
        return ConfinementReport(confined=True)

    def clean_up(self) -> None: ...


def begin(start: Starting, output: int) -> LaunchedProcess:
    become_subreaper()
    return launch(
        start.argv, executable=None, cwd="/", env={}, stdin=0, stdout=output, stderr=2,
        restrictions=[start.restriction],
    )  # fmt: skip


def test_children_that_start_are_waited_for_later_in_any_order(tmp_path: Path) -> None:
    starts = []
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        starts.append(Starting(tmp_path / name))
    reading, writing = os.pipe()
    children = [begin(start, writing) for start in starts]
    os.close(writing)
    for start, child, word in list(zip(starts, children, (b"", b"fail", b""), strict=True))[::-1]:
        process = process_table()[child.pid]
        assert (child.continue_start(), process.session) == (None, child.pid)
        assert child.starting >= 0
        start.tell(word)
        assert is_readable(child.starting, 60.0)
        fault = child.continue_start()
        assert (fault.errno if fault else 0) == (errno.ENOSPC if word else 0)
        assert child.starting == -1
        assert ended(child) == (127 if word else 0)
    with os.fdopen(reading) as file:
        assert file.read().split() == ["ran", "ran"]


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("word", [b"", b"fail", None])
async def test_the_event_loop_goes_on_while_a_child_starts(tmp_path: Path, word: bytes | None) -> None:
    start = Starting(tmp_path)
    spec = SpawnSpec(argv=start.argv, cwd="/", env={}, call_id="c", confine=lambda _: start)
    ended: list[ChildExit] = []

    async def run() -> None:
        ended.append(await run_child(spec, b"", RunLimits(timeout_ms=600_000, max_output_bytes=100)))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await until(lambda: any(is_starting(pid) for pid in started_children()))
        assert ended == []
        if word is None:
            group.cancel_scope.cancel()
        else:
            await anyio.to_thread.run_sync(start.tell, word)
    if word is None:
        assert ended == []
    elif word:
        assert (ended[0].spawn_error is not None, ended[0].stdout) == (True, b"")
        assert os.strerror(errno.ENOSPC) in str(ended[0].spawn_error)
    else:
        assert (ended[0].spawn_error, ended[0].stdout, ended[0].exit_code) == (None, b"ran\n", 0)


def is_starting(pid: int) -> bool:
    """Whether the child leads its session, and has not executed its program yet."""
    process = read_process(pid)
    return process is not None and process.session == pid and process.name.startswith("python")
