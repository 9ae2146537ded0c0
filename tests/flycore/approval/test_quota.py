"""Quota per caller."""

from __future__ import annotations

import pytest

from flycore.approval import quota as guards
from flycore.approval.quota import FixedQuotaLimits, Quota, QuotaRefusal
from flycore.model.enums import Risk


def test_calls_may_come_at_once_and_are_freed_one_by_one(clock) -> None:
    quota = Quota(clock, FixedQuotaLimits(calls_per_minute=3))
    for _ in range(3):
        assert quota.admit("a", Risk.LOW) is None
    refusal = quota.admit("a", Risk.LOW)
    assert refusal.free_in == 20
    assert "free in 20.0 s" in refusal.message
    assert quota.admit("b", Risk.LOW) is None
    clock.advance(15)
    assert quota.admit("a", Risk.LOW).free_in == 5
    clock.advance(5)
    assert quota.admit("a", Risk.LOW) is None
    assert quota.admit("a", Risk.LOW).free_in == 20
    clock.advance(3600)
    assert [quota.admit("a", Risk.LOW) is None for _ in range(4)] == [True, True, True, False]


def test_calls_that_need_a_person_have_a_limit_of_their_own(clock) -> None:
    quota = Quota(clock, FixedQuotaLimits(calls_per_minute=600, asked_per_minute=2))
    assert [quota.admit("a", Risk.LOW, asked=True) is None for _ in range(3)] == [True, True, False]
    refusal = quota.admit("a", Risk.LOW, asked=True)
    assert refusal.message == "2 calls that need a person in the last minute; free in 30.0 s"
    assert all(quota.admit("a", Risk.LOW) is None for _ in range(78))


def test_a_caller_that_goes_on_at_the_limit_is_never_off_by_rounding(clock) -> None:
    quota = Quota(clock, FixedQuotaLimits(calls_per_minute=600))
    for _ in range(600):
        assert quota.admit("a", Risk.LOW) is None
    for _ in range(5_000):
        clock.advance(quota.admit("a", Risk.LOW).free_in)
        assert quota.admit("a", Risk.LOW) is None


def test_refused_calls_do_not_count(clock) -> None:
    quota = Quota(clock, FixedQuotaLimits(calls_per_minute=1))
    assert quota.admit("a", Risk.LOW) is None
    clock.advance(59)
    assert quota.admit("a", Risk.LOW) is not None
    clock.advance(1)
    assert quota.admit("a", Risk.LOW) is None


def test_running_at_once(clock) -> None:
    quota = Quota(clock, FixedQuotaLimits(running=2))
    with quota.running("a"):
        assert quota.admit("a", Risk.LOW) is None
        with quota.running("a"):
            assert quota.admit("a", Risk.LOW).free_in is None
        assert quota.admit("a", Risk.LOW) is None


def test_high_risk_calls_per_session(clock) -> None:
    quota = Quota(clock, FixedQuotaLimits(high_risk_per_session=2))
    assert [quota.admit("a", risk) for risk in (Risk.HIGH, Risk.CRITICAL)] == [None, None]
    clock.advance(3600)
    assert quota.admit("a", Risk.HIGH) is not None
    assert quota.admit("a", Risk.MEDIUM) is None


def test_a_limit_of_none_at_all(clock) -> None:
    refusal = Quota(clock, FixedQuotaLimits(calls_per_minute=0)).admit("a", Risk.LOW)
    assert refusal.free_in is None


def test_callers_are_bounded_and_running_ones_stay(clock) -> None:
    quota = Quota(clock, FixedQuotaLimits(running=1))
    with quota.running("first"):
        for number in range(guards.MAX_CALLERS + 50):
            quota.admit(str(number), Risk.LOW)
        assert quota.admit("first", Risk.LOW) is not None
        assert len(quota._usage) <= guards.MAX_CALLERS
    assert quota.admit("first", Risk.LOW) is None


def test_each_change_is_reported_once(clock) -> None:
    changes: list[tuple[str, QuotaRefusal | None]] = []
    quota = Quota(clock, FixedQuotaLimits(calls_per_minute=1), lambda *change: changes.append(change))
    for _ in range(5):
        quota.admit("a", Risk.LOW)
    assert [caller for caller, _ in changes] == ["a"]
    assert "1 calls in the last minute" in changes[0][1].message
    clock.advance(60)
    quota.admit("a", Risk.LOW)
    assert changes[1:] == [("a", None)]


def test_a_caller_is_free_again_without_a_call_of_its_own(clock) -> None:
    changes: list[tuple[str, QuotaRefusal | None]] = []
    quota = Quota(
        clock, FixedQuotaLimits(calls_per_minute=60, running=1), lambda *change: changes.append(change)
    )
    with quota.running("a"):
        assert quota.admit("a", Risk.LOW) is not None
        assert quota.free_again("a") is None  # no time frees it
        assert len(changes) == 1
    assert changes[1:] == [("a", None)]
    for _ in range(61):
        quota.admit("b", Risk.LOW)
    assert quota.free_again("b") == pytest.approx(1.0)
    clock.advance(1)
    assert quota.free_again("b") is None
    assert changes[3:] == [("b", None)]
