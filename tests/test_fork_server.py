"""The kit that forks the programs of the tests: how they end, who ends them, and what they have open."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flysafe.procfs import read_process
from kits.fork_server import LIMITS, ForkServer
from kits.tables import each_row

CODE = ForkServer("kits.fork_server:run_code", ())
ENV = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "WORD": "given"}
LONGEST = 60.0
SHOW = "import os, sys; print(os.environ['WORD'], os.getcwd(), sys.argv[1:], sys.stdin.read())"
PID_AND_WAIT = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


def run(code: str, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a piece of Python directly."""
    return CODE.run(["python", code, *words], ENV, Path("/"), given, LONGEST)


def launched(code: str, *words: str, **more: object) -> subprocess.Popen[str]:
    """Start a piece of Python by the launcher."""
    command = CODE.launcher("python", code, *words)
    return subprocess.Popen(command, env=ENV, cwd="/", stdout=subprocess.PIPE, text=True, **more)  # type: ignore[call-overload,no-any-return]  # Popen's own


def until(found: Callable[[], object]) -> None:
    end = time.monotonic() + LONGEST
    while not found():
        assert time.monotonic() < end
        time.sleep(0.01)


def ended(pid: int) -> bool:
    process = read_process(pid)
    return process is None or process.ended


def test_a_process_has_its_own_words_environment_folder_and_streams() -> None:
    done = run(SHOW, "a", "b", given=b"said")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"given / ['a', 'b'] said\n", b"")
    with launched(SHOW, "a", stdin=subprocess.DEVNULL) as process:
        assert process.communicate(timeout=LONGEST)[0] == "given / ['a'] \n"


@each_row(
    ("code", "status"),
    [
        ("raise SystemExit(7)", 7),
        ("raise SystemExit('why')", 1),
        ("1 / 0", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import atexit, os; atexit.register(lambda: os._exit(9))", 9),
    ],
    ids=["exit", "words", "raises", "killed", "atexit"],
)
def test_it_ends_as_an_interpreter_does(code: str, status: int) -> None:
    assert run(code).returncode == status
    with launched(code, stderr=subprocess.DEVNULL) as process:
        assert process.wait(LONGEST) == status


def test_it_has_nothing_open_but_its_streams() -> None:
    listed = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
    waiting = launched(PID_AND_WAIT)  # its connection is the server's while the other forks
    assert waiting.stdout is not None
    waiting.stdout.readline()
    assert run(listed).stdout == b"[0, 1, 2, 3]\n"  # 3 is the folder that is listed
    waiting.kill()
    waiting.wait(LONGEST)
    waiting.stdout.close()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_launcher_passes_signals_on_and_ends_alike(signum: signal.Signals) -> None:
    listen = f"import os, signal; signal.signal({int(signum)}, lambda *_: os.write(1, b'heard'))"
    code = f"{listen}; {PID_AND_WAIT}"
    with launched(code) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.send_signal(signum)
        assert process.stdout.read(5) == "heard"
        os.kill(pid, signal.SIGKILL)
        assert process.wait(LONGEST) == -signal.SIGKILL


def test_what_a_killed_launcher_started_is_killed() -> None:
    with launched(PID_AND_WAIT) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
        until(lambda: ended(pid))


def test_a_killed_user_leaves_no_process() -> None:
    """Neither the server nor what it forked, however the interpreter that uses it ends."""
    user = f"""
import os, sys
sys.path[:] = {sys.path!r}
from kits.fork_server import ForkServer
from pathlib import Path
server = ForkServer("kits.fork_server:run_code", ())
process = server.start(["python", {PID_AND_WAIT!r}], {ENV!r}, Path("/"), os.open(os.devnull, os.O_RDONLY))
print(int(process.stdout.readline()), Path(f"/proc/{{process.pid}}/stat").read_text().split()[3], flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", user]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2
        process.kill()
        until(lambda: all(ended(pid) for pid in pids))


def test_on_a_terminal_it_leads_the_session_and_hears_the_end_of_it() -> None:
    """As under tmux: the launcher gives its controlling terminal to the process."""
    leads = "import os; print(os.getsid(0) == os.getpid() == os.tcgetpgrp(0), end=' ')"
    code = f"{leads}; {PID_AND_WAIT}"
    command = CODE.launcher("python", code)
    launcher, outer = pty.fork()
    if launcher == 0:
        os.execve(command[0], command, ENV)
    shown = b""
    while b"\n" not in shown:
        assert select.select([outer], [], [], LONGEST)[0]
        shown += os.read(outer, 1000)
    led, pid = shown.split()
    assert led == b"True"
    os.close(outer)
    until(lambda: ended(int(pid)))
    assert os.waitstatus_to_exitcode(os.waitpid(launcher, 0)[1]) == -signal.SIGHUP


def test_a_limit_of_a_module_can_be_set_for_one_process_alone() -> None:
    code = "import os; from kits import waits; print(waits.PATIENCE, os.environ.get('KITS_LIMITS'))"
    env = {**ENV, LIMITS: "kits.waits:PATIENCE=0.5"}
    shortened = CODE.run(["python", code], env, Path("/"), b"", LONGEST)
    assert (shortened.returncode, shortened.stdout) == (0, b"0.5 None\n")
    assert run(code).stdout == b"60.0 None\n"
