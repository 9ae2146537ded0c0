"""Thirty `flytui call` at once in a folder without a console: one of them starts the kernel, the others find
it, and each is answered exactly once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kits.kernel import tool
from kits.kernels import end_kernels
from kits.terminals import PATIENCE, make_root

FULL = os.environ.get("FLYTUI_SUITES") == "full"
ROUNDS = 50 if FULL else 2
CALLS = 30
COUNTS = """#!/bin/sh
read -r request
printf 'x' >> {base}/calls
printf '{{"ok": true}}\\n'
"""

pytestmark = [pytest.mark.suite, pytest.mark.timeout(3_600 if FULL else 300)]


def test_thirty_calls_at_once_are_all_answered_and_run_once(tmp_path: Path) -> None:
    entry = {
        "command": "./tools/bin/run",
        "cwd": "empty",
        "permissions": {"fs": {"write": [str(tmp_path)]}},
        "tools": [tool("count.up")],
    }
    root = make_root(tmp_path, json.dumps({"schemaVersion": 2, "sidecars": {"count": entry}}))
    program = root.folder / "tools" / "bin" / "run"
    program.parent.mkdir(parents=True)
    program.write_text(COUNTS.format(base=tmp_path))
    program.chmod(0o755)
    config = root.home / "config" / "flytui"
    config.mkdir(parents=True, exist_ok=True)
    allow = {"tool": "count.up", "decision": "allow", "because": "test"}
    (config / "policy.jsonc").write_text(json.dumps({"schemaVersion": 1, "rules": [allow]}))
    # Thirty calls are one caller's: the test's own process. Its quota is not what is tested here.
    quota = {"callsPerMinute": 100_000, "running": CALLS}
    (config / "config.jsonc").write_text(json.dumps({"quota": quota}))
    root.trust()
    try:
        for number in range(ROUNDS):
            end_kernels(tmp_path)
            started = [root.start("call", "count.up", "{}", "--json") for _ in range(CALLS)]
            ended = [process.communicate(timeout=4 * PATIENCE) for process in started]
            root.started.clear()
            wrong = [
                (process.returncode, out[-400:], err[-400:])
                for process, (out, err) in zip(started, ended, strict=True)
                if process.returncode != 0 or json.loads(out)["status"] != "success"
            ]
            assert not wrong, (number, len(wrong), wrong[:3])
            assert (tmp_path / "calls").stat().st_size == (number + 1) * CALLS
    finally:
        root.end()
