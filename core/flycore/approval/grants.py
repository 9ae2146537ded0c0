"""Grants: one execution of exactly what was approved, once, soon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flycore.model.approval import Outcome
from flycore.model.base import Value
from flycore.model.clock import Clock

GRANT_SECONDS = 60.0
"""From the decision to the spawn; waiting for an exclusive group does not count."""


class Grant(Value, frozen=True, kw_only=True):
    """Permission for one execution. Worth nothing outside the book that minted it."""

    id: str
    subject_digest: str
    lease: str | None = None
    """The lease it was drawn from; it must still hold when the grant is redeemed."""


@dataclass(slots=True)
class _StoredGrant:
    grant: Grant
    expires: float
    held_since: float | None = None


class GrantStore:
    """Every grant that has not been used. A grant leaves the book at the first attempt, whatever comes
    of it."""

    def __init__(self, clock: Clock, lease_holds: Callable[[str], bool]) -> None:
        self._clock = clock
        self._lease_holds = lease_holds
        self._entries: dict[str, _StoredGrant] = {}

    def issue(self, grant_id: str, subject_digest: str, lease: str | None = None) -> Grant:
        """A new grant under the id of its request or call; an older one of that id is void."""
        self._drop_expired()
        grant = Grant(id=grant_id, subject_digest=subject_digest, lease=lease)
        self._entries[grant_id] = _StoredGrant(grant, self._clock.monotonic() + GRANT_SECONDS)
        return grant

    def redeem(self, grant_id: str, subject_digest: str) -> Outcome:
        """Use the grant up for an execution of `subject_digest`."""
        entry = self._entries.pop(grant_id, None)
        if entry is None:
            return Outcome(accepted=False, why_not="there is no such grant, or it was used")
        if self._expired(entry):
            return Outcome(accepted=False, why_not="the grant has expired")
        if entry.grant.subject_digest != subject_digest:
            return Outcome(accepted=False, why_not="what would run is not what was approved")
        if entry.grant.lease is not None and not self._lease_holds(entry.grant.lease):
            return Outcome(accepted=False, why_not="the lease has ended")
        return Outcome(accepted=True)

    def void(self, grant_id: str) -> None:
        """End a grant that will not be used."""
        self._entries.pop(grant_id, None)

    def void_all(self) -> None:
        """End every grant."""
        self._entries.clear()

    @contextmanager
    def paused(self, grant_id: str) -> Iterator[None]:
        """Stop the grant's clock, while its call waits for an exclusive group."""
        entry = self._entries.get(grant_id)
        if entry is None or self._expired(entry):
            yield
            return
        entry.held_since = self._clock.monotonic()
        try:
            yield
        finally:
            entry.expires += self._clock.monotonic() - entry.held_since
            entry.held_since = None

    def _expired(self, entry: _StoredGrant) -> bool:
        return entry.held_since is None and self._clock.monotonic() >= entry.expires

    def _drop_expired(self) -> None:
        for grant_id in [key for key, entry in self._entries.items() if self._expired(entry)]:
            del self._entries[grant_id]
