"""Whether a stopped console would be taken up again: real processes in real groups and sessions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from flytui.console.job_control import NO_SHELL, job_obstacle, stop_job

WAITS = "import sys; print('up', flush=True); sys.stdin.read()"


def started(prelude: str = "", **how: object) -> subprocess.Popen[str]:
    """A process that waits for the end of its input."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{prelude}\n{WAITS}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **how,  # type: ignore[call-overload]  # arguments by name
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_job_of_a_shell_is_stopped_with_its_whole_group() -> None:
    process = started(process_group=0)
    try:
        assert job_obstacle(process.pid) == ""
        assert stop_job(process.pid) == ""
        found = os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert found is not None
        assert found.si_status == signal.SIGTSTP
    finally:
        ended(process)


@pytest.mark.parametrize(
    ("prelude", "how"),
    [
        ("", {"start_new_session": True}),
        ("import signal; signal.signal(signal.SIGTSTP, signal.SIG_IGN)", {"process_group": 0}),
    ],
)
def test_nothing_stops_what_no_shell_would_take_up(prelude: str, how: dict[str, object]) -> None:
    process = started(prelude, **how)
    try:
        assert job_obstacle(process.pid) == NO_SHELL
        assert stop_job(process.pid) == NO_SHELL
        assert process.poll() is None
    finally:
        ended(process)


def test_a_process_that_is_gone_is_no_job() -> None:
    process = started(process_group=0)
    ended(process)
    assert job_obstacle(process.pid) == NO_SHELL
