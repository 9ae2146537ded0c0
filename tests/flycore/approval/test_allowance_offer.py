"""The allowance that a card offers after ten approvals: no wider than what was approved one by one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flycore.approval.allowance_offer import OFFERED_AFTER, WINDOW_SECONDS, allowance_offer
from flycore.approval.leases import LeaseStore
from flycore.model.approval import Answer, ApprovalRequest, Ask, LeaseTerms
from flycore.model.enums import Choice, LeaseScope, RequestState, Risk
from flycore.model.json import JsonObject
from kits.tables import each_row
from kits.values import CALLER, request_of

NOW = 1_000_000.0
ONCE = Answer(choice=Choice.APPROVE_ONCE)


class Clock:
    """A clock that stands still."""

    def now(self) -> float:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def asked(id: str = "new", input: JsonObject | None = None, **more: Any) -> ApprovalRequest:
    fields = {"tool": "web.fetch", "risk": Risk.MEDIUM, "letter": "", **more}
    return request_of(id, input=input or {"url": f"https://a.example/{id}", "limit": 5}, **fields)


def approved(request: ApprovalRequest, ago: float = 60.0, **more: Any) -> Ask:
    made = Ask(request=request, state=RequestState.APPROVED, answer=ONCE, decided_at=NOW - ago)
    return msgspec.structs.replace(made, **more)


def ten(**more: Any) -> list[Ask]:
    return [approved(asked(str(n), **more), ago=60.0 * (n + 1)) for n in range(OFFERED_AFTER)]


def test_ten_approvals_offer_the_shortest_time_their_number_and_what_they_have_in_common() -> None:
    offer = allowance_offer(asked(), ten(), NOW)
    assert offer is not None
    assert offer.terms == LeaseTerms(
        minutes=15,
        calls=10,
        scope=LeaseScope.TOOL,
        condition={"properties": {"limit": {"const": 5}}, "required": ["limit"]},
    )
    assert [ask.request.id for ask in offer.covered] == [str(n) for n in range(10)]


@pytest.mark.parametrize(("last", "minutes"), [(200.0, 5), (301.0, 15), (1_000.0, 60), (3_599.0, 60)])
def test_the_time_is_the_shortest_that_is_as_long(last: float, minutes: int) -> None:
    asks = [approved(asked(str(n)), ago=last if n == 9 else 1.0) for n in range(10)]
    offer = allowance_offer(asked(), asks, NOW)
    assert offer is not None
    assert offer.terms.minutes == minutes


def test_one_host_is_narrower_than_the_tool() -> None:
    offer = allowance_offer(asked(host="a.example"), ten(host="a.example"), NOW)
    assert offer is not None
    assert offer.terms.scope is LeaseScope.HOST
    mixed = [*ten(host="a.example")[:9], approved(asked("x", host="b.example"))]
    offer = allowance_offer(asked(host="a.example"), mixed, NOW)
    assert offer is not None
    assert offer.terms.scope is LeaseScope.TOOL


@each_row(
    "other",
    [
        approved(asked("x", caller=msgspec.structs.replace(CALLER, pid=7))),
        approved(asked("x", tool="web.extract")),
        approved(asked("x"), ago=WINDOW_SECONDS + 1),
        approved(asked("x"), state=RequestState.DENIED),
        approved(asked("x"), answer=Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=2))),
        approved(asked("x"), answer=None),
        approved(asked("x", risk=Risk.HIGH)),
        approved(asked("x", input={"url": "x" * 3_000, "limit": 5})),
    ],
)
def test_nine_and_one_that_does_not_count_offer_nothing(other: Ask) -> None:
    assert allowance_offer(asked(), [*ten()[:9], other], NOW) is None
    assert allowance_offer(asked(), [*ten(), other], NOW) is not None


def test_a_program_that_changed_since_does_not_count() -> None:
    subject = msgspec.structs.replace(asked().subject, seal="9" * 64)
    changed = asked(subject=subject, subject_digest=subject.digest())
    assert allowance_offer(changed, ten(), NOW) is None


def test_equal_in_python_is_not_equal_in_json_and_masked_values_are_not_pinned() -> None:
    asks = [approved(asked(str(n), input={"flag": 1, "secret": "s"})) for n in range(10)]
    offer = allowance_offer(asked(input={"flag": True, "secret": "s"}, masked=("/secret",)), asks, NOW)
    assert offer is not None
    assert offer.terms.condition is None


@pytest.mark.parametrize("host", ["", "a.example"])
def test_the_lease_covers_exactly_what_was_listed(host: str) -> None:
    request = asked(host=host)
    offer = allowance_offer(request, ten(host=host), NOW)
    assert offer is not None
    leases = LeaseStore(Clock())
    leases.add(request, offer.terms)
    for ask in offer.covered:
        assert leases.match(ask.request.subject, ask.request.risk) is not None
    other = asked("x", input={"url": "https://a.example/x", "limit": 6})
    assert leases.match(other.subject, other.risk) is None


def test_a_call_that_gets_no_lease_gets_no_offer() -> None:
    critical = asked(risk=Risk.CRITICAL, letter="cfgi")
    assert allowance_offer(critical, ten(), NOW) is None
