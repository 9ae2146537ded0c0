"""The levels of the sandbox, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flycore.model.enums import Level
from flycore.sandbox import bubblewrap
from flycore.sandbox.detection import detection
from kits.programs import needs_bubblewrap, needs_landlock


@pytest.fixture
def tried_anew() -> Iterator[None]:
    """Whatever a test does to bwrap, the next one tries it again."""
    detection.expire()
    yield
    detection.expire()


@pytest.fixture(params=[Level.ENFORCED, Level.DEGRADED])
def level(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tried_anew: None
) -> Level:
    """Each level that confines, where this machine has what it needs."""
    wanted: Level = request.param
    if wanted is Level.ENFORCED:
        needs_bubblewrap()
    else:
        needs_landlock()
        monkeypatch.setattr(bubblewrap, "PROGRAM", str(tmp_path / "no-bwrap"))
    return wanted
