"""The launcher: whose child a process is needs no guessing, and a launcher that is gone comes back."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from flycore.model.enums import Code, Status
from flycore.model.program import ConfinementReport, RestrictionOrder
from flycore.runners.child import launcher
from flycore.runners.child.launcher import (
    ChildProcess,
    is_launcher,
    launch,
    prepare_launcher,
    reap_ready_children,
)
from flycore.runners.child.process_tree import become_subreaper
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.child.spawn import SpawnSpec
from flycore.runners.one_shot import ProcessJsonJob, call_sidecar
from flysafe.procfs import own_children, process_table, read_process
from kits import waits
from kits.kernel import until
from kits.started_children import ready_children, started_children

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
    (old,) = [pid for pid in own_children() if is_launcher(pid)]
    os.kill(old, signal.SIGSTOP)
    await until(lambda: (process := read_process(old)) is not None and process.state == "T")
    outcome = await call_sidecar(sidecar("import os; os.write(1, b'{\"ok\": true}')"))
    assert outcome.status is Status.SUCCESS, outcome
    assert is_launcher(old)
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
    with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
        launch(["/bin/true"], executable=None, cwd="/no/folder", env={}, stdin=0, stdout=1, stderr=2)
    with pytest.raises(ValueError, match="NUL"):
        launch(["/bin/true", "a\0b"], executable=None, cwd="/", env={}, stdin=0, stdout=1, stderr=2)


def test_the_launcher_has_no_environment_and_leads_no_session() -> None:
    become_subreaper()
    prepare_launcher()
    child = launch(["/bin/true"], executable=None, cwd="/", env={}, stdin=0, stdout=1, stderr=2)
    child.wait()
    assert child.returncode == 0
    (pid,) = [pid for pid in own_children() if is_launcher(pid)]
    assert process_table()[pid].session == os.getsid(0)
    assert os.getpgid(pid) == pid
    assert launcher.ANSWER_SECONDS > 1


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
    child.wait()
    assert child.returncode == 0
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
    limits = ((resource.RLIMIT_NOFILE, 77, True), (resource.RLIMIT_FSIZE, 4096, False))
    with os.fdopen(reading) as file:
        try:
            child = launch(
                ["/bin/sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -Hf"], executable=None, cwd="/", env={},
                stdin=0, stdout=writing, stderr=2, limits=limits,
            )  # fmt: skip
        finally:
            os.close(writing)
        said = file.read().split()
    child.wait()
    assert said == ["77", "77", "unlimited"]


def test_a_ready_child_waits_in_the_session_of_the_kernel() -> None:
    become_subreaper()
    run_true()
    pid = ready_child()
    process = process_table()[pid]
    assert (process.parent, process.session) == (os.getpid(), os.getsid(0))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every process")
def test_another_process_of_the_user_reads_nothing_of_a_ready_child() -> None:
    """Its memory will hold a request, with the secrets of a sidecar."""
    become_subreaper()
    pid = ready_child()
    with pytest.raises(PermissionError):
        os.listdir(f"/proc/{pid}/fd")
    with pytest.raises(PermissionError):
        Path(f"/proc/{pid}/environ").read_bytes()


@pytest.mark.root
def test_a_ready_child_has_nothing_of_an_earlier_request() -> None:
    become_subreaper()
    run_true()
    pid = ready_child()
    assert Path(f"/proc/{pid}/environ").read_bytes() in (b"", b"\0")
    folder = f"/proc/{pid}/fd"
    waits.until("the other descriptors are closed", lambda: len(os.listdir(folder)) == 5)
    names = [os.readlink(f"{folder}/{number}") for number in os.listdir(folder)]
    sockets = [name for name in names if name.startswith("socket:")]
    assert len(sockets) == 2
    (launcher_id,) = (child for child in own_children() if is_launcher(child))
    standard = {os.readlink(f"/proc/{launcher_id}/fd/{number}") for number in range(3)}
    assert set(names) == {*standard, *sockets}


def test_a_ready_child_that_was_ended_is_reaped_and_another_one_takes_its_place() -> None:
    become_subreaper()
    prepare_launcher()
    (launcher_id,) = (child for child in own_children() if is_launcher(child))
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
        old = ready_child()
        os.kill(old, number)
        os.waitid(os.P_PID, old, os.WEXITED | os.WNOWAIT)
        run_true()
        reap_ready_children()
        assert read_process(old) is None
        assert ready_child() != old
    assert is_launcher(launcher_id)


def test_a_ready_child_that_was_stopped_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "ANSWER_SECONDS", 600.0)
    become_subreaper()
    old = ready_child()
    os.kill(old, signal.SIGSTOP)
    os.waitid(os.P_PID, old, os.WSTOPPED)
    assert run_true().pid == old


def test_the_ready_child_of_a_launcher_that_is_given_up_leaves() -> None:
    become_subreaper()
    old = ready_child()
    ended_launcher()
    # It cannot tell a launcher that it was taken, and so it starts nothing.
    assert run_true().pid != old
    os.waitid(os.P_PID, old, os.WEXITED | os.WNOWAIT)
    assert not reap_ready_children()
    assert read_process(old) is None


@pytest.mark.parametrize("ended", ["the kernel", "both"])
def test_a_ready_child_leaves_with_a_killed_kernel(ended: str) -> None:
    code = "import time, kits.started_children as kit\n"
    code += "from flycore.runners.child.launcher import prepare_launcher, _running\nprepare_launcher()\n"
    code += "while not kit.ready_children(): time.sleep(0.01)\n"
    code += "print(_running[0].process.pid, *kit.ready_children(), flush=True)\ntime.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=OWN_PATH, stdout=subprocess.PIPE, text=True
    ) as kernel:
        assert kernel.stdout is not None
        launcher_id, ready = map(int, kernel.stdout.readline().split())
        descriptors = [os.pidfd_open(ready), os.pidfd_open(launcher_id)]
        if ended == "both":
            kernel.send_signal(signal.SIGSTOP)
            os.kill(launcher_id, signal.SIGKILL)
        kernel.kill()
    for descriptor in descriptors:
        assert select.select([descriptor], [], [], 60.0)[0]
        os.close(descriptor)


@pytest.mark.parametrize("stopped", ["the ready child", "the group"])
def test_a_launcher_ends_what_a_killed_kernel_leaves_whoever_is_stopped(stopped: str) -> None:
    """The ready child is in the launcher's own group: a signal to that group is one to the launcher."""
    code = "import time, kits.started_children as kit\n"
    code += "from flycore.runners.child.launcher import launch, _running\n"
    code += "child = launch(['/bin/sh', '-c', 'sleep 600 & setsid sleep 600 & echo started; wait'],\n"
    code += "    executable=None, cwd='/', env={'PATH': '/usr/bin:/bin'}, stdin=0, stdout=1, stderr=2)\n"
    code += "while not kit.ready_children(): time.sleep(0.01)\n"
    code += "print(child.pid, _running[0].process.pid, *kit.ready_children(), flush=True)\ntime.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=OWN_PATH, stdout=subprocess.PIPE, text=True
    ) as kernel:
        assert kernel.stdout is not None
        said = [kernel.stdout.readline(), kernel.stdout.readline()]
        assert "started\n" in said
        (numbers,) = (line for line in said if line != "started\n")
        child, launcher_id, ready = map(int, numbers.split())
        table = process_table()
        family = [pid for pid, process in table.items() if process.parent == child]
        assert len(family) == 2
        descriptors = [os.pidfd_open(pid) for pid in (child, *family, ready, launcher_id)]
        os.kill(ready, signal.SIGSTOP)
        if stopped == "the group":
            # As the system does when the kernel goes, while a member of the launcher's group is stopped.
            os.kill(launcher_id, signal.SIGHUP)
        kernel.kill()
    for descriptor in descriptors:
        assert select.select([descriptor], [], [], 60.0)[0]
        os.close(descriptor)


