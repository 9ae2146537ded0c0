"""The trust in registry entries that came with a clone, given per entry over exactly what was shown.

Nothing of an entry that is not trusted is started. The user's own registry is trusted. Trust in the entries
of a project is kept in `trust.json`; where that file cannot be relied on, no entry is trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from flycore.model.approval import Outcome
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.json import JsonObject, digest
from flycore.model.json_diff import json_difference
from flycore.model.question import TrustItem
from flycore.model.repository import RepositoryIdentity
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.store.json_store import Store

MAX_BYTES = 16_777_216
Describe = Callable[[SidecarEntry], tuple[str, ...]]
"""Returns an entry in plain lines, as `entry_summary.describe_entry` does."""


class TrustPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where an entry was trusted, so that other folders of the same repository can say so."""

    root: str
    """Absolute path of the app root."""
    repository: RepositoryIdentity
    programs: str = ""
    """The digest of the content of the entry's programs at that moment; empty where it could not be read."""


class TrustRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One value of an entry that a person trusted."""

    digest: str
    at: float
    """Unix time, seconds."""
    raw: JsonObject | None = None
    """The entry as it was. It stays in force while a changed entry waits, and the changed one is compared
    with it. Where it is absent, a changed entry cannot run until it is trusted."""
    place: TrustPlace | None = None
    """Absent where the app root is in no repository, or in one that cannot be told."""


class TrustStore:
    """The trusted entries of one app root. Whoever writes holds the root's lock."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._store = Store[Mapping[str, TrustRecord]](path, dict[str, TrustRecord], {}, MAX_BYTES)
        self.reload()

    def reload(self) -> None:
        """Read the file again. An absent file trusts nothing, and is no fault."""
        self._store.reload()

    def refresh(self) -> None:
        """Read the file again if it changed."""
        self._store.refresh()

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Why the file cannot be relied on; then no entry of the project is trusted."""
        why = self._store.why_unread
        return (self._fault(why),) if why else ()

    def is_trusted(self, entry: SidecarEntry) -> bool:
        """Return whether exactly this value of the entry may run."""
        if entry.users_own:
            return True
        known = self._store.value.get(entry.id)
        return known is not None and bool(entry.digest) and known.digest == entry.digest

    def last_trusted(self, sidecar: str) -> TrustRecord | None:
        """Return the value that was last trusted under that id. Its `raw` comes from the file unchecked, so
        whoever runs it computes its digest again."""
        return self._store.value.get(sidecar)

    def accepted_entries(self) -> tuple[tuple[str, str], ...]:
        """Return everything that is trusted as (id, digest), also what the registry declares no longer."""
        return tuple((sidecar, item.digest) for sidecar, item in sorted(self._store.value.items()))

    def placed_records(self) -> Mapping[str, TrustRecord]:
        """Return the values that say where they were trusted, by id."""
        return {key: record for key, record in self._store.value.items() if record.place is not None}

    def trusted_ids(self, registry: Registry) -> frozenset[str]:
        """Return the ids of the registry's entries that are trusted."""
        return frozenset(entry.id for entry in registry.entries if self.is_trusted(entry))

    def pending(self, registry: Registry, describe: Describe) -> tuple[TrustItem, ...]:
        """Return the entries that wait for trust. An invalid or disabled entry would not run, so it does not
        wait."""
        return tuple(self._item(entry, describe) for entry in registry.entries if self.waits(entry))

    def waits(self, entry: SidecarEntry) -> bool:
        """Return whether the entry waits for trust."""
        return entry.valid and entry.enabled and not self.is_trusted(entry)

    def accept(
        self,
        pairs: tuple[tuple[str, str], ...],
        registry: Registry,
        now: float,
        place_of: Callable[[SidecarEntry], TrustPlace | None] = lambda _: None,
    ) -> Outcome:
        """Trust entries, given as (id, digest that was shown).

        An entry that has changed since is not trusted; the others are. The outcome is `accepted` only where
        all were. `now` is Unix time in seconds. `place_of` says where an entry is trusted.
        """
        entries = dict(self._store.value)
        changed = []
        for sidecar, shown in pairs:
            entry = registry.entry(sidecar)
            if entry is None or not entry.valid or not shown or entry.digest != shown:
                changed.append(sidecar)
                continue
            entries[sidecar] = TrustRecord(digest=shown, at=now, raw=entry.raw, place=place_of(entry))
        failure = self._write(entries) if len(changed) < len(pairs) else ""
        if failure:
            return Outcome(accepted=False, why_not=failure)
        if changed:
            why = f"changed since it was shown: {', '.join(changed)}"
            return Outcome(accepted=False, why_not=why)
        return Outcome(accepted=True)

    def revoke(self, ids: frozenset[str] | None = None) -> Outcome:
        """Trust these entries no longer; None stands for all."""
        kept = {key: item for key, item in self._store.value.items() if ids is not None and key not in ids}
        failure = self._write(kept)
        return Outcome(accepted=not failure, why_not=failure)

    def _item(self, entry: SidecarEntry, describe: Describe) -> TrustItem:
        before = self.last_trusted(entry.id)
        return TrustItem(
            sidecar=entry.id,
            digest=entry.digest,
            changed=before is not None,
            lines=describe(entry),
            difference=() if before is None or before.raw is None else json_difference(before.raw, entry.raw),
        )

    def _write(self, entries: Mapping[str, TrustRecord]) -> str:
        """Write the entries and make them valid. Returns the sentence that says why that failed, or an empty
        text."""
        why = self._store.replace(entries)
        return f"trust could not be written: {why}" if why else ""

    def _fault(self, why: str) -> Diagnostic:
        return Diagnostic(
            severity=Severity.ERROR,
            rule="trust-file",
            message=f"the trust file cannot be read, so no entry of the project is trusted: {why}",
            remedy="run flytui trust: what you accept there is written to a new file",
            position=Position(file=str(self._path), line=1, column=1),
        )


def set_digest(items: tuple[TrustItem, ...]) -> str:
    """Return one digest over a set of items, whatever their order: 64 hex digits."""
    return digest(sorted([item.sidecar, item.digest] for item in items))
