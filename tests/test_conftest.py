"""A case that does not end after its time limit: its process is ended, and the others are run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CASES = """
import threading, time
import pytest

@pytest.mark.timeout(1)
def test_waits_without_a_limit():
    try:
        time.sleep(600)
    finally:
        threading.Event().wait()

@pytest.mark.parametrize("number", range(8))
def test_ends(number):
    assert number != 7
"""
ADOPTS = """
import os
from conftest import children, is_zombie

def test_a_child_exits_and_nobody_waits_for_it():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

def test_it_is_left_for_the_one_that_started_it():
    assert [pid for pid in children() if is_zombie(pid)]

def test_and_then_reaped():
    assert not [pid for pid in children() if is_zombie(pid)]
"""
TESTS = Path(__file__).parent


def run_cases(folder: Path, cases: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run these cases with the settings of all tests, in a pytest of their own."""
    (folder / "test_cases.py").write_text(cases)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        [*command, "--basetemp", str(folder / "t"), "test_cases.py"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(TESTS), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_a_case_that_outlives_its_limit_fails_and_the_others_are_run(tmp_path: Path) -> None:
    done = run_cases(tmp_path, CASES, "-n2", "--dist=worksteal", "--timeout=50")
    assert done.returncode == 1
    assert "2 failed, 7 passed" in done.stdout
    # Named where it happens, and again in the list at the end.
    assert done.stdout.count("FAILED test_cases.py::test_ends[7]") == 2
    assert done.stdout.count("FAILED test_cases.py::test_waits_without_a_limit") == 2
    assert "test_waits_without_a_limit" in done.stderr


def test_children_that_exited_are_reaped_once_the_case_after_theirs_has_ended(tmp_path: Path) -> None:
    done = run_cases(tmp_path, ADOPTS, "--timeout=50")
    assert "3 passed" in done.stdout, done.stdout
