"""S4: kill -9 of stub, forker, the process that works for the stub, and kernel, at random moments of a call.

Whatever dies, the stub ends, no process is left, the call has at most one start and one end in the log, and
the next command works.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from flycore.audit.verify import verify
from flycore.registry.paths import find_paths
from flysafe.procfs import children_of
from flytui.forked.address import forker_socket, is_confined
from kits.command_line import LONGEST, Desk, until
from kits.console_processes import gone
from kits.forked import accepts, forker_of
from kits.kernels import kernel_of

pytestmark = [pytest.mark.suite, pytest.mark.long, pytest.mark.timeout(1800)]
DEATHS = 100 if os.environ.get("FLYTUI_SUITES") == "full" else 4
LATEST_S = 0.4
"""The last moment of a death. A call takes about half of it."""
ENDS = {"TOOL_EXECUTED", "TOOL_OUTCOME_UNKNOWN"}


class Scene:
    """A root whose kernel a command starts, with everything that a stub needs."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.stub = 0

    def prepare(self) -> None:
        """Have a kernel and a forker run."""
        if not accepts(Path(forker_socket(self.desk.environ))) or self.kernel() is None:
            if is_confined():
                pytest.skip("NOT TESTED, this process may be confined (NoNewPrivs), so nothing is forked")
            done = subprocess.run(
                self.desk.argv("catalog", "--json"), env=self.desk.environ, cwd=self.desk.root,
                capture_output=True, timeout=LONGEST, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            until("the forker serves", lambda: accepts(Path(forker_socket(self.desk.environ))))

    def kernel(self) -> int | None:
        return kernel_of(self.desk.home / "state")

    def forker(self) -> int | None:
        return forker_of(self.desk.environ)

    def worker(self) -> int | None:
        forker = self.forker()
        return None if forker is None else next(iter(children_of(forker)), None)

    def lines(self) -> list[dict[str, object]]:
        places = find_paths(str(self.desk.root), None, self.desk.environ, self.desk.root)
        files = sorted(places.audit_dir.glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


VICTIMS: dict[str, Callable[[Scene], int | None]] = {
    "stub": lambda scene: scene.stub,
    "worker": Scene.worker,
    "forker": Scene.forker,
    "kernel": Scene.kernel,
}


@pytest.mark.parametrize("victim", VICTIMS)
def test_kill_at_random_moments(trusted: Desk, victim: str) -> None:
    scene = Scene(trusted)
    dice = random.Random(f"{victim} {DEATHS}")
    for _ in range(DEATHS):
        scene.prepare()
        kernel, worker = scene.kernel(), None
        process = subprocess.Popen(
            [sys.executable, "-m", "flytui", "call", "try.echo", '{"message": "x", "delayMs": 150}'],
            env=trusted.environ, cwd=trusted.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        scene.stub = process.pid
        time.sleep(dice.uniform(0.0, LATEST_S))  # the moment is what is tried
        worker = scene.worker()
        with suppress(ProcessLookupError):
            if (pid := VICTIMS[victim](scene)) is not None:
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=LONGEST)
        until("nobody works for it", lambda worker=worker: worker is None or gone(worker))
        assert victim in ("kernel",) or scene.kernel() == kernel
    scene.prepare()
    until("no call runs", lambda: trusted.document("status")["kernel"]["running"] == 0)
    places = find_paths(str(trusted.root), None, trusted.environ, trusted.root)
    assert verify(places.audit_dir, places.anchors_file).whole
    starts = Counter(str(line["callId"]) for line in scene.lines() if line["event"] == "TOOL_STARTED")
    ends = Counter(str(line["callId"]) for line in scene.lines() if line["event"] in ENDS)
    assert set(starts.values()) <= {1}
    assert {call: ends[call] for call in starts} == dict.fromkeys(starts, 1)
    left = [line for line in trusted.survivors() if "flytui.forked" not in line]
    assert left == []
