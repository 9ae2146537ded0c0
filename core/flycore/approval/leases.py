"""The host that a web tool's input leads to, for leases that hold for one host only.

Where two readers could see two hosts in one address there is none, and then such a lease covers nothing.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import urlsplit

import anyio
import msgspec

from flycore.catalog.schemas import accepts
from flycore.model.approval import LEASE_MINUTES, UNTIL_LEFT, ApprovalRequest, Ask, Lease, LeaseTerms, Subject
from flycore.model.call import Caller
from flycore.model.clock import Clock
from flycore.model.enums import Choice, LeaseScope, RequestState, Risk
from flycore.model.json import Json, JsonObject, canonical_json, digest
from flycore.policy.conditions import schema_faults
from flysafe.procfs import read_process

WEB_TOOLS = ("web.", "agent.fetch")
_PLAIN = re.compile(r"[!#-;=?-\[\]_a-z~]+", re.IGNORECASE)
"""Printable ASCII without what an address does not hold: no space, quote, backslash or control."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|[0-9a-f:.]+")


def page_host(tool: str, input: JsonObject) -> str:
    """Host name or address of the input's `url`, lower case; empty for other tools, other schemes than
    http and https, and addresses that name a user or hold what programs read differently."""
    url = input.get("url")
    if not tool.startswith(WEB_TOOLS) or not isinstance(url, str) or not _PLAIN.fullmatch(url):
        return ""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or not _NAME.fullmatch(host):
        return ""
    return host


# Leases: the same caller, for some time and calls, while nothing the approval rests on changes.


LARGER_FACTOR = 4
LARGER_BYTES = 1024
"""A call whose canonical input has more than four times the bytes of the approved one, and more than
1024 bytes more, is asked again: nobody has seen a payload like that."""
MAX_CALLS = 100
MAX_CONDITION_BYTES = 65_536
FOREVER = float("inf")
LIVENESS_CHECK_SECONDS = 1.0
"""How often it is looked whether a caller has left whose lease lasts until then."""

IsAlive = Callable[[Caller], bool]
"""Whether the caller's process is still there."""


class LeaseChange(StrEnum):
    """What can happen to a lease."""

    MADE = "made"
    USED = "used"
    REVOKED = "revoked"
    RESTORED = "restored"
    ENDED = "ended"
    """Its time was over, its caller had left, or its tool was blocked."""


OnLeaseChange = Callable[[LeaseChange, Lease, str], None]
"""What happened to which lease, and which console took it away or back; empty where none did."""


def is_caller_alive(caller: Caller) -> bool:
    """Whether the very process is there: a pid that was given to another one is not it."""
    process = read_process(caller.pid) if caller.pid > 0 else None
    return process is not None and process.started == caller.started


def lease_fault(request: ApprovalRequest, terms: LeaseTerms | None) -> str:
    """Why these terms make no lease for that request; empty where they do."""
    if terms is None:
        return "a lease needs its terms"
    if terms.minutes not in (*LEASE_MINUTES, UNTIL_LEFT) or not 1 <= terms.calls <= MAX_CALLS:
        minutes = ", ".join(str(number) for number in LEASE_MINUTES)
        return f"a lease is for {minutes} minutes or until the caller leaves, and 1 to {MAX_CALLS} calls"
    if terms.minutes == UNTIL_LEFT and request.caller.pid <= 0:
        return "nobody could see when this caller leaves: choose minutes"
    if terms.scope is LeaseScope.GROUP and not request.group:
        return "this tool belongs to no group: lease the tool"
    if terms.scope is LeaseScope.HOST and not request.host:
        return "this call names no host that could be told for certain: lease the tool"
    return "" if terms.condition is None else _condition_fault(request, terms.condition)


def scope_digest(subject: Subject, group: str = "") -> str:
    """What a lease is bound to: caller, tool or group, seal, delegates, entry, permissions, environment,
    level.

    Not the input, the preview and the policy: policy is asked anew for each call and may still deny.
    """
    about: dict[str, Json] = {"group": group} if group else {"tool": subject.tool}
    return digest(
        {
            **about,
            "caller": subject.caller,
            "seal": subject.seal,
            "delegates": {**subject.delegates},
            "entry": subject.entry,
            "permissions": subject.permissions,
            "envNames": list(subject.env_names),
            "level": subject.level,
        }
    )


def input_bytes(input: JsonObject) -> int:
    """Size of the canonical JSON."""
    return len(canonical_json(input))


