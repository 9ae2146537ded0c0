"""A program in a process namespace: it has its limits from the first instruction on, and a kernel that is
killed at any moment of its start leaves nothing of it."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from flycore.model.enums import Level
from flycore.model.program import ConfinementReport
from flycore.model.session import CALL_ID_VARIABLE
from flycore.model.sidecar import Limits
from flycore.runners.child.launcher_program import MAX_OOM_SCORE, OOM_SCORE_RAISE
from flycore.runners.child.process import is_readable
from flycore.runners.child.run import RunLimits, run_child
from flycore.runners.child.spawn import NOT_CONFINED, SpawnSpec, spawn
from flycore.sandbox.launch import read_report
from flysafe.procfs import children_of, environment_value, executable_of, process_table, read_process
from kits import waits
from kits.sandbox_levels import needs_level, python_confined

FULL = os.environ.get("FLYTUI_SUITES") == "full"
ROUNDS = 200 if FULL else 3
OWN_PATH = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
LIMITS = RunLimits(timeout_ms=60_000, max_output_bytes=10_000)
KERNEL = """
import os, random, signal, sys, time
from pathlib import Path
from flycore.model.enums import Level
from flycore.runners.child.launcher import prepare_launcher
from flycore.runners.child.observer import observer_id
from flycore.runners.child.process import is_readable
from flycore.runners.child.process_tree import become_subreaper
from flycore.runners.child.spawn import SpawnSpec, spawn
from kits.sandbox_levels import python_confined
folder, call, moment, wait_s = Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
observed = bool(int(sys.argv[5]))
become_subreaper()
prepare_launcher()
spec = SpawnSpec(
    argv=("/bin/sh", "-c", "touch ran; sleep 600 & setsid sleep 600 & env -i setsid sleep 600 & wait"),
    cwd=str(folder), env={"PATH": "/usr/bin:/bin", "FLYTUI_CALL_ID": call}, call_id=call,
    confine=python_confined(Level.ENFORCED, folder, observed=observed))
child = spawn(spec, wait=False)
print(observer_id())
sys.stdout.flush()
if moment != "started":
    assert is_readable(child.process.starting, 60.0)
if moment == "let go":
    while child.process.starting >= 0:
        child.process.continue_start()
    time.sleep(wait_s)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def enforced() -> None:
    """Skips if bubblewrap does not work here."""
    needs_level(Level.ENFORCED)


