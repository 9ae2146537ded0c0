"""The programs of each entry as a person last accepted them: with the trust in the entry, or by approving a
call.

Trust is in an entry, whose command names a file. A file that changes after that is another program: no rule
allows it and no probe starts it until a person was asked again. The digests are kept in `seals.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Lock

import msgspec

from flycore.store.json_store import Store

MAX_BYTES = 4_194_304


class AcceptedSeal(msgspec.Struct, frozen=True, kw_only=True):
    """The programs of one value of an entry."""

    entry: str
    """The digest of the entry."""
    programs: str
    """The digest over the seals of its program and its delegates."""


class AcceptedSeals:
    """The accepted programs of one app root, by sidecar. May be used from several threads."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = Lock()
        self._store = Store[Mapping[str, AcceptedSeal]](path, dict[str, AcceptedSeal], {}, MAX_BYTES)
        self._accepted = self._store.value
        self.refused: dict[str, AcceptedSeal] = {}
        """Programs that were not started because they changed, and wait for a person's trust; by sidecar."""
        self.why_unread = self._store.why_unread
        """Why the file cannot be relied on; then every program counts as changed until it is accepted."""

    def changed(self, sidecar: str, entry: str, programs: str) -> bool:
        """Return whether other programs than these were accepted for that value of the entry.

        The programs of an entry that has none yet are accepted by this: they are the first that flytui sees
        of it.
        """
        known = self._accepted.get(sidecar)
        if known is not None and known.entry == entry:
            return known.programs != programs
        if self.why_unread:
            return True
        self.accept(sidecar, entry, programs)
        return False

    def refuse(self, sidecar: str, entry: str, programs: str) -> None:
        """Record that these programs were not started, so that a person is asked to trust them."""
        with self._lock:
            self.refused[sidecar] = AcceptedSeal(entry=entry, programs=programs)

    def accept(self, sidecar: str, entry: str, programs: str) -> None:
        """Record that a person has accepted these programs."""
        with self._lock:
            record = AcceptedSeal(entry=entry, programs=programs)
            self.refused.pop(sidecar, None)
            if self._accepted.get(sidecar) == record:
                return
            self._accepted = {**self._accepted, sidecar: record}
            # If it cannot be written, what is in memory holds until flytui ends. The next one asks, if the
            # program differs from what the file has.
            self._store.replace(self._accepted)
