"""Grants: each permits one execution of exactly what was approved, within a minute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from flycore.model.approval import Outcome
from flycore.model.base import Value
from flycore.model.clock import Clock

GRANT_SECONDS = 60.0
"""Seconds from the decision to the start of the program. Waiting for an exclusive group does not count."""


class Grant(Value, frozen=True, kw_only=True):
    """The permission for one execution. It is valid only in the store that issued it."""

    id: str
    subject_digest: str
    lease: str | None = None
    """Id of the lease it was drawn from. The lease must still be active when the grant is redeemed."""


class _StoredGrant(msgspec.Struct):
    grant: Grant
    expires: float
    paused_since: float | None = None


class GrantStore:
    """The grants that have not been used."""

    def __init__(self, clock: Clock, is_lease_active: Callable[[str], bool]) -> None:
        self._clock = clock
        self._is_lease_active = is_lease_active
        self._grants: dict[str, _StoredGrant] = {}

    def issue(self, grant_id: str, subject_digest: str, lease: str | None = None) -> Grant:
        """Return a new grant under the id of its request or call. It replaces an older one of that id."""
        self._drop_expired()
        grant = Grant(id=grant_id, subject_digest=subject_digest, lease=lease)
        self._grants[grant_id] = _StoredGrant(grant, self._clock.monotonic() + GRANT_SECONDS)
        return grant

    def redeem(self, grant_id: str, subject_digest: str) -> Outcome:
        """Use the grant up for an execution of `subject_digest`, or say why it does not permit that."""
        # The grant is removed before it is checked: a failed attempt uses it up, too, so nothing can try
        # several subjects against one grant.
        entry = self._grants.pop(grant_id, None)
        if entry is None:
            return Outcome(accepted=False, why_not="there is no such grant, or it was used already")
        if self._expired(entry):
            return Outcome(accepted=False, why_not="the grant has expired")
        if entry.grant.subject_digest != subject_digest:
            return Outcome(accepted=False, why_not="what would run is not what was approved")
        # A grant drawn from a lease ends with it: revoking the lease must stop calls that have not started.
        if entry.grant.lease is not None and not self._is_lease_active(entry.grant.lease):
            return Outcome(accepted=False, why_not="the lease has ended")
        return Outcome(accepted=True)

    def void(self, grant_id: str) -> None:
        """Remove a grant that will not be used."""
        self._grants.pop(grant_id, None)

    def void_all(self) -> None:
        """Remove every grant."""
        self._grants.clear()

    @contextmanager
    def paused(self, grant_id: str) -> Iterator[None]:
        """Stop the grant's time for the block, while its call waits for an exclusive group. An expired or
        unknown grant stays as it is."""
        entry = self._grants.get(grant_id)
        if entry is None or self._expired(entry):
            yield
            return
        entry.paused_since = self._clock.monotonic()
        try:
            yield
        finally:
            entry.expires += self._clock.monotonic() - entry.paused_since
            entry.paused_since = None

    def _expired(self, entry: _StoredGrant) -> bool:
        return entry.paused_since is None and self._clock.monotonic() >= entry.expires

    def _drop_expired(self) -> None:
        for grant_id in [key for key, entry in self._grants.items() if self._expired(entry)]:
            del self._grants[grant_id]
