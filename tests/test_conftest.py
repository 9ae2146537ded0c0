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
TESTS = Path(__file__).parent


def test_a_case_that_outlives_its_limit_fails_and_the_others_are_run(tmp_path: Path) -> None:
    (tmp_path / "test_cases.py").write_text(CASES)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-n2"]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(TESTS), "HOME": str(tmp_path)}
    done = subprocess.run(
        [*command, "--dist=worksteal", "--timeout=50", "--basetemp", str(tmp_path / "t"), "test_cases.py"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1
    assert "2 failed, 7 passed" in done.stdout
    # Named where it happens, and again in the list at the end.
    assert done.stdout.count("FAILED test_cases.py::test_ends[7]") == 2
    assert done.stdout.count("FAILED test_cases.py::test_waits_without_a_limit") == 2
    assert "test_waits_without_a_limit" in done.stderr
