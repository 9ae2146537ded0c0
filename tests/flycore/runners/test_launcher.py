"""The launcher: whose child a process is needs no guessing, and a launcher that is gone comes back."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from flycore.model.enums import Code, Status
from flycore.runners.child import launcher
from flycore.runners.child.launcher import is_launcher, launch, prepare_launcher
from flycore.runners.child.process_tree import become_subreaper
from flycore.runners.one_shot import ProcessJsonJob, call_sidecar
from flysafe.procfs import own_children, process_table, read_process
from kits.kernel import until

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
    (old,) = [pid for pid in own_children() if is_launcher(pid)]
    os.kill(old, signal.SIGKILL)
    outcome = await call_sidecar(sidecar("import os; os.write(1, b'{\"ok\": true}')"))
    assert outcome.status is Status.SUCCESS, outcome
    assert read_process(old) is None


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
    before = own_children()
    (tmp_path / "plain").write_text("no program")
    for path in ("/no/such/program", str(tmp_path / "plain"), "nowhere-to-be-found"):
        outcome = await call_sidecar(sidecar("", argv=(path,)))
        assert (outcome.status, outcome.code) == (Status.FAILED, Code.SPAWN)
    assert own_children() == before
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
