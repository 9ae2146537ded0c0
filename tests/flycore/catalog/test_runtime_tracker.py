"""Which calls move the runtime dimension, and when it comes back."""

from __future__ import annotations

import pytest

from flycore.catalog.runtime import RuntimeTracker
from flycore.model.enums import Code, RuntimeState

MOVING = {
    Code.CRASHED: RuntimeState.FAILED,
    Code.SPAWN: RuntimeState.FAILED,
    Code.TIMEOUT: RuntimeState.TIMED_OUT,
    Code.INVALID_OUTPUT: RuntimeState.SCHEMA_ERROR,
}


@pytest.mark.parametrize("code", [*Code, "no-such-code"])
def test_only_four_codes_move_it(code: str) -> None:
    tracker = RuntimeTracker()
    tracker.note("a", code, 100.0, message="m", stderr_tail="e")
    assert tracker.finding("a", 100.0).state is MOVING.get(code, RuntimeState.READY)
    assert tracker.finding("b", 100.0).state is RuntimeState.READY


def test_evidence_is_the_call_that_moved_it() -> None:
    tracker = RuntimeTracker()
    tracker.note("a", "crashed", 100.0, message="signal 11", stderr_tail="boom")
    tracker.note("a", "failed", 110.0)
    evidence = tracker.finding("a", 111.0).evidence
    assert evidence is not None
    assert (evidence.at, evidence.code, evidence.message, evidence.stderr_tail) == (
        100.0,
        "crashed",
        "signal 11",
        "boom",
    )


def test_good_call_clears_it() -> None:
    tracker = RuntimeTracker()
    tracker.note("a", "timeout", 100.0)
    tracker.note("a", "", 101.0)
    assert tracker.finding("a", 101.0).state is RuntimeState.READY


def test_minute_without_a_call_clears_it() -> None:
    tracker = RuntimeTracker()
    tracker.note("a", "spawn", 100.0)
    assert tracker.finding("a", 159.9).state is RuntimeState.FAILED
    assert tracker.finding("a", 160.0).state is RuntimeState.READY
    assert (tracker.next_change(100.0), tracker.next_change(160.0)) == (160.0, None)


def test_another_call_keeps_the_minute_running() -> None:
    tracker = RuntimeTracker()
    tracker.note("a", "spawn", 100.0)
    tracker.note("a", "exit", 150.0)
    assert tracker.finding("a", 200.0).state is RuntimeState.FAILED
    assert tracker.finding("a", 210.0).state is RuntimeState.READY


def test_clock_that_goes_back() -> None:
    tracker = RuntimeTracker()
    tracker.note("a", "crashed", 100.0)
    assert tracker.finding("a", 50.0).state is RuntimeState.FAILED
