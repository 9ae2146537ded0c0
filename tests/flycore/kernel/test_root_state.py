"""The state of a root follows from its files, from trust, and from what was seen of its sidecars alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from flycore.catalog.observations import Answer, CallEnd, Observation, Observations
from flycore.catalog.probes import ProbeFinding
from flycore.kernel.load_state import find_environment, read_files
from flycore.kernel.root_state import root_state
from flycore.kernel.trust import Trust
from flycore.model.enums import Effective, ProbeState, ReasonCode, RuntimeState, SandboxState
from flycore.model.stability import ProbeEvidence, Reason
from flycore.pipeline.context import Files, RootState
from kits.kernel import ECHO, Root

NOW = 1_700_000_000.0
DOWN = ProbeFinding(
    state=ProbeState.UNAVAILABLE,
    reason=Reason(code=ReasonCode.PROBE_UNAVAILABLE, dimension="probe", message="down", remedy="start it"),
    evidence=ProbeEvidence(at=NOW),
)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("own", ECHO)
    root.sidecar("other", ECHO)
    return root


class Read:
    """The files of a root and the trust in them, as they are now."""

    def __init__(self, root: Root) -> None:
        self.environment = find_environment(root.places, root.environ)
        self.declared: Files = read_files(self.environment, None)
        self.trust = Trust.load(root.places)

    def accept(self, *sidecars: str) -> None:
        """Trust these entries as they are now."""
        entries = (self.declared.registry.entry(sidecar) for sidecar in sidecars)
        pairs = tuple((entry.id, entry.digest) for entry in entries if entry is not None)
        assert self.trust.entries.accept(pairs, self.declared.registry, NOW).accepted

    def state(self, seen: Mapping[str, Observation] | None = None, now: float = NOW) -> RootState:
        return root_state(self.environment, self.declared, self.trust, seen or {}, now)


def effective(state: RootState, sidecar: str = "own") -> Effective:
    return state.index[f"{sidecar}.do"].stability.effective


def test_equal_inputs_give_equal_states(root: Root) -> None:
    first, second = Read(root), Read(root)
    assert msgspec.json.encode(first.state().catalog) == msgspec.json.encode(second.state().catalog)
    assert first.declared.trusted == frozenset()


def test_only_what_is_trusted_may_run(root: Root) -> None:
    read = Read(root)
    assert effective(read.state()) is Effective.UNAVAILABLE
    read.accept("own")
    state = read.state()
    assert (effective(state), effective(state, "other")) == (Effective.AVAILABLE, Effective.UNAVAILABLE)
    assert state.files.trusted == {"own"}


def test_a_changed_entry_leaves_its_trusted_value_in_force(root: Root) -> None:
    read = Read(root)
    read.accept("own")
    root.sidecars["own"]["timeoutMs"] = 7_777
    root.write()
    state = Read(root).state()
    entry = state.files.registry.entry("own")
    assert entry is not None
    assert entry.timeout_ms != 7_777
    assert any("7777" in line for line in state.files.changed["own"])
    view = state.catalog.sidecar("own")
    assert view is not None
    assert view.changed == state.files.changed["own"]
    assert effective(state) is Effective.AVAILABLE


def test_a_blocked_tool_is_refused(root: Root) -> None:
    read = Read(root)
    read.accept("own")
    read.trust.blocks.block("own.do", NOW)
    stability = read.state().index["own.do"].stability
    assert (stability.sandbox, stability.reasons[0].code) == (SandboxState.DENIED, ReasonCode.BLOCKED)


def test_observations_count_while_they_hold(root: Root) -> None:
    read, observations = Read(root), Observations()
    read.accept("own", "other")
    own, other = (read.declared.registry.entry(sidecar) for sidecar in ("own", "other"))
    assert own is not None
    assert other is not None
    observations.note(own, Answer(finding=DOWN, programs=read.declared.resolutions("own")))
    observations.note(other, CallEnd(tool="other.do", at=NOW, succeeded=False, code="crashed"))
    state = read.state(observations.current)
    assert (effective(state), effective(state, "other")) == (Effective.UNAVAILABLE, Effective.DEGRADED)
    assert state.index["other.do"].stability.runtime is RuntimeState.FAILED
    later = read.state(observations.current, NOW + 60)
    assert (effective(later), effective(later, "other")) == (Effective.UNAVAILABLE, Effective.AVAILABLE)
    (root.folder / "tools" / "bin-own" / "run").chmod(0o644)
    moved = Read(root).state(observations.current).index["own.do"].stability
    assert (moved.effective, moved.probe) == (Effective.UNAVAILABLE, None)
    root.sidecar("own", ECHO, config={"changed": True})
    changed = Read(root)
    changed.accept("own")
    assert effective(changed.state(observations.current)) is Effective.AVAILABLE


@pytest.mark.parametrize("name", ["trust_file", "definitions_file", "blocks_file"])
def test_decisions_that_cannot_be_read_are_said(root: Root, name: str) -> None:
    file: Path = getattr(root.places, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{")
    found = [item for item in Read(root).state().catalog.diagnostics if item.position is not None]
    assert [item.position.file for item in found if item.position] == [str(file)]
