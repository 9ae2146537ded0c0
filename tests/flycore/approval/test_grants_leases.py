"""Grants work once for exactly what was approved; leases end when anything they rest on changes."""

from __future__ import annotations

import anyio
import msgspec
import pytest

from flycore.approval.desktop_control import DesktopControl
from flycore.approval.exclusive_groups import GroupLocks
from flycore.approval.grants import GRANT_SECONDS, GrantStore
from flycore.approval.leases import MAX_GROWTH_BYTES, LeaseStore, scope_digest
from flycore.approval.queue import ApprovalQueue
from flycore.approval.requests import QueueLimits
from flycore.model.approval import LeaseTerms, Preview
from flycore.model.enums import Level, Risk

FIVE = LeaseTerms(minutes=5, calls=3)


@pytest.fixture
def grants(clock) -> GrantStore:
    return GrantStore(clock, lambda lease: lease == "holding")


def test_a_grant_works_once(grants) -> None:
    grants.issue("g", "digest")
    assert grants.redeem("g", "digest").accepted
    again = grants.redeem("g", "digest")
    assert not again.accepted
    assert again.why_not


def test_a_grant_for_something_else_is_void_afterwards(grants) -> None:
    grants.issue("g", "digest")
    assert not grants.redeem("g", "other").accepted
    assert not grants.redeem("g", "digest").accepted


def test_a_grant_expires_but_not_while_its_call_waits_for_a_group(grants, clock) -> None:
    grants.issue("g", "digest")
    clock.advance(GRANT_SECONDS - 1)
    with grants.paused("g"):
        clock.advance(1000)
    grants.issue("other", "digest")
    clock.advance(0.5)
    assert grants.redeem("g", "digest").accepted
    clock.advance(GRANT_SECONDS)
    assert not grants.redeem("other", "digest").accepted


def test_standing_still_revives_nothing(grants, clock) -> None:
    grants.issue("g", "digest")
    clock.advance(GRANT_SECONDS)
    with grants.paused("g"), grants.paused("none"):
        clock.advance(1)
    assert not grants.redeem("g", "digest").accepted


def test_a_grant_voided_while_it_stands_still_stays_void(grants) -> None:
    grants.issue("g", "digest")
    with grants.paused("g"):
        grants.void("g")
    assert not grants.redeem("g", "digest").accepted


def test_a_newer_grant_of_the_same_id_replaces_the_older(grants) -> None:
    grants.issue("g", "old")
    grants.issue("g", "new")
    assert not grants.redeem("g", "old").accepted


@pytest.mark.parametrize(("lease", "accepted"), [("holding", True), ("ended", False)])
def test_a_grant_from_a_lease_needs_the_lease(grants, lease: str, accepted: bool) -> None:
    grants.issue("g", "digest", lease)
    assert grants.redeem("g", "digest").accepted is accepted


@pytest.fixture
def leases(clock) -> LeaseStore:
    return LeaseStore(clock)


def test_a_lease_counts_the_approved_call_as_its_first(leases, make_request) -> None:
    request = make_request()
    lease = leases.add(request, FIVE)
    assert lease.calls_left == 2
    for left in (1, 0):
        assert leases.match(request.subject, request.risk).id == lease.id
        assert leases.take(lease.id).calls_left == left
    assert leases.match(request.subject, request.risk) is None
    assert leases.take(lease.id) is None
    assert leases.active() == ()
    assert leases.is_active(lease.id)


def test_a_lease_ends_with_its_time(leases, make_request, clock) -> None:
    request = make_request()
    lease = leases.add(request, FIVE)
    assert lease.expires_at - lease.created_at == 300
    clock.advance(299)
    assert leases.match(request.subject, request.risk) is not None
    clock.advance(1)
    assert leases.match(request.subject, request.risk) is None
    assert not leases.is_active(lease.id)
    assert not leases.revoke(lease.id)