def kill_at(moment: str, folder: Path, number: int, wait_s: float = 0.0, *, observed: bool = False) -> None:
    """Run a kernel that starts the program and is killed then; wait until nothing of it is left."""
    call = f"{os.getpid()}-{folder.name}-{number}"
    words = [sys.executable, "-c", KERNEL, str(folder), call, moment, str(wait_s), str(int(observed))]
    done = subprocess.run(words, env=OWN_PATH, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    assert done.returncode == -signal.SIGKILL
    # The observer has the kernel's output, which has ended by now.
    observer = int(done.stdout.split()[0])
    assert bool(observer) == observed
    waits.until("the observer has ended", lambda: (p := read_process(observer)) is None or p.ended)
    if moment == "let go":
        waits.until("nothing is left", lambda: not processes_of(call))
        return
    # The command may be killed while it sets its first process up, which then waits for it for good. It has
    # run nothing, and the next kernel finds it by its environment.
    waits.until("no program is left", lambda: all(map(is_command, processes_of(call))))
    for pid in processes_of(call):
        os.kill(pid, signal.SIGKILL)


def is_command(pid: int) -> bool:
    """Whether the process runs the program that makes the namespace."""
    return os.path.basename(executable_of(pid)).startswith("bwrap")


def processes_of(call: str) -> list[int]:
    return [pid for pid in process_table() if environment_value(pid, CALL_ID_VARIABLE) == call]


@pytest.mark.suite
@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("moment", ["started", "named"])
@pytest.mark.timeout(900 if FULL else 120)
def test_a_kernel_that_is_killed_before_it_lets_the_program_go_has_run_nothing(
    moment: str, observed: bool, tmp_path: Path
) -> None:
    for number in range(ROUNDS):
        kill_at(moment, tmp_path, number, observed=observed)
    assert not (tmp_path / "ran").exists()


@pytest.mark.suite
@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.timeout(900 if FULL else 120)
def test_a_kernel_that_is_killed_as_the_program_begins_leaves_nothing(observed: bool, tmp_path: Path) -> None:
    for number in range(ROUNDS):
        wait_s = random.choice((0.0, random.uniform(0, 0.01)))
        kill_at("let go", tmp_path, number, wait_s, observed=observed)


PRINTS = """
import json, resource
names = ("CPU", "AS", "DATA", "FSIZE", "NOFILE")
found = {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in names}
print(json.dumps([found, open("/proc/self/oom_score_adj").read(), open("/proc/self/status").read()]))
"""


def spec_of(folder: Path, *argv: str, limits: Limits | None = None) -> SpawnSpec:
    call = f"{os.getpid()}-{folder.name}"
    return SpawnSpec(
        argv=argv,
        cwd=str(folder),
        env={"PATH": "/usr/bin:/bin", CALL_ID_VARIABLE: call},
        call_id=call,
        limits=limits or Limits(),
        confine=python_confined(Level.ENFORCED, folder),
    )


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_the_limits_hold_from_the_first_instruction_on(tmp_path: Path) -> None:
    limits = Limits(cpu_seconds=77, memory_bytes=1 << 30, file_bytes=12_345, open_files=66)
    done = await run_child(spec_of(tmp_path, sys.executable, "-I", "-c", PRINTS, limits=limits), b"", LIMITS)
    found, oom_score, status = json.loads(done.stdout)
    wanted = {"CPU": 77, "AS": 1 << 30, "DATA": limits.most_memory, "FSIZE": 12_345, "NOFILE": 66}
    assert found == {name: [value, value] for name, value in wanted.items()}
    own = await anyio.Path("/proc/self/oom_score_adj").read_text()
    assert int(oom_score) == min(int(own) + OOM_SCORE_RAISE, MAX_OOM_SCORE)
    assert "Seccomp:\t2" in status


def ignored_here() -> int:
    """The signals that this process ignores: nohup, and programs that start others, leave some ignored."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if "SigIgn" in line).split()[1], 16)


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("observed", [False, True])
async def test_a_program_gets_nothing_of_the_process_that_starts_it(tmp_path: Path, observed: bool) -> None:
    command = "ls -l /proc/self/fd; grep SigIgn /proc/self/status; env; tr '\\0' '\\n' </proc/1/environ"
    confine = python_confined(Level.ENFORCED, tmp_path, observed=observed)
    spec = replace(spec_of(tmp_path, "/bin/sh", "-c", command), confine=confine)
    lines = (await run_child(spec, b"", LIMITS)).stdout.decode().splitlines()
    # Its three streams, and the folder that is listed.
    assert sum("->" in line for line in lines) == 4, lines
    (ignored,) = [int(line.split()[1], 16) for line in lines if line.startswith("SigIgn")]
    assert ignored & ~ignored_here() == 0
    assert not ignored & (1 << (signal.SIGPIPE - 1))
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert names - {"SHLVL", "_"} == {"PATH", "PWD", CALL_ID_VARIABLE}  # those are the shell's


@pytest.mark.anyio
@pytest.mark.usefixtures("nothing_left")
async def test_a_program_whose_limits_cannot_be_set_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(resource, "prlimit", refused)
    done = await run_child(spec_of(tmp_path, "/bin/sh", "-c", "touch ran"), b"", LIMITS)
    assert done.spawn_error is not None
    assert (done.spawn_error.fault, (tmp_path / "ran").exists()) == (NOT_CONFINED, False)
    assert "Operation not permitted" in done.spawn_error.message


SLOW = """
import os, sys
status = int(sys.argv[1])
first = os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
os.write(status, b'{ "child-')
open("gate").read()
os.write(status, b'pid": %d }\\n' % first)
os.wait()
"""


class SlowCommand:
    """A confining command that names the first process in two pieces, the second when it is told to."""

    restriction = observer = None
    keeps_watch = True
    environment: ClassVar[dict[str, str]] = {"PATH": "/usr/bin:/bin"}

    def __init__(self, folder: Path) -> None:
        self.cwd = str(folder)
        self.gate, self.lets_go = folder / "gate", 0
        os.mkfifo(self.gate)
        self.status, writer = os.pipe2(os.O_CLOEXEC)
        self.descriptors = (writer,)
        self.argv = (sys.executable, "-I", "-S", "-c", SLOW, str(writer))

    def close(self) -> None:
        os.close(self.descriptors[0])

    def let_go(self) -> None:
        self.lets_go += 1

    def give_up(self) -> None: ...

    def report(self, written: bytes) -> ConfinementReport:
        return read_report(written)

    def clean_up(self) -> None: ...


def test_a_report_may_come_in_pieces(tmp_path: Path) -> None:
    command = SlowCommand(tmp_path)
    child = spawn(replace(spec_of(tmp_path, "x"), confine=lambda _: command), wait=False)
    try:
        assert is_readable(child.process.starting, 60.0)
        assert child.process.continue_start() is None
        assert (child.process.first_process, command.lets_go) == (0, 0)
        command.gate.write_text("go\n")
        assert is_readable(child.process.starting, 60.0)
        assert child.process.continue_start() is None
        assert (child.process.starting, command.lets_go) == (-1, 1)
        assert children_of(child.process.pid) == {child.process.first_process}
    finally:
        os.killpg(child.process.pid, signal.SIGKILL)
        assert is_readable(child.process.pidfd, 60.0)
        child.process.close()
        for descriptor in (child.stdin, child.stdout, child.stderr):
            os.close(descriptor)
        assert child.confined is not None
        child.confined.close()
