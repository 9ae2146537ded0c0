"""Quota per caller."""

from __future__ import annotations

from flycore.approval import quota as guards
from flycore.approval.quota import FixedQuotaLimits, Quota
from flycore.model.enums import Risk


def test_a_minute_s_calls_slide(clock) -> None:
    quota = Quota(clock, FixedQuotaLimits(calls_per_minute=3))
    for _ in range(3):
        assert quota.admit("a", Risk.LOW) is None
        clock.advance(10)
    refusal = quota.admit("a", Risk.LOW)
    assert refusal.free_in == 30
    assert "free in 30 s" in refusal.message
    assert quota.admit("b", Risk.LOW) is None
    clock.advance(30)
    assert quota.admit("a", Risk.LOW) is None
    assert quota.admit("a", Risk.LOW).free_in == 10


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
    changes: list[tuple[str, str]] = []
    quota = Quota(clock, FixedQuotaLimits(calls_per_minute=1), lambda *change: changes.append(change))
    for _ in range(5):
        quota.admit("a", Risk.LOW)
    assert [caller for caller, _ in changes] == ["a"]
    assert "1 calls in the last minute" in changes[0][1]
    clock.advance(60)
    quota.admit("a", Risk.LOW)
    assert changes[1:] == [("a", "")]
