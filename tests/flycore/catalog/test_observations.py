"""What is noted of sidecars, which facts hold how long, and which of them the catalog has to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flycore.catalog.observations import (
    MOST_REMEMBERED,
    NO_OBSERVATION,
    Answer,
    CallEnd,
    Observation,
    Observations,
    Surroundings,
    UnavailableAnswer,
    still_holding,
)
from flycore.catalog.probes import ProbeFinding
from flycore.model.enums import Code, PathState, ProbeState, ReasonCode, RuntimeState, Source
from flycore.model.program import ResolvedProgram
from flycore.model.refusals import Refusals, RefusedPath
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.model.stability import ProbeEvidence, Reason
from flycore.model.upstream import McpToolList, ToolDefinition

MOVING = {
    Code.CRASHED: RuntimeState.FAILED,
    Code.SPAWN: RuntimeState.FAILED,
    Code.TIMEOUT: RuntimeState.TIMED_OUT,
    Code.INVALID_OUTPUT: RuntimeState.SCHEMA_ERROR,
}
REFUSED = Refusals(paths=(RefusedPath(path="data.json"),))
SAID = UnavailableAnswer(message="no engine", hint="start it")
LISTING = McpToolList(tools=(ToolDefinition(name="do", input_schema={}),))
HEALTHY = ProbeFinding(state=ProbeState.HEALTHY, evidence=ProbeEvidence(at=1.0))
DOWN = ProbeFinding(
    state=ProbeState.UNAVAILABLE,
    reason=Reason(code=ReasonCode.PROBE_UNAVAILABLE, dimension="probe", message="down", remedy="start it"),
)
SILENT = ProbeFinding(
    state=ProbeState.DEGRADED,
    reason=Reason(code=ReasonCode.SCHEMA_UNKNOWN, dimension="probe", message="silent", remedy="ask"),
)
MakeEntry = Callable[..., SidecarEntry]


class Noted:
    """Observations of one entry, and how often the catalog had to be built again for them."""

    def __init__(self, entry: SidecarEntry) -> None:
        self.entry = entry
        self.store = Observations()
        self.programs: Mapping[str, ResolvedProgram] = {}
        self.news = 0
        self.store.on_news = self._count

    def _count(self) -> None:
        self.news += 1

    def call(self, at: float, code: str = "", **fields: Any) -> None:
        """Note the end of a call of its tool."""
        ended: dict[str, Any] = {"tool": "file.hash", "succeeded": not code, "code": code}
        self.store.note(self.entry, CallEnd(at=at, **(ended | fields)))

    def answer(self, finding: ProbeFinding, **fields: Any) -> None:
        self.store.note(self.entry, Answer(finding=finding, **fields))

    def at(self, now: float) -> Observation:
        """What holds at that time for the entry as it is now."""
        seen = self.store.current.get(self.entry.id, NO_OBSERVATION)
        return still_holding(seen, self.entry, self.programs, now)

    def settle(self, shown: Mapping[str, Observation] | None = None) -> None:
        """A state shows what was noted by now, or only that."""
        registry = Registry(app_root="/root", config_dir="/config", workspace="/root", entries=(self.entry,))
        self.store.settle(shown or self.store.current, registry, lambda _: self.programs, 0.0)


@pytest.fixture
def noted(make_entry: MakeEntry) -> Noted:
    return Noted(make_entry())


# The failures of calls.


@pytest.mark.parametrize("code", [*Code, "no-such-code"])
def test_only_four_codes_move_the_runtime(noted: Noted, code: str) -> None:
    noted.call(100.0, code, message="m", stderr_tail="e")
    assert noted.at(100.0).runtime is MOVING.get(
        Code(code) if code in set(Code) else code, RuntimeState.READY
    )
    assert noted.news == (code in MOVING)


def test_evidence_is_the_call_that_moved_it(noted: Noted) -> None:
    noted.call(100.0, "crashed", message="signal 11", stderr_tail="boom")
    noted.call(110.0, "failed")
    failure = noted.at(111.0).failure
    assert failure is not None
    found = failure.evidence
    assert (found.at, found.code, found.message, found.stderr_tail) == (100.0, "crashed", "signal 11", "boom")


def test_good_call_clears_a_failure(noted: Noted) -> None:
    noted.call(100.0, "timeout")
    noted.call(101.0)
    assert noted.at(101.0).runtime is RuntimeState.READY
    assert noted.news == 2


def test_minute_without_a_call_clears_a_failure(noted: Noted) -> None:
    noted.call(100.0, "spawn")
    assert noted.at(159.9).runtime is RuntimeState.FAILED
    assert noted.at(160.0).runtime is RuntimeState.READY
    assert (noted.store.next_change(100.0), noted.store.next_change(160.0)) == (160.0, None)


def test_another_call_keeps_the_minute_running(noted: Noted) -> None:
    noted.call(100.0, "spawn")
    noted.call(150.0, "exit")
    assert noted.at(200.0).runtime is RuntimeState.FAILED
    assert noted.at(210.0).runtime is RuntimeState.READY
    noted.call(220.0, "exit")
    assert noted.at(221.0).runtime is RuntimeState.READY


def test_clock_that_goes_back(noted: Noted) -> None:
    noted.call(100.0, "crashed")
    assert noted.at(50.0).runtime is RuntimeState.FAILED


@pytest.mark.parametrize("fields", [{}, {"listing": LISTING}, {"programs": {}}])
def test_healthy_answer_clears_a_failure(noted: Noted, fields: dict[str, Any]) -> None:
    noted.call(100.0, "crashed")
    noted.answer(DOWN)
    assert noted.at(100.0).runtime is RuntimeState.FAILED
    noted.answer(HEALTHY, **fields)
    assert noted.at(100.0).runtime is RuntimeState.READY


# What the last calls of each tool met.


@pytest.mark.parametrize("fact", [{"refusals": REFUSED}, {"unavailable": SAID}])
def test_a_fact_of_a_tool_holds_until_a_call_of_it_succeeds(noted: Noted, fact: dict[str, Any]) -> None:
    (kind,) = fact
    noted.call(1.0, "failed", **fact)
    noted.call(2.0, "failed", **fact)
    noted.call(3.0, "failed")
    noted.call(4.0, tool="file.other")
    assert (getattr(noted.at(4.0), kind), noted.news) == ({"file.hash": fact[kind]}, 1)
    noted.call(5.0)
    assert (getattr(noted.at(5.0), kind), noted.news) == ({}, 2)


def test_what_a_tool_said_is_cut(noted: Noted) -> None:
    noted.call(1.0, "unavailable", unavailable=UnavailableAnswer(message="m" * 999, hint="h" * 999))
    said = noted.at(1.0).unavailable["file.hash"]
    assert (len(said.message), len(said.hint)) == (400, 400)


def test_only_a_probe_of_just_now_clears_what_a_tool_said(noted: Noted) -> None:
    fresh = msgspec.structs.replace(HEALTHY, fresh=True)
    noted.call(1.0, "unavailable", unavailable=SAID)
    noted.answer(HEALTHY, programs={})
    noted.answer(fresh, listing=LISTING)
    assert noted.at(1.0).unavailable
    noted.answer(fresh, programs={})
    assert not noted.at(1.0).unavailable
    noted.call(2.0, "unavailable", unavailable=SAID)
    noted.store.forget_unavailable("utility.local")
    assert not noted.at(2.0).unavailable


def test_a_run_that_could_not_be_confined_is_always_news(noted: Noted) -> None:
    for at in (1.0, 2.0):
        noted.call(at, ReasonCode.SANDBOX_UNAVAILABLE)
    assert noted.news == 2


# Answers.


def test_a_server_that_is_lost_keeps_the_tools_it_listed(noted: Noted) -> None:
    noted.answer(HEALTHY, listing=LISTING)
    noted.answer(DOWN)
    assert noted.at(1.0).answer == Answer(finding=DOWN, listing=LISTING)
    noted.answer(SILENT)
    assert noted.at(1.0).answer == Answer(finding=SILENT)


def test_the_same_answer_is_no_news(noted: Noted) -> None:
    noted.answer(HEALTHY, listing=LISTING)
    noted.settle()
    noted.answer(HEALTHY, listing=LISTING)
    assert (noted.news, noted.store.has_unshown) == (1, False)


def test_the_surroundings_are_those_of_the_last_question(noted: Noted) -> None:
    asked, later = Surroundings("one", 1.0), Surroundings("two", 2.0)
    noted.answer(HEALTHY, programs={}, surroundings=later)  # from the cache of an earlier kernel
    assert noted.at(1.0).answer == Answer(finding=HEALTHY, programs={})
    fresh = msgspec.structs.replace(HEALTHY, fresh=True)
    noted.answer(fresh, programs={}, surroundings=asked)
    noted.answer(HEALTHY, programs={}, surroundings=later)
    assert noted.at(1.0).answer == Answer(finding=HEALTHY, programs={}, surroundings=asked)


# Which facts hold.


def everything(noted: Noted) -> None:
    noted.answer(HEALTHY, programs=noted.programs)
    noted.call(1.0, "crashed", refusals=REFUSED, unavailable=SAID)


@pytest.mark.parametrize("change", [{"digest": "other"}, {"source": Source.USER}])
def test_only_a_failure_outlives_the_entry(noted: Noted, change: dict[str, Any]) -> None:
    everything(noted)
    before = noted.at(1.0)
    assert before.answer
    assert before.refusals
    assert before.unavailable
    old = noted.entry
    noted.entry = msgspec.structs.replace(old, **change)
    assert noted.at(1.0) == Observation(failure=before.failure)
    noted.settle()
    noted.store.note(old, Answer(finding=DOWN))
    noted.entry = old
    assert noted.at(1.0) == Observation(failure=before.failure)


def test_an_answer_of_a_program_does_not_outlive_it(
    noted: Noted, make_program: Callable[..., ResolvedProgram]
) -> None:
    noted.programs = {"": make_program()}
    everything(noted)
    assert noted.at(1.0).is_probed
    noted.programs = {"": make_program(PathState.UNRESOLVED)}
    found = noted.at(1.0)
    assert found.answer is None
    assert found.refusals
    noted.answer(HEALTHY, listing=LISTING)
    assert noted.at(1.0).answer


def test_what_is_noted_while_a_state_is_built_is_not_shown_by_it(noted: Noted) -> None:
    noted.answer(DOWN)
    shown = noted.store.current
    noted.answer(HEALTHY, listing=LISTING)
    noted.settle(shown)
    assert noted.store.has_unshown
    noted.settle()
    assert not noted.store.has_unshown
    assert noted.at(1.0).answer == Answer(finding=HEALTHY, listing=LISTING)


# Which calls need an observer.


def test_a_call_is_observed_until_one_like_it_succeeds(make_entry: MakeEntry, tmp_path: Path) -> None:
    file, entry = tmp_path / "observed.json", make_entry()
    store = Observations(file)

    def note(succeeded: bool, tool: str = "it.do") -> None:
        store.note(entry, CallEnd(tool=tool, at=1.0, succeeded=succeeded, seal="seal"))

    def known(found: Observations, one: SidecarEntry = entry, tool: str = "it.do") -> bool:
        return found.has_succeeded(one, tool, "seal")

    assert not known(store)
    note(True)
    assert (known(store), store.is_saved) == (True, False)
    assert not known(store, make_entry(digest="changed"))
    store.save()
    note(True)
    assert store.is_saved
    assert known(Observations(file))
    (tmp_path / "broken.json").write_text('{"a": 1')
    assert not known(Observations(tmp_path / "broken.json"))
    note(False)
    assert (known(store), store.is_saved) == (False, False)
    for number in range(MOST_REMEMBERED + 1):
        note(True, f"it.do{number}")
    assert (known(store, tool="it.do0"), known(store, tool="it.do1")) == (False, True)
