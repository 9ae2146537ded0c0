"""Many calls at once on a root without a kernel: one of them starts it, and each is answered."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from kits.command_line import LONGEST, REGISTRY, Desk

CROWD = 30
LATECOMERS = 10


@pytest.fixture
def crowded(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path / "project", tmp_path / "home")
    desk.root.mkdir()
    desk.home.mkdir()
    sidecars = {"try.local": REGISTRY["sidecars"]["try.local"]}
    desk.write({"schemaVersion": 2, "sidecars": sidecars})
    desk.allow()
    settings = {
        "schemaVersion": 1,
        "quota": {"callsPerMinute": 1000, "running": 100},
        "kernel": {"idleMinutes": 0},
    }
    (desk.home / "config" / "flytui" / "config.jsonc").write_text(json.dumps(settings))
    desk.trust()
    return desk


def test_every_one_of_thirty_calls_without_a_kernel_is_answered(crowded: Desk) -> None:
    words = [["call", "try.echo", f"message={number}", "--json"] for number in range(CROWD)]
    calls = [crowded.start(*one) for one in words[:-LATECOMERS]]
    # The others come while kernels of the first ones leave, which nobody uses any more.
    for number, one in enumerate(words[-LATECOMERS:]):
        calls[number].wait(LONGEST)
        calls.append(crowded.start(*one))
    told = [json.loads(call.communicate(timeout=LONGEST)[0]) for call in calls]
    assert Counter(one["status"] for one in told) == {"success": CROWD}, [
        one for one in told if one["status"] != "success"
    ][:2]
    assert {one["output"]["echo"]["message"] for one in told} == {str(number) for number in range(CROWD)}
