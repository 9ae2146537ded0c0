"""Random operations against a model written independently: nothing runs without a live matching grant."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import msgspec
import pytest

from flycore.approval.desktop_control import DesktopControl
from flycore.approval.leases import LeaseChange
from flycore.approval.queue import ApprovalQueue
from flycore.approval.requests import QueueLimits
from flycore.model.approval import Answer, LeaseTerms
from flycore.model.enums import Choice, RequestState, Risk
from flycore.model.json import canonical_json

FULL = os.environ.get("FLYTUI_SUITES") == "full"
OPERATIONS = 200_000 if FULL else 5_000
TIMEOUT, GRANT, AFTER, PAUSE = 90.0, 60.0, 2.0, 60.0
PASSES = 6


@dataclass
class Lease:
    id: str
    scope: tuple[str, str]
    size: int
    deadline: float
    calls: int
    risk: Risk


@dataclass
class Model:
    """What ought to hold, kept as plainly as possible."""

    now: float = 500.0
    waiting: dict[str, tuple] = field(default_factory=dict)
    grants: dict[str, tuple[str, float, str | None]] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    denials: dict[str, int] = field(default_factory=dict)
    paused: dict[str, float] = field(default_factory=dict)
    hands: int = 0
    hands_until: float = 0.0

    def expire(self) -> None:
        self.waiting = {key: item for key, item in self.waiting.items() if self.now < item[1]}

    def may_run(self, key: str, digest: str) -> bool:
        granted = self.grants.get(key)
        if granted is None or self.now >= granted[1] or granted[0] != digest:
            return False
        return granted[2] is None or (
            granted[2] in self.leases and self.now < self.leases[granted[2]].deadline
        )

    def lease_for(self, request) -> Lease | None:
        scope, size = (request.caller.key, request.tool), len(canonical_json(request.subject.input))
        for lease in self.leases.values():
            fits = size <= 4 * lease.size or size <= lease.size + 1024
            seen = lease.risk.at_least(request.risk)
            if lease.scope == scope and fits and seen and lease.calls > 0 and self.now < lease.deadline:
                return lease
        return None


class Run:
    """One random run: a queue, its model, and the requests both know of."""

    def __init__(self, clock, group, seed: int, build) -> None:
        self.random = random.Random(seed)
        self.clock = clock
        self.group = group
        self.build = build
        self.hands = DesktopControl(clock, lambda event: None)
        limits = QueueLimits(timeouts=tuple((risk, TIMEOUT) for risk in Risk))
        self.made: list[str] = []
        self.queue = ApprovalQueue(clock, lambda event: None, limits, self.hands, on_lease_change=self.told)
        group.start_soon(self.queue.run)
        self.model = Model()
        self.requests: list = []
        self.scopes: dict[str, anyio.CancelScope] = {}
        self.executed = self.refused = self.shared = self.count = 0

    def told(self, move: LeaseChange, lease, by: str) -> None:
        if move is LeaseChange.MADE:
            self.made.append(lease.id)

    async def step(self) -> None:
        often = (self.ask, self.decide, self.execute, self.time)
        seldom = (
            self.touch,
            self.touch_end,
            self.touch_end,
            self.cancel,
            self.revoke,
            self.lease,
            self.lease,
        )
        self.random.choice(often * 4 + seldom)()
        for _ in range(PASSES):
            await anyio.lowlevel.checkpoint()
        self.model.expire()
        waiting = {ask.request.id for ask in self.queue.asks() if ask.state is RequestState.WAITING}
        assert waiting == set(self.model.waiting)

    def ask(self) -> None:
        self.count += 1
        caller = self.random.choice(["one", "two", "three"])
        request = self.build(
            f"r{self.count}",
            caller=caller,
            tool=self.random.choice(["web.fetch", "task.background"]),
            size=self.random.choice([10, 10, 3000]),
            risk=self.random.choice(list(Risk)),
        )
        self.requests = [*self.requests[-30:], request]
        scope = self.scopes[request.id] = anyio.CancelScope()
        self.group.start_soon(self._wait, request, scope)
        if self.model.now < self.model.paused.get(request.caller.key, 0.0):
            return
        for first, _, sharing in self.model.waiting.values():
            if (first.subject_digest, first.risk) == (request.subject_digest, request.risk):
                sharing.add(request.id)
                self.shared += 1
                return
        mine = sum(item[0].caller == request.caller for item in self.model.waiting.values())
        if mine < 5 and len(self.model.waiting) < 20:
            self.model.waiting[request.id] = (request, self.model.now + TIMEOUT, {request.id})

    async def _wait(self, request, scope) -> None:
        with scope:
            await self.queue.ask(request)

    def decide(self) -> None:
        request = self.pick(self.model.waiting)
        if request is None:
            return
        digest = self.random.choice([request.subject_digest] * 12 + ["0" * 64, self.pick().subject_digest])
        choice = self.random.choice([*Choice, *[Choice.APPROVE_ONCE] * 4, *[Choice.LEASE] * 3])
        minutes, calls = self.random.choice([5] * 9 + [15, 4]), self.random.choice([2] * 5 + [0, 1, 5])
        terms = LeaseTerms(minutes=minutes, calls=calls)
        sharing = self.model.waiting.get(request.id, (None, None, set()))[2]
        outcome = self.queue.decide(request.id, digest, Answer(choice=choice, lease=terms))
        assert outcome.accepted is self._decided(request, digest, choice, terms)
        if outcome.accepted and choice is Choice.LEASE:
            self._leased(request, terms, sharing)

    def _decided(self, request, digest: str, choice: Choice, terms: LeaseTerms) -> bool:
        model = self.model
        if request.id not in model.waiting or digest != request.subject_digest:
            return False
        if choice is Choice.RULE:  # without terms
            return False
        if choice is Choice.LEASE and (
            request.risk is Risk.CRITICAL or terms.minutes not in (5, 15, 60) or not 1 <= terms.calls <= 100
        ):
            return False
        key = request.caller.key
        if choice is Choice.BLOCK:
            self._blocked(request.tool)
        if choice in (Choice.DENY, Choice.BLOCK):
            model.denials[key] = model.denials.get(key, 0) + 1
            if model.denials[key] == 3:
                model.denials[key], model.paused[key] = 0, model.now + PAUSE
        elif model.hands or model.now < model.hands_until:
            return False
        else:
            model.denials[key], model.paused[key] = 0, 0.0
            for one in model.waiting[request.id][2]:
                model.grants[one] = (request.subject_digest, model.now + GRANT, None)
        model.waiting.pop(request.id, None)
        return True

    def _blocked(self, tool: str) -> None:
        model = self.model
        model.waiting = {key: item for key, item in model.waiting.items() if item[0].tool != tool}
        model.leases = {key: lease for key, lease in model.leases.items() if lease.scope[1] != tool}

    def _leased(self, request, terms: LeaseTerms, sharing: set[str]) -> None:
        lease_id = self.made[-1]
        size = len(canonical_json(request.subject.input))
        scope = (request.caller.key, request.tool)
        deadline = self.model.now + terms.minutes * 60
        self.model.leases[lease_id] = Lease(lease_id, scope, size, deadline, terms.calls, request.risk)
        self.model.leases[lease_id].calls = max(0, terms.calls - len(sharing))
        for one in sharing:
            digest, expires, _ = self.model.grants[one]
            self.model.grants[one] = (digest, expires, lease_id)

    def execute(self) -> None:
        request = self.pick({name.removeprefix("lease-") for name in self.model.grants})
        if request is None:
            return
        key = self.random.choice([request.id, request.id, f"lease-{request.id}"])
        digest = self.random.choice([request.subject_digest] * 5 + [self.pick().subject_digest])
        allowed = self.model.may_run(key, digest)
        assert self.queue.grants.redeem(key, digest).accepted is allowed
        self.model.grants.pop(key, None)
        self.executed += allowed
        self.refused += not allowed

    def cancel(self) -> None:
        request = self.pick()
        if request is None:
            return
        self.scopes[request.id].cancel()
        for first, (_, _, sharing) in tuple(self.model.waiting.items()):
            sharing.discard(request.id)
            if not sharing:
                del self.model.waiting[first]

    def time(self) -> None:
        seconds = self.random.choice([0.5, 1.0, 2.0, 2.0, 5.0, 20.0, 70.0])
        self.model.now += seconds
        self.clock.advance(seconds)

    def touch(self) -> None:
        if self.random.random() < 0.2:
            self.hands.enter()
            self.model.hands += 1

    def touch_end(self) -> None:
        while self.model.hands:
            self.hands.leave()
            self.model.hands -= 1
            self.model.hands_until = self.model.now + AFTER

    def lease(self) -> None:
        request = self.pick()
        if request is None:
            return
        other = msgspec.structs.replace(request.subject, policy=self.random.choice(["v1", "v2"]))
        lease = self.model.lease_for(request)
        key = f"lease-{request.id}"
        grant = self.queue.use_lease(key, other, request.risk)
        assert (grant is not None) is (lease is not None)
        if lease is not None:
            assert grant.lease == lease.id
            lease.calls -= 1
            self.model.grants[key] = (other.digest(), self.model.now + GRANT, lease.id)

    def revoke(self) -> None:
        held = [lease.id for lease in self.model.leases.values()]
        key = self.random.choice([*held, "unknown"])
        alive = key in self.model.leases and self.model.now < self.model.leases[key].deadline
        assert self.queue.leases.revoke(key) is alive
        self.model.leases.pop(key, None)

    def pick(self, rather=()):
        """A request, mostly one of those whose ids are in `rather`."""
        likely = [request for request in self.requests if request.id in rather]
        pool = likely if likely and self.random.random() < 0.8 else self.requests
        return self.random.choice(pool) if pool else None


@pytest.mark.suite
@pytest.mark.anyio
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.timeout(900)
async def test_nothing_runs_without_a_live_matching_grant(
    clock, make_request, make_caller, seed: int
) -> None:
    def build(id: str, *, caller: str, tool: str, size: int, risk: Risk):
        who = make_caller(caller)
        given = {"t": "x" * size, "n": int(id[1:]) % 3}
        return make_request(id, caller=who, tool=tool, risk=risk, input=given)

    async with anyio.create_task_group() as group:
        run = Run(clock, group, seed, build)
        for _ in range(OPERATIONS // 4):
            await run.step()
        group.cancel_scope.cancel()
    assert run.shared >= OPERATIONS // 4 // 1000
    assert run.executed > OPERATIONS // 4 // 50
    assert run.refused > OPERATIONS // 4 // 50
