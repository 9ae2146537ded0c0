"""A kernel ends whom a killed one of its root has left, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from flycore.kernel import crash_recovery
from flycore.kernel.crash_recovery import (
    MOST_SESSIONS,
    earlier_sessions,
    end_leftover_processes,
    find_leftover_processes,
    write_sessions,
)
from flycore.model.session import new_session, session_of
from flycore.registry.paths import SESSIONS_FILE
from kits.kernel import ECHO, Root, kernel_of, request, tool
from kits.tables import each_row

pytestmark = pytest.mark.anyio
READY = "print('ready', flush=True); import signal; signal.pause()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}"
PARENT = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {READY!r}], env={{}}, start_new_session=True)
{READY}
"""


@contextmanager
def left_over(session: str, code: str = READY, says: int = 1) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like one of a kernel that is gone; it has said `ready` so often."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={"FLYTUI_CALL_ID": f"{session}-000001"},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    for _ in range(says):
        assert process.stdout.readline() == b"ready\n"
    try:
        yield process
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


async def test_those_of_an_earlier_session_end_and_no_others() -> None:
    mine, others = new_session(), new_session()
    with left_over(mine) as process, left_over(others) as stranger, left_over("notes") as named:
        ended = await end_leftover_processes((mine,))
        assert (ended.processes, ended.still_running) == (1, 0)
        assert process.wait(60) < 0
        assert (stranger.poll(), named.poll()) == (None, None)


async def test_one_that_ignores_term_and_one_that_stopped_are_ended() -> None:
    session = new_session()
    with left_over(session, STUBBORN) as stubborn, left_over(session) as stopped:
        os.kill(stopped.pid, 19)
        ended = await end_leftover_processes((session,))
        assert (ended.processes, ended.still_running) == (2, 0)
        assert stubborn.wait(60) == -9
        assert stopped.wait(60) < 0


async def test_a_descendant_that_shed_the_variable_and_the_session_ends_too() -> None:
    session = new_session()
    with left_over(session, PARENT, says=2):
        child = next(
            process.pid for process in find_leftover_processes((session,)) if process.parent != os.getpid()
        )
        ended = await end_leftover_processes((session,))
        assert (ended.processes, ended.still_running) == (2, 0)
        found = crash_recovery.read_process(child)
        assert found is None or found.ended


def test_a_kernel_that_a_stray_has_started_spares_itself_and_its_ancestors() -> None:
    """The test's own process looks like a stray to a process that it starts."""
    session = new_session()
    code = (
        "import anyio, sys\n"
        "from flycore.kernel.crash_recovery import end_leftover_processes\n"
        "ended = anyio.run(end_leftover_processes, (sys.argv[1],))\n"
        "print(ended.processes, ended.still_running)\n"
    )
    inner = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}, {session!r}], check=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", inner],
        env={"FLYTUI_CALL_ID": f"{session}-000001", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout.split() == ["0", "0"]


async def test_without_an_earlier_session_nobody_is_looked_for() -> None:
    assert find_leftover_processes(()) == []


@each_row(
    ("call_id", "session"),
    [
        ("0123456789ab-000001", "0123456789ab"),
        ("0123456789ab-000001-stays-00", "0123456789ab"),
        ("0123456789ab", "0123456789ab"),
        ("notify-12-1", ""),
        ("0123456789AB-1", ""),
        ("", ""),
    ],
)
def test_a_call_id_begins_with_its_session(call_id: str, session: str) -> None:
    assert session_of(call_id) == session


def test_sessions_are_remembered_within_bounds_and_only_where_they_are_some(tmp_path: Path) -> None:
    assert earlier_sessions(tmp_path) == ()
    many = [f"{number:012x}" for number in range(MOST_SESSIONS + 5)]
    write_sessions(tmp_path, many)
    assert earlier_sessions(tmp_path) == tuple(many[5:])
    (tmp_path / SESSIONS_FILE).write_text('["../../x", "\\u0000", "0123456789ab", "short"]')
    assert earlier_sessions(tmp_path) == ("0123456789ab",)
    write_sessions(tmp_path / "absent", many)  # nothing is raised


async def test_a_kernel_ends_them_before_it_is_there_and_says_so(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.do", risk="low"))
    async with kernel_of(root) as kernel:
        session = session_of(kernel.new_call_id())
    assert earlier_sessions(root.places.state_dir) == (session,)
    with ExitStack() as stack:
        processes = [stack.enter_context(left_over(session)) for _ in range(3)]
        async with kernel_of(root) as kernel:
            assert find_leftover_processes((session,)) == []
            assert [process.wait(60) < 0 for process in processes] == [True] * 3
            assert earlier_sessions(root.places.state_dir) == (session_of(kernel.new_call_id()),)
            await kernel.call(request(kernel, "echo.nothing"))
    lines = [line for line in root.audit() if line["event"] == "STRAYS_ENDED"]
    assert [(line["processes"], line["left"]) for line in lines] == [(3, 0)]
