"""Real children for the runner: small Python programs, started as sidecars are."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flycore.runners.child.launcher import prepare_launcher
from flycore.runners.one_shot import ProcessJsonJob
from flysafe.procfs import environment_value, own_children, process_table

MakeJob = Callable[..., ProcessJsonJob]


@pytest.fixture
def sidecar(tmp_path: Path) -> MakeJob:
    """Makes a job that runs Python code without site and environment; fields of the job by keyword."""
    numbers = itertools.count()

    def make(code: str, **fields: Any) -> ProcessJsonJob:
        call_id = fields.setdefault("call_id", f"{os.getpid()}-{tmp_path.name}-{next(numbers)}")
        return ProcessJsonJob(
            **{
                "argv": (sys.executable, "-I", "-S", "-c", code),
                "env": {"PATH": "/usr/bin:/bin", "FLYTUI_CALL_ID": call_id},
                "cwd": str(tmp_path),
                "tool": "test.tool",
                "input": {},
                "project_dir": str(tmp_path),
                "timeout_ms": 60_000,
                **fields,
            }
        )

    return make


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """After the test: no child, no process that names a call of this test run, no descriptor more."""
    prepare_launcher()  # it stays for all children of this process
    children, descriptors = own_children(), set(os.listdir("/proc/self/fd"))
    yield
    assert own_children() <= children
    mark = f"{os.getpid()}-"
    left = [pid for pid in process_table() if environment_value(pid, "FLYTUI_CALL_ID").startswith(mark)]
    assert left == []
    for thread in threading.enumerate():  # told to end with the loop, which each one still holds
        if thread.name.startswith("AnyIO worker"):
            thread.join(30)
    del thread  # the last one would hold its loop
    gc.collect()  # the loop's own descriptors go with the loop; ours are numbers, which nothing collects
    new = set(os.listdir("/proc/self/fd")) - descriptors
    assert [os.readlink(f"/proc/self/fd/{fd}") for fd in new if os.path.exists(f"/proc/self/fd/{fd}")] == []