@pytest.mark.parametrize(
    "change",
    [
        {"caller": "socket:/usr/bin/claude:4122:77"},
        {"tool": "computer.mouse"},
        {"seal": "other"},
        {"delegates": {"keyboard": "x"}},
        {"entry": "other"},
        {"permissions": "other"},
        {"env_names": ("LANG", "TZ")},
        {"level": Level.NONE},
        {"level": Level.ENFORCED},
    ],
)
def test_a_lease_covers_nothing_else(leases, make_request, change) -> None:
    request = make_request()
    leases.add(request, FIVE)
    other = msgspec.structs.replace(request.subject, **change)
    assert scope_digest(other) != scope_digest(request.subject)
    assert leases.match(other, request.risk) is None


@pytest.mark.parametrize(
    "change", [{"input": {"text": "another"}}, {"policy": "v2"}, {"preview": Preview(window_id="7")}]
)
def test_a_lease_covers_other_inputs(leases, make_request, change) -> None:
    request = make_request()
    leases.add(request, FIVE)
    assert leases.match(msgspec.structs.replace(request.subject, **change), request.risk) is not None


@pytest.mark.parametrize(
    ("approved", "called", "covered"),
    [
        (10, 10 + MAX_GROWTH_BYTES - 20, True),
        (10, 10 + MAX_GROWTH_BYTES + 20, False),
        (5000, 19_000, True),
        (5000, 21_000, False),
        (300, 1300, True),
    ],
)
def test_a_payload_larger_than_was_shown_asks_again(leases, make_request, approved, called, covered) -> None:
    leases.add(make_request(input={"t": "x" * approved}), FIVE)
    request = make_request(input={"t": "x" * called})
    assert (leases.match(request.subject, request.risk) is not None) is covered


def test_a_riskier_call_than_the_one_approved_asks_again(leases, make_request) -> None:
    request = make_request(risk=Risk.MEDIUM)
    leases.add(request, FIVE)
    covered = {risk: leases.match(request.subject, risk) is not None for risk in Risk}
    assert covered == {Risk.LOW: True, Risk.MEDIUM: True, Risk.HIGH: False, Risk.CRITICAL: False}


def test_revoking_one_leaves_newer_ones(leases, make_request) -> None:
    request = make_request()
    old, new = leases.add(request, FIVE), leases.add(request, FIVE)
    assert leases.revoke(old.id)
    assert not leases.revoke(old.id)
    assert [lease.id for lease in leases.active()] == [new.id]


def test_a_lease_revoked_before_the_spawn_voids_the_grant(clock, make_request) -> None:
    events = []
    queue = ApprovalQueue(clock, events.append, QueueLimits(), DesktopControl(clock, events.append))
    request = make_request()
    lease = queue.leases.add(request, FIVE)
    grant = queue.use_lease("c1", request.subject, request.risk)
    assert grant.lease == lease.id
    assert queue.use_lease("c2", request.subject, request.risk) is not None
    assert queue.use_lease("c3", request.subject, request.risk) is None
    assert queue.grants.redeem("c1", request.subject_digest).accepted
    assert queue.leases.revoke(lease.id)
    assert not queue.grants.redeem("c2", request.subject_digest).accepted
    assert "leases.changed" in [event.type for event in events]


@pytest.mark.anyio
async def test_groups_are_first_come_and_never_shared() -> None:
    locks, order, inside = GroupLocks(), [], []

    async def use(name: str, group: str | None) -> None:
        async with locks.acquire(group):
            inside.append(group)
            assert inside.count("desktop") <= 1
            order.append(name)
            await anyio.wait_all_tasks_blocked()
            inside.remove(group)

    async with anyio.create_task_group() as group:
        for name in ("a", "b", "c", "d"):
            group.start_soon(use, name, "desktop")
        group.start_soon(use, "free", None)
    assert [name for name in order if name != "free"] == ["a", "b", "c", "d"]
    assert order.index("free") <= 1
    assert not locks.busy("desktop")
    assert locks.waiting("desktop") == 0


@pytest.mark.anyio
async def test_a_cancelled_wait_leaves_the_group_usable() -> None:
    locks = GroupLocks()
    scope = anyio.CancelScope()

    async def wait() -> None:
        with scope:
            async with locks.acquire("tool"):
                pytest.fail("held twice")

    async with anyio.create_task_group() as group, locks.acquire("tool"):
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert locks.waiting("tool") == 1
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert locks.waiting("tool") == 0
    async with locks.acquire("tool"):
        assert locks.busy("tool")
