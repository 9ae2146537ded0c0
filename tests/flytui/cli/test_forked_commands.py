"""The installed command beside a running kernel: a forked process works for the stub, and is like it."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from flysafe.procfs import children_of
from flytui.forked.address import forker_socket
from kits.command_line import LONGEST, Desk, until
from kits.console_processes import gone
from kits.forked import forker_of, start_forker

pytestmark = pytest.mark.long
IS_STUB = (
    "import sys\n"
    "from flytui.cli.main import run\n"
    "code = run()\n"
    "assert 'click' not in sys.modules\n"
    "sys.exit(code)\n"
)


def command(*words: str) -> list[str]:
    """The installed command, which fails if the command line ran in its own process."""
    return [sys.executable, "-c", IS_STUB, *words]


@pytest.fixture(scope="module")
def beside(settled: Desk) -> Iterator[Desk]:
    """A root with a kernel, and the forker that a command in its own process has started."""
    with settled.serving():
        start_forker(settled)
        yield settled


def the_forker(desk: Desk) -> int:
    """The process id of the forker, which serves."""
    forker = forker_of(desk.environ)
    assert forker is not None
    return forker


def run(
    desk: Desk, argv: Sequence[str], given: bytes = b"", **options: object
) -> subprocess.CompletedProcess[bytes]:
    """Run a program with the root as its folder to its end."""
    how = {"env": desk.environ, "cwd": desk.root, "capture_output": True, "timeout": LONGEST, **options}
    return subprocess.run(argv, input=given, check=False, **how)  # type: ignore[call-overload,no-any-return]


def test_the_command_is_run_by_a_fork(beside: Desk) -> None:
    done = run(beside, command("catalog", "--json"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "flytui.catalog/1"


def test_words_folder_streams_and_exit_code_are_those_of_the_stub(beside: Desk, tmp_path: Path) -> None:
    assert run(beside, command("why", "no.such")).returncode == 3
    refused = run(beside, command("nonsense"))
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b"There is no command nonsense" in refused.stderr
    given = run(beside, command("call", "try.echo", "--input", "-", "--json"), b'{"message": "\xc3\xa4"}')
    assert json.loads(given.stdout)["output"]["echo"] == {"message": "ä"}
    below = beside.root / "below"
    below.mkdir(exist_ok=True)
    assert json.loads(run(beside, command("status", "--json"), cwd=below).stdout)["appRoot"] == str(
        beside.root
    )


@pytest.mark.parametrize(("begun", "completed"), [("cal", b"plain,call"), ("call tr", b"plain,try.echo")])
def test_a_completion_is_forked_too(beside: Desk, begun: str, completed: bytes) -> None:
    words = f"flytui {begun}"
    asked = {"_FLYTUI_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = run(beside, command(), env={**beside.environ, **asked})
    assert (done.returncode, done.stdout.splitlines()) == (0, [completed]), done.stderr


def test_variables_are_those_of_the_stub_and_of_no_command_before(beside: Desk) -> None:
    other = {"FLYTUI_ROOT": str(beside.home), **beside.environ}
    named = json.loads(run(beside, command("status", "--json"), env=other, cwd="/").stdout)
    assert named["appRoot"] == str(beside.home)
    after = json.loads(run(beside, command("status", "--json"), cwd="/").stdout)
    assert after["appRoot"] == "/"


def test_a_file_that_the_shell_opened_is_there(beside: Desk, tmp_path: Path) -> None:
    rules = tmp_path / "rules.jsonc"
    rules.write_text('{"schemaVersion": 1, "rules": [{"decision": "perhaps"}]}')
    with rules.open("rb") as file:
        number = file.fileno()
        done = run(beside, command("policy", "check", f"/dev/fd/{number}"), pass_fds=[number])
    assert done.returncode == 5, done.stderr
    assert b"rules.jsonc: 1 rule in force" in done.stdout


def test_mask_and_limits_are_those_of_the_stub(beside: Desk, tmp_path: Path) -> None:
    registry = beside.root / "tools" / "external.tools.jsonc"
    assert registry.exists()

    def narrow() -> None:
        os.umask(0o077)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

    target = tmp_path / "completion"
    with target.open("wb") as file:
        done = run(
            beside, command("catalog", "--json"), capture_output=False, stdout=file, stderr=subprocess.PIPE,
            preexec_fn=narrow,
        )  # fmt: skip
    assert done.returncode != 0
    assert target.stat().st_size <= 64


def test_a_closed_stream_is_no_file_that_is_opened_later(beside: Desk) -> None:
    script = f"exec 0<&- 1>&-; exec {sys.executable} -m flytui call try.echo message=x --json"
    done = run(beside, ["/bin/sh", "-c", script])
    assert done.returncode == 0, done.stderr


# Whom the kernel sees.


def caller_of_last_call(desk: Desk) -> str:
    (log,) = (desk.home / "state").rglob("audit/*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    caller = next(
        line["caller"] for line in reversed(lines) if line.get("tool") == "try.echo" and "caller" in line
    )
    return str(caller)


def test_the_caller_is_the_program_that_started_the_stub(beside: Desk) -> None:
    assert run(beside, [sys.executable, "-m", "flytui", "call", "try.echo", "message=x"]).returncode == 0
    assert str(os.getpid()) in caller_of_last_call(beside)


# Signals, and the end of either side.


SLOW = (sys.executable, "-m", "flytui", "call", "try.echo", '{"message": "x", "delayMs": 60000}')


def slow_call(desk: Desk, *through: str) -> subprocess.Popen[bytes]:
    """A call that lasts, which the kernel runs. `through` is the program that starts it."""
    until("no earlier call runs", lambda: running(desk) == 0)
    process = subprocess.Popen(
        [*through, *SLOW], env=desk.environ, cwd=desk.root, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    until("the call runs", lambda: running(desk) == 1)
    return process


def running(desk: Desk) -> int:
    return int(desk.document("status")["kernel"]["running"])


def worker(desk: Desk) -> int:
    """The process that works for the only stub."""
    (pid,) = children_of(the_forker(desk))
    return pid


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_and_its_call(beside: Desk, number: signal.Signals) -> None:
    process = slow_call(beside)
    process.send_signal(number)
    assert process.wait(LONGEST) == 128 + number
    process.communicate()
    until("the call was cancelled", lambda: running(beside) == 0)


def test_a_stub_that_is_killed_ends_the_process_that_works_for_it(beside: Desk) -> None:
    process = slow_call(beside)
    pid = worker(beside)
    process.kill()
    process.communicate()
    until("it has ended", lambda: gone(pid))
    until("the call was cancelled", lambda: running(beside) == 0)


def test_a_process_that_is_killed_ends_the_stub_by_the_same_signal(beside: Desk) -> None:
    process = slow_call(beside)
    os.kill(worker(beside), signal.SIGKILL)
    assert process.wait(LONGEST) == -signal.SIGKILL
    process.communicate()
    until("the call was cancelled", lambda: running(beside) == 0)


def test_both_stop_and_go_on(beside: Desk) -> None:
    process = slow_call(beside)
    pid = worker(beside)
    process.send_signal(signal.SIGTSTP)
    until("both are stopped", lambda: [state(process.pid), state(pid)] == ["T", "T"])
    process.send_signal(signal.SIGCONT)
    until("both run", lambda: "T" not in [state(process.pid), state(pid)])
    process.terminate()
    assert process.wait(LONGEST) == 128 + signal.SIGTERM
    process.communicate()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_signal_that_is_ignored_stays_ignored(beside: Desk) -> None:
    process = slow_call(beside, "nohup")
    process.send_signal(signal.SIGHUP)
    os.kill(worker(beside), signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    assert process.wait(LONGEST) == 128 + signal.SIGINT
    process.communicate()


def test_commands_of_a_forker_that_is_killed_clean_up(
    beside: Desk,
) -> None:
    process = slow_call(beside)
    forker = the_forker(beside)
    os.kill(forker, signal.SIGKILL)
    assert process.wait(LONGEST) == 128 + signal.SIGTERM
    process.communicate()
    until("the call was cancelled", lambda: running(beside) == 0)
    assert start_forker(beside) != forker  # a command in its own process starts the next one


def test_a_forker_that_cannot_fork_leaves_the_work_to_the_stub(beside: Desk) -> None:
    forker = the_forker(beside)
    before = resource.prlimit(forker, resource.RLIMIT_NPROC)
    if os.getuid() == 0:
        pytest.skip("NOT TESTED, root may have any number of processes")
    resource.prlimit(forker, resource.RLIMIT_NPROC, (1, before[1]))
    try:
        done = run(beside, command("status"))
    finally:
        resource.prlimit(forker, resource.RLIMIT_NPROC, before)
    assert b"AssertionError" in done.stderr  # the command line was imported
    assert b"kernel" in done.stdout
    assert the_forker(beside) == forker
    assert run(beside, command("status")).returncode == 0


def test_a_forker_that_stands_still_holds_up_nobody(beside: Desk) -> None:
    forker = the_forker(beside)
    os.kill(forker, signal.SIGSTOP)
    try:
        done = run(beside, command("status"))
    finally:
        os.kill(forker, signal.SIGCONT)
    assert b"AssertionError" in done.stderr  # the command line was imported
    assert b"kernel" in done.stdout


def test_a_hook_blocks_its_tool_however_its_process_ends(beside: Desk) -> None:
    argv = [sys.executable, "-m", "flytui", "hook", "claude-code"]
    process = subprocess.Popen(
        argv, env=beside.environ, cwd=beside.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    stream = f"/proc/{process.pid}/fd/0"
    until("its process has its input", lambda: os.readlink(stream) == os.devnull)
    os.kill(worker(beside), signal.SIGKILL)
    assert process.wait(LONGEST) == 2
    process.communicate()


# Whom the forker works for.


def no_new_privileges() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS


@pytest.mark.parametrize("confine", [no_new_privileges])
def test_a_confined_command_runs_in_its_own_process(beside: Desk, confine: Callable[[], None]) -> None:
    done = run(beside, command("status"), preexec_fn=confine)
    assert b"AssertionError" in done.stderr  # the command line was imported
    assert b"kernel" in done.stdout


def test_a_command_in_a_namespace_of_its_own_is_not_run_outside(beside: Desk) -> None:
    if not Path("/usr/bin/bwrap").exists():
        pytest.skip("bwrap is not installed")
    home = str(beside.home)
    bwrap = ["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--tmpfs", f"{home}/config"]
    done = run(beside, [*bwrap, *command("status")])
    assert b"AssertionError" in done.stderr, done
    assert b"kernel" in done.stdout


def test_the_forker_leaves_with_the_last_kernel_and_its_socket_too(trusted: Desk) -> None:
    with trusted.serving():
        forker = start_forker(trusted)
    until("it has ended", lambda: gone(forker))
    assert not Path(forker_socket(trusted.environ)).exists()


# At a terminal.


@contextmanager
def at_terminal(desk: Desk, *words: str) -> Iterator[tuple[int, int]]:
    """The pid and the terminal of the installed command as the leader of a session."""
    pid, outer = pty.fork()
    if not pid:
        os.chdir(desk.root)
        os.execve(sys.executable, [sys.executable, "-m", "flytui", *words], desk.environ)
    try:
        yield pid, outer
    finally:
        os.close(outer)


def read_until(outer: int, text: bytes) -> bytes:
    end, shown = time.monotonic() + LONGEST, b""
    while text not in shown:
        assert time.monotonic() < end, shown
        shown += os.read(outer, 65_536)
    return shown


def test_ctrl_c_and_ctrl_z_at_a_terminal(beside: Desk) -> None:
    until("no earlier call runs", lambda: running(beside) == 0)
    with at_terminal(beside, "call", "try.echo", '{"message": "x", "delayMs": 60000}') as (pid, outer):
        until("the call runs", lambda: running(beside) == 1)
        os.write(outer, b"\x1a")
        assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
        until("its process is stopped", lambda: state(worker(beside)) == "T")
        os.kill(pid, signal.SIGCONT)
        os.write(outer, b"\x03")
        status = os.waitpid(pid, 0)[1]
    assert os.waitstatus_to_exitcode(status) == 130
