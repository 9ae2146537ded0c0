"""Suite S3: a program tries to get out of each level, as root and as an ordinary user."""

from __future__ import annotations

import os
import subprocess
import traceback

import pytest

from flycore.model.enums import Level
from flycore.sandbox import landlock
from flycore.sandbox.escape_trial import (
    NEEDED,
    REPORTED,
    WITH_NETWORK,
    ProbeResult,
    Start,
    gaps_of,
    newly_open,
    start_alone,
    try_escapes,
)
from flycore.sandbox.launch import Launch
from kits.programs import needs_bubblewrap
from kits.sandbox_levels import run_launch
from kits.tables import each_row

pytestmark = pytest.mark.suite
SYSTEM_PYTHON = "/usr/bin/python3"
NOBODY = 65_534


@pytest.fixture(params=[Level.DEGRADED, Level.ENFORCED])
def level(request: pytest.FixtureRequest) -> Level:
    """Each level that confines, where this machine has what it needs."""
    if request.param is Level.DEGRADED:
        if not landlock.version():
            pytest.skip("this kernel has no Landlock")
        return Level.DEGRADED
    needs_bubblewrap()
    return Level.ENFORCED


def start_as_call(launch: Launch, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    """Start the program as that of a call is started."""
    ended = run_launch(launch, stdin.decode())
    assert ended.spawn_error is None, ended.spawn_error
    assert ended.confinement is not None
    assert ended.confinement.confined
    return subprocess.CompletedProcess(launch.argv, ended.exit_code or 0, ended.stdout, ended.stderr_tail)


@each_row("network", [False, True], ids=["alone", "network"])
@each_row("start", [start_alone, start_as_call], ids=["trial", "call"])
def test_nothing_but_what_is_said_is_open(level: Level, start: Start, network: bool) -> None:
    results = try_escapes(level, network=network, start=start)
    assert len(results) > 50
    assert newly_open(level, results, network=network) == ()
    # What is told as a gap is one here: a list that says too much would hide the next hole.
    states = {result.name: result.state for result in results}
    assert {name for name in gaps_of(level, landlock.version()) if states[name] != "open"} == set()


def test_without_a_sandbox_the_probes_get_out() -> None:
    # A probe that is shut without any sandbox proves nothing where it is shut with one.
    states = {result.name: result.state for result in try_escapes(Level.NONE, network=False)}
    expected_shut = {"inherited-descriptor"}
    if subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode:
        # An administrator forbade it, or the root folder is not that of the machine (chroot).
        expected_shut |= {"user-namespace"}
    if os.getuid():
        expected_shut |= {"packet", "mount", "open-by-handle", "read-shadow", "bpf", "perf-event-open"}
        expected_shut |= {"type-into-terminal", "userfaultfd"}
    assert {name for name, state in states.items() if state != "open"} <= expected_shut


@pytest.mark.root
@pytest.mark.skipif(not os.access(SYSTEM_PYTHON, os.X_OK), reason=f"there is no {SYSTEM_PYTHON}")
@pytest.mark.parametrize("network", [False, True], ids=["alone", "network"])
def test_an_ordinary_user_gets_no_further(network: bool) -> None:
    needs_bubblewrap()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.environ["TMPDIR"] = "/tmp"
            results = try_escapes(Level.ENFORCED, network=network, python=SYSTEM_PYTHON)
            code = 0 if newly_open(Level.ENFORCED, results, network=network) == () else 2
            if code:
                os.write(2, repr(results).encode())
        except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
            traceback.print_exc()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_older_landlock_has_more_gaps() -> None:
    signals = {"process-signal-0", "process-signal-stop"}
    assert gaps_of(Level.DEGRADED, 5).keys() - gaps_of(Level.DEGRADED, 6).keys() == signals
    assert gaps_of(Level.ENFORCED, 0) == {}


def test_a_hole_and_a_lack_are_told() -> None:
    good = tuple(ProbeResult(name, "open", "") for name in NEEDED)
    assert newly_open(Level.ENFORCED, good, network=False) == ()
    hole = (*good, ProbeResult("read-outside", "open", ""))
    assert newly_open(Level.ENFORCED, hole, network=False) == ("read-outside",)
    assert newly_open(Level.ENFORCED, good[1:], network=False) == (NEEDED[0],)
    reached = (*good, *(ProbeResult(name, "open", "") for name in (*WITH_NETWORK, *REPORTED)))
    assert newly_open(Level.ENFORCED, reached, network=False) == WITH_NETWORK
    assert newly_open(Level.ENFORCED, reached, network=True) == ()
