"""Trust in registry entries that came with a clone: given per entry, over exactly what was shown.

Nothing of an entry that is not trusted is spawned. The user's own registry is trusted; the project's
entries are remembered in `trust.json`, and a file that cannot be relied on trusts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from flycore.approval.state_file import read_state, write_state
from flycore.model.approval import Outcome
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Source
from flycore.model.json import Json, JsonObject, digest
from flycore.model.json_diff import json_difference
from flycore.model.question import TrustItem
from flycore.model.sidecar import Registry, SidecarEntry

MAX_BYTES = 16_777_216
Describe = Callable[[SidecarEntry], tuple[str, ...]]
"""An entry in plain lines; see `describe.describe_entry`."""


class TrustRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What trust was given to."""

    digest: str
    at: float
    """Unix time, seconds."""
    raw: JsonObject | None = None
    """The entry as it was: it stays in force, and is what a changed one is compared with. Where it was not
    kept, a changed entry has nothing to go on with."""


class TrustStore:
    """The trusted entries of one app root. Reads when told to; writers hold the root's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: Mapping[str, TrustRecord] = {}
        self.diagnostics: tuple[Diagnostic, ...] = ()
        """Why the file could not be relied on; then nothing of the project is trusted."""

    @classmethod
    def load(cls, path: Path) -> TrustStore:
        """The store as the file has it. Never raises for what is there."""
        store = cls(path)
        store.reload()
        return store

    def reload(self) -> None:
        """Read the file again. Absent, it trusts nothing and that is no fault."""
        self._entries, self.diagnostics = {}, ()
        try:
            self._entries = msgspec.json.decode(
                read_state(self._path, MAX_BYTES), type=dict[str, TrustRecord]
            )
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError, UnicodeError) as error:
            self.diagnostics = (self._fault(str(error)),)

    def is_trusted(self, entry: SidecarEntry) -> bool:
        """Whether this very value of the entry may run."""
        if entry.source is Source.USER:
            return True
        known = self._entries.get(entry.id)
        return known is not None and bool(entry.digest) and known.digest == entry.digest

    def last_trusted(self, sidecar: str) -> TrustRecord | None:
        """What trust was given to last under that id. Its `raw` is as the file has it: whoever runs it
        takes its digest anew."""
        return self._entries.get(sidecar)

    def accepted_entries(self) -> tuple[tuple[str, str], ...]:
        """Everything that trust was given to, as (id, digest), whether the registry still has it or not."""
        return tuple((sidecar, item.digest) for sidecar, item in sorted(self._entries.items()))

    def trusted_ids(self, registry: Registry) -> frozenset[str]:
        """Ids of the registry's entries that may run."""
        return frozenset(entry.id for entry in registry.entries if self.is_trusted(entry))

    def pending(self, registry: Registry, describe: Describe) -> tuple[TrustItem, ...]:
        """Entries that wait. What is invalid or disabled would not run, so it does not wait."""
        return tuple(
            self._item(entry, describe)
            for entry in registry.entries
            if entry.valid and entry.enabled and not self.is_trusted(entry)
        )

    def accept(self, pairs: tuple[tuple[str, str], ...], registry: Registry, now: float) -> Outcome:
        """Trust entries, as (id, digest shown). One that is another now is not trusted, the rest is;
        `accepted` only where all were. `now` is Unix time, seconds."""
        entries = dict(self._entries)
        changed = []
        for sidecar, shown in pairs:
            entry = registry.entry(sidecar)
            if entry is None or not entry.valid or not shown or entry.digest != shown:
                changed.append(sidecar)
                continue
            entries[sidecar] = TrustRecord(digest=shown, at=now, raw=entry.raw)
        failure = self._store(entries) if len(changed) < len(pairs) else ""
        if failure:
            return Outcome(accepted=False, why_not=failure)
        if changed:
            why = f"changed since it was shown: {', '.join(changed)}"
            return Outcome(accepted=False, why_not=why)
        return Outcome(accepted=True)

    def revoke(self, ids: frozenset[str] | None = None) -> Outcome:
        """Trust these entries no longer; None means all."""
        kept = {key: item for key, item in self._entries.items() if ids is not None and key not in ids}
        failure = self._store(kept)
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

    def _store(self, entries: Mapping[str, TrustRecord]) -> str:
        """Write, then believe: what is on disk is what holds. The sentence says why it failed."""
        document: Json = {key: msgspec.to_builtins(item) for key, item in entries.items()}
        try:
            write_state(self._path, document, MAX_BYTES)
        except OSError as error:
            return f"trust could not be written: {error}"
        self._entries, self.diagnostics = entries, ()
        return ""

    def _fault(self, why: str) -> Diagnostic:
        return Diagnostic(
            severity=Severity.ERROR,
            rule="trust-file",
            message=f"trust cannot be read, so no entry of the project is trusted: {why}",
            remedy="run flytui trust: what is accepted there is written anew",
            position=Position(file=str(self._path), line=1, column=1),
        )


def set_digest(items: tuple[TrustItem, ...]) -> str:
    """One digest over a set of entries, whatever their order: 64 hex digits."""
    return digest(sorted([item.sidecar, item.digest] for item in items))
