"""Leases: the same tool and caller, for some minutes and calls, while nothing it rests on changes."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from flycore.approval.clock import Clock
from flycore.model.approval import ApprovalRequest, Lease, LeaseTerms, Subject
from flycore.model.canonical import JsonObject, canonical_json, digest
from flycore.model.enums import Risk

LARGER_FACTOR = 4
LARGER_BYTES = 1024
"""A call whose canonical input has more than four times the bytes of the approved one, and more than
1024 bytes more, is asked again: nobody has seen a payload like that."""


def scope_digest(subject: Subject) -> str:
    """What a lease is bound to: caller, tool, seal, delegates, entry, permissions, environment, level.

    Not the input, the preview and the policy: policy is asked anew for each call and may still deny.
    """
    return digest(
        {
            "caller": subject.caller,
            "tool": subject.tool,
            "seal": subject.seal,
            "delegates": subject.delegates,
            "entry": subject.entry,
            "permissions": subject.permissions,
            "envNames": list(subject.env_names),
            "level": subject.level,
        }
    )


def input_bytes(input: JsonObject) -> int:
    """Size of the canonical JSON."""
    return len(canonical_json(input))


class _Held(NamedTuple):
    lease: Lease
    deadline: float
    approved_bytes: int
    approved_risk: Risk


class LeaseBook:
    """The leases of one kernel. They live in memory: a kernel that ends takes them along."""

    def __init__(self, clock: Clock, on_change: Callable[[], None] = lambda: None) -> None:
        self._clock = clock
        self._on_change = on_change
        self._held: dict[str, _Held] = {}

    def add(self, request: ApprovalRequest, terms: LeaseTerms) -> Lease:
        """The lease an approval makes. The approved call is the first of `terms.calls`."""
        now = self._clock.now()
        seconds = terms.minutes * 60.0
        lease = Lease(
            id=secrets.token_hex(8),
            caller=request.caller,
            tool=request.tool,
            scope_digest=scope_digest(request.subject),
            from_request=request.id,
            calls_left=terms.calls - 1,
            expires_at=now + seconds,
            created_at=now,
        )
        size = input_bytes(request.subject.input)
        self._held[lease.id] = _Held(lease, self._clock.monotonic() + seconds, size, request.risk)
        self._on_change()
        return lease

    def match(self, subject: Subject, risk: Risk) -> Lease | None:
        """A lease with calls left that covers the subject; None where a person has to be asked, as for a
        call of the same tool that is riskier than the one they saw."""
        scope, size = scope_digest(subject), input_bytes(subject.input)
        return next(
            (
                held.lease
                for held in self._live()
                if held.lease.calls_left > 0
                and held.lease.scope_digest == scope
                and held.approved_risk.at_least(risk)
                and not _larger(size, held.approved_bytes)
            ),
            None,
        )

    def take(self, lease_id: str) -> Lease | None:
        """Count one call down; None where the lease has ended meanwhile."""
        held = next((held for held in self._live() if held.lease.id == lease_id), None)
        if held is None or held.lease.calls_left <= 0:
            return None
        lease = msgspec.structs.replace(held.lease, calls_left=held.lease.calls_left - 1)
        self._held[lease_id] = held._replace(lease=lease)
        self._on_change()
        return lease

    def holds(self, lease_id: str) -> bool:
        """Whether the lease has neither run out nor been revoked; calls taken before stay good."""
        return any(held.lease.id == lease_id for held in self._live())

    def revoke(self, lease_id: str) -> bool:
        """End a lease by its id; False when it no longer held. Other leases are untouched."""
        held = self.holds(lease_id)
        if self._held.pop(lease_id, None) is not None:
            self._on_change()
        return held

    def active(self) -> tuple[Lease, ...]:
        """Leases that still cover a call, oldest first."""
        return tuple(held.lease for held in self._live() if held.lease.calls_left > 0)

    def _live(self) -> list[_Held]:
        """Held leases within their time; the others are forgotten here."""
        now = self._clock.monotonic()
        self._held = {key: held for key, held in self._held.items() if now < held.deadline}
        return list(self._held.values())


def _larger(size: int, approved: int) -> bool:
    return size > approved * LARGER_FACTOR and size > approved + LARGER_BYTES
