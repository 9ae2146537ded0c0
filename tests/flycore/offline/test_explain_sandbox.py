"""The limits of a tool, said without starting it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flycore.model.enums import Level
from flycore.offline.sandbox import explain_sandbox
from flycore.sandbox.detection import detection
from kits.kernel import ECHO, Root

FILES = {"fs": {"read": ["docs", "${input.dir}"], "write": ["out"]}}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    made = Root(tmp_path)
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    return made


def test_a_confined_tool_has_its_declared_paths_and_its_sealed_program(root: Root) -> None:
    level = detection.support().best
    if level is Level.NONE:
        pytest.skip("no sandbox works on this machine")
    root.sidecar("it", ECHO, permissions=FILES)
    found = explain_sandbox(root.places, "it.do")
    assert found is not None
    assert (found.sidecar, found.report.level, found.least) == ("it", level, Level.DEGRADED)
    assert (found.problem, found.network, found.by_input) == ("", False, ("${input.dir}",))
    reached = {os.path.relpath(item.path, root.folder): item for item in found.paths}
    assert not reached["docs"].writable
    assert reached["out"].writable
    if level is Level.ENFORCED:
        assert reached["tools/bin-it"].sealed
    assert not (root.folder / "out").exists()  # nothing is made for an explanation


def test_what_is_not_confined_has_no_paths(root: Root) -> None:
    root.sidecar("open", ECHO, permissions={"desktop": True})
    found = explain_sandbox(root.places, "open.do")
    assert found is not None
    assert (found.report.level, found.least, found.paths) == (Level.HOST_CONTROL, Level.NONE, ())


def test_what_cannot_be_granted_is_told(root: Root) -> None:
    if detection.support().best is not Level.ENFORCED:
        pytest.skip("no level here shows a sealed copy in its own place")
    root.sidecar("it", ECHO, permissions={"fs": {"write": ["tools/bin-it/data"]}})
    found = explain_sandbox(root.places, "it.do")
    assert found is not None
    assert "sealed" in found.problem
    assert found.paths == ()


def test_a_tool_that_nobody_offers_has_none(root: Root) -> None:
    assert explain_sandbox(root.places, "nobody.does") is None