REFUSED = """
import ctypes, errno, os, struct, sys
from flycore.runners.child.launcher import launch
from flycore.runners.child.process_tree import become_subreaper
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.child.spawn import SpawnSpec
from flycore.runners.child.ready_child_program import _CLONE, _CLONE3
newer, older = map(int, sys.argv[1:])
steps = (
    (0x20, 0, 0, 0), (0x15, 4, 0, _CLONE3), (0x15, 0, 2, _CLONE[os.uname().machine]),
    (0x20, 0, 0, 16), (0x45, 2, 0, 0x8000),  # the flags, and CLONE_PARENT
    (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, newer), (0x06, 0, 0, older))
kept = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
class Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter(len(steps), ctypes.addressof(kept)))) == 0
become_subreaper()
for _ in range(3):
    try:
        launch(["/bin/echo", "ran"], executable=None, cwd="/", env={}, stdin=0, stdout=1, stderr=2).wait()
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
"""
FAILS, ALLOWED = 0x50000, 0x7FFF0000


@pytest.mark.parametrize(
    ("newer", "older", "said"),
    [
        (errno.ENOSYS, ALLOWED, "ran"),
        (errno.EPERM, ALLOWED, "ran"),
        (errno.ENOSYS, FAILS | errno.EAGAIN, "EAGAIN"),
        (errno.EMFILE, ALLOWED, "EMFILE"),
    ],
)
def test_where_a_filter_refuses_the_newer_call_the_older_one_is_made(
    newer: int, older: int, said: str
) -> None:
    words = [sys.executable, "-c", REFUSED, str(FAILS | newer), str(older)]
    done = subprocess.run(words, env=OWN_PATH, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.split() == [said] * 3


def ended_launcher() -> int:
    """Kill the launcher, and return its id once it has ended."""
    (pid,) = [pid for pid in own_children() if is_launcher(pid)]
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def run_true() -> ChildProcess:
    child = launch(["/bin/true"], executable=None, cwd="/", env={}, stdin=0, stdout=1, stderr=2)
    child.wait()
    assert child.returncode == 0
    return child


def ready_child() -> int:
    """The child that waits for its program, once there is one."""
    prepare_launcher()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for pid in ready_children():
            process = read_process(pid)
            if process is not None and not process.ended and has_usual_signals(pid):
                return pid
        time.sleep(0.01)
    pytest.fail("there was never a ready child")


def has_usual_signals(pid: int) -> bool:
    """Whether a signal ends the process, as it ends a program: it has undone what Python and the launcher
    set. Every user may read this of a process, and only root may read its descriptors."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    sets = dict(line.split(":\t", 1) for line in lines if line.startswith(("SigIgn", "SigCgt")))
    changed = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1 | 1 << signal.SIGHUP - 1
    return not any(int(value, 16) & changed for value in sets.values())


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

    def report(self, written: bytes) -> ConfinementReport:
        return ConfinementReport(confined=True)

    def clean_up(self) -> None: ...


def begin(start: Starting, output: int) -> ChildProcess:
    become_subreaper()
    return launch(
        start.argv, executable=None, cwd="/", env={}, stdin=0, stdout=output, stderr=2,
        restriction=start.restriction, wait=False,
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
        assert (child.start_fault(), process.session) == (None, child.pid)
        assert child.starting >= 0
        start.tell(word)
        assert select.select([child.starting], [], [], 60.0)[0]
        fault = child.start_fault()
        assert (fault.errno if fault else 0) == (errno.ENOSPC if word else 0)
        assert child.starting == -1
        child.wait()
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