class HeldLease(NamedTuple):
    """A lease with what only its book needs to know."""

    lease: Lease
    deadline: float
    """Monotonic seconds; infinite for one that lasts until the caller leaves."""
    approved_bytes: int
    approved_risk: Risk
    era: int = 0
    """How often everything had been stopped before it was made."""

    def covers(self, subject: Subject, risk: Risk, group: str) -> bool:
        """Whether the lease, as long as it holds, speaks of a call like that."""
        lease = self.lease
        wide = lease.scope is LeaseScope.GROUP
        return (
            lease.calls_left > 0
            and (not wide or group == lease.group)
            and lease.scope_digest == scope_digest(subject, lease.group if wide else "")
            and (lease.scope is not LeaseScope.HOST or page_host(subject.tool, subject.input) == lease.host)
            and (lease.condition is None or accepts(lease.condition, subject.input))
            and self.approved_risk.at_least(risk)
            and not _larger(input_bytes(subject.input), self.approved_bytes)
        )


class LeaseStore:
    """The leases of one kernel. They live in memory: a kernel that ends takes them along."""

    def __init__(
        self,
        clock: Clock,
        told: OnLeaseChange = lambda move, lease, by: None,
        caller_lives: IsAlive = is_caller_alive,
    ) -> None:
        self._clock = clock
        self._told = told
        self._lives = caller_lives
        self._held: dict[str, HeldLease] = {}
        self._era = 0
        self._moved = anyio.Event()

    def add(self, request: ApprovalRequest, terms: LeaseTerms) -> Lease:
        """The lease an approval makes. The approved call is the first of `terms.calls`."""
        now = self._clock.now()
        forever = terms.minutes == UNTIL_LEFT
        wide = terms.scope is LeaseScope.GROUP
        lease = Lease(
            id=secrets.token_hex(8),
            caller=request.caller,
            tool=request.tool,
            scope_digest=scope_digest(request.subject, request.group if wide else ""),
            from_request=request.id,
            calls_left=terms.calls - 1,
            expires_at=0.0 if forever else now + terms.minutes * 60.0,
            created_at=now,
            scope=terms.scope,
            group=request.group,
            host=request.host if terms.scope is LeaseScope.HOST else "",
            condition=terms.condition,
            used=1,
            last_used=now,
        )
        deadline = FOREVER if forever else self._clock.monotonic() + terms.minutes * 60.0
        self._held[lease.id] = HeldLease(
            lease, deadline, input_bytes(request.subject.input), request.risk, self._era
        )
        self._publish_change(LeaseChange.MADE, lease)
        return lease

    def lease_from_request(self, ask: Ask) -> str | None:
        """Id of the lease that an answer makes; None where it makes none."""
        answer = ask.answer
        if ask.state is not RequestState.APPROVED or answer is None or answer.choice != Choice.LEASE:
            return None
        return None if answer.lease is None else self.add(ask.request, answer.lease).id

    def match(self, subject: Subject, risk: Risk, group: str = "") -> Lease | None:
        """A lease with calls left that covers the subject, whose tool is of that exclusive group; None
        where a person has to be asked, as for a call that is riskier than the one they saw."""
        return next((held.lease for held in self._active_leases() if held.covers(subject, risk, group)), None)

    def take(self, lease_id: str) -> Lease | None:
        """Count one call down; None where the lease has ended meanwhile."""
        held = next((held for held in self._active_leases() if held.lease.id == lease_id), None)
        if held is None or held.lease.calls_left <= 0:
            return None
        lease = msgspec.structs.replace(
            held.lease,
            calls_left=held.lease.calls_left - 1,
            used=held.lease.used + 1,
            last_used=self._clock.now(),
        )
        self._held[lease_id] = held._replace(lease=lease)
        self._publish_change(LeaseChange.USED, lease)
        return lease

    def is_active(self, lease_id: str) -> bool:
        """Whether the lease has neither run out nor been revoked; calls taken before stay good."""
        return any(held.lease.id == lease_id for held in self._active_leases())

    def revoke(self, lease_id: str) -> bool:
        """End a lease by its id; False when it no longer held. Other leases are untouched."""
        return self.withdraw(lease_id) is not None

    def withdraw(self, lease_id: str, by: str = "") -> HeldLease | None:
        """End a lease and give what `restore` needs; None when it no longer held. `by` says who did."""
        held = next((held for held in self._active_leases() if held.lease.id == lease_id), None)
        if held is not None:
            del self._held[lease_id]
            self._publish_change(LeaseChange.REVOKED, held.lease, by)
        return held

    def restore(self, held: HeldLease, by: str = "") -> str:
        """Take back a revocation: the lease holds on with the time and calls it had left. Why not, in
        words, where its time is over by now; empty where it holds."""
        if held.era != self._era:
            return "everything was stopped since: a lease from before does not come back"
        if self._has_ended(held):
            return "the lease would have ended by now"
        self._held[held.lease.id] = held
        self._publish_change(LeaseChange.RESTORED, held.lease, by)
        return ""

    def end_tool(self, tool: str) -> None:
        """End every lease that was given on a call of that tool."""
        for held in self._active_leases():
            if held.lease.tool == tool:
                del self._held[held.lease.id]
                self._publish_change(LeaseChange.ENDED, held.lease)

    def revoke_all(self) -> int:
        """End every lease, used up ones too: their calls may not have started. How many covered a call."""
        ended, live = len(self.active()), self._active_leases()
        self._held = {}
        self._era += 1
        for held in live:
            self._publish_change(LeaseChange.REVOKED, held.lease)
        return ended

    def active(self) -> tuple[Lease, ...]:
        """Leases that still cover a call, oldest first."""
        return tuple(held.lease for held in self._active_leases() if held.lease.calls_left > 0)

    def reserving_lease(self, group: str, caller: str) -> Lease | None:
        """The lease that keeps the group from that caller (`Caller.key`). Where several callers hold
        leases of one group it is kept for the oldest one's, so that none waits for the other in turn; for
        a caller whose process has ended nothing is kept."""
        kept = (lease for lease in self.active() if lease.group == group and self._uses(lease.caller))
        oldest = next(kept, None)
        return None if oldest is None or oldest.caller.key == caller else oldest

    async def wait_until_free(self, group: str, caller: str) -> None:
        """Wait until no other caller's lease keeps the group."""
        while self.reserving_lease(group, caller) is not None:
            await self._next_move(self._clock.monotonic() + LIVENESS_CHECK_SECONDS)

    async def watch(self) -> None:
        """Notice leases that end by themselves. Runs until cancelled, in the kernel's task group."""
        while True:
            await self._next_move()
            self._active_leases()

    async def _next_move(self, until: float = FOREVER) -> None:
        """Wait until something has happened to a lease, one may have ended by itself, or the time `until`
        has come."""
        moved = self._moved
        look = self._clock.monotonic() + LIVENESS_CHECK_SECONDS
        ends = (look if held.deadline == FOREVER else held.deadline for held in self._held.values())
        first = min((until, *ends))
        if first == FOREVER:
            await moved.wait()
            return

        async def pass_time() -> None:
            await self._clock.sleep_until(first)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(pass_time)
            await moved.wait()
            group.cancel_scope.cancel()

    def _uses(self, caller: Caller) -> bool:
        """Whether the caller may still come: one that no process stands behind always may."""
        return caller.pid <= 0 or self._lives(caller)

    def _active_leases(self) -> list[HeldLease]:
        """Held leases within their time; the others are forgotten here."""
        for held in [held for held in self._held.values() if self._has_ended(held)]:
            del self._held[held.lease.id]
            self._publish_change(LeaseChange.ENDED, held.lease)
        return list(self._held.values())

    def _has_ended(self, held: HeldLease) -> bool:
        if held.deadline == FOREVER:
            return not self._lives(held.lease.caller)
        return self._clock.monotonic() >= held.deadline

    def _publish_change(self, move: LeaseChange, lease: Lease, by: str = "") -> None:
        self._moved.set()
        self._moved = anyio.Event()
        self._told(move, lease, by)


def _condition_fault(request: ApprovalRequest, condition: JsonObject) -> str:
    """A condition that nobody can check covers nothing, and one that this call fails was not meant so."""
    try:
        if len(canonical_json(condition)) > MAX_CONDITION_BYTES:
            return f"the condition is larger than {MAX_CONDITION_BYTES} bytes"
    except (ValueError, TypeError, RecursionError):
        return "the condition is no JSON"
    faults = [f"{pointer or '/'}: {why}" for pointer, why in schema_faults(condition)]
    if faults:
        return f"the condition cannot be used: {'; '.join(faults)}"
    if not accepts(condition, request.subject.input):
        return "this call itself does not meet the condition"
    return ""


def _larger(size: int, approved: int) -> bool:
    return size > approved * LARGER_FACTOR and size > approved + LARGER_BYTES
