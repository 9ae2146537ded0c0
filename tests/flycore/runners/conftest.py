"""Real children for the runner: small Python programs, started as sidecars are."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from flycore.runners.child.launcher import prepare_launcher
from flycore.runners.child.namespace_process import leaving
from flycore.runners.child.observer import prepare_observer
from flysafe.procfs import environment_value, process_table
from flysafe.spare_descriptors import keep_spare_descriptors
from kits.hostile_children import MakeJob, python_jobs
from kits.started_children import started_children


@pytest.fixture
def sidecar(tmp_path: Path) -> MakeJob:
    """Makes a job that runs Python code without site and environment; fields of the job by keyword."""
    return python_jobs(tmp_path)


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """After the test: no child, no process that names a call of this test run, no descriptor more."""
    # They stay for all children of this process, as do the spare descriptors.
    prepare_launcher()
    prepare_observer()
    keep_spare_descriptors()
    children, descriptors = started_children(), set(os.listdir("/proc/self/fd"))
    yield
    going = leaving()
    for pid in going:
        # What the system takes down by itself has ended soon; it is reaped with the next call, or was now.
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert started_children() - going <= children
    mark = f"{os.getpid()}-"
    left = [pid for pid in process_table() if environment_value(pid, "FLYTUI_CALL_ID").startswith(mark)]
    assert left == []
    for thread in threading.enumerate():  # told to end with the loop, which each one still holds
        if thread.name.startswith("AnyIO worker"):
            thread.join(30)
    del thread  # the last one would hold its loop
    # The loop's own descriptors go with the loop; ours are numbers, which nothing collects. It is young:
    # the old objects of a long run take half a second, and are looked through only where something is left.
    for generation in (1, 2):
        gc.collect(generation)
        new = set(os.listdir("/proc/self/fd")) - descriptors
        paths = (f"/proc/self/fd/{descriptor}" for descriptor in new)
        left_open = [os.readlink(path) for path in paths if os.path.exists(path)]
        if not left_open:
            break
    assert left_open == []
