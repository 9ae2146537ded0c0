"""The files of a root as they are written, and the trust a person gave to their entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flycore.approval.describe import describe_entry
from flycore.approval.trust import TrustStore
from flycore.audit import events as audit_events
from flycore.catalog.known import KNOWN
from flycore.kernel.in_force import InForce, in_force
from flycore.kernel.world import Ground, read_files
from flycore.model.approval import DecideOutcome
from flycore.model.canonical import JsonObject
from flycore.model.diagnostics import Diagnostic
from flycore.model.enums import Source
from flycore.model.sidecar import SidecarEntry
from flycore.model.source import Import
from flycore.model.trust import TrustItem
from flycore.registry.adding import add_entry
from flycore.registry.places import REGISTRY_FILE
from flycore.registry.starter import starter_entries, write_starter
from flycore.registry.switch import otherwise, switch_entry

Given = tuple[tuple[str, str], ...]
"""Entries as (sidecar id, digest)."""
Lines = tuple[tuple[str, JsonObject], ...]
"""Lines for the log: event and fields."""
_CONSOLE = "console"


class Told(NamedTuple):
    """What became of a person's wish, and the lines the log is to have of it."""

    outcome: DecideOutcome
    lines: Lines = ()


class Trusting:
    """Reads the files when it is made and when told to. Not for two threads at once."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._store = TrustStore.load(ground.places.state_dir / "trust.json")
        self._declared = read_files(ground, None)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Why the kept trust could not be relied on."""
        return self._store.diagnostics

    def read(self) -> None:
        """Read the files again. A registry that does not parse keeps its last good entries."""
        self._declared = read_files(self._ground, self._declared)

    def hold(self) -> tuple[InForce, tuple[TrustItem, ...]]:
        """What is in force, and the entries that wait, described by what they would run."""
        declared = self._declared

        def describe(entry: SidecarEntry) -> tuple[str, ...]:
            return describe_entry(entry, declared.resolutions(entry.id))

        held = in_force(self._ground, declared, self._store)
        return held, self._store.pending(declared.registry, describe)

    def accept(self, accepted: Given, now: float) -> Told:
        """Trust entries, as shown, that still are so in the files. `now` is Unix time."""
        self.read()
        outcome = self._store.accept(accepted, self._declared.registry, now)
        given = tuple(pair for pair in accepted if self._holds(*pair))
        return Told(outcome, _trusted(given))

    def revoke(self, by: str) -> Told:
        """Trust nothing any longer; `by` says in the log who wished it."""
        given = self._store.given()
        outcome = self._store.revoke()
        fields = audit_events.trust_decided(given, by=by, revoked=True)
        told = outcome.accepted and bool(given)
        return Told(outcome, ((audit_events.TRUST_DECIDED, fields),) if told else ())

    def switch(self, sidecar: str, enabled: bool, reason: str, now: float) -> Told:
        """Switch an entry on or off in the file that declares it. Trust goes on where it was given to a value
        that is equal but for the switch: then the person has changed nothing else."""
        self.read()
        entry = self._declared.registry.entry(sidecar)
        if entry is None:
            return Told(DecideOutcome(accepted=False, why_not=f"the registry has no entry {sidecar}"))
        file = entry.position.file
        made = switch_entry(self._ground.places, entry.source, sidecar, enabled, reason, file)
        if made.why_not:
            return Told(DecideOutcome(accepted=False, why_not=made.why_not))
        self.read()
        fields = audit_events.entry_switched(sidecar, file, enabled=enabled, reason=reason, by=_CONSOLE)
        return Told(
            DecideOutcome(accepted=True),
            ((audit_events.REGISTRY_EDITED, fields), *self._trust_on(entry, enabled, now)),
        )

    def _trust_on(self, before: SidecarEntry, enabled: bool, now: float) -> Lines:
        """Trust what the switch made of a trusted entry, and nothing that came with it."""
        entry = self._declared.registry.entry(before.id)
        last = self._store.last_trusted(before.id)
        if entry is None or last is None or last.raw is None or entry.source is not Source.PROJECT:
            return ()
        same = otherwise(last.raw) == otherwise(before.raw) == otherwise(entry.raw)
        if not same or entry.enabled is not enabled:
            return ()
        return self._give(((entry.id, entry.digest),), now)

    def start(self, now: float) -> Told:
        """Write the starter registry where there is none. Its entries are trusted, as the person was shown
        the very text; another's that stand there instead are not."""
        why_not = write_starter(self._ground.places)
        if why_not:
            return Told(DecideOutcome(accepted=False, why_not=why_not))
        self.read()
        fields = audit_events.starter_written(REGISTRY_FILE, by=_CONSOLE)
        shown = tuple((entry.id, entry.digest) for entry in starter_entries(frozenset(KNOWN)))
        there = {entry.id: entry.digest for entry in self._declared.registry.entries}
        given = tuple((sidecar, digest) for sidecar, digest in shown if there.get(sidecar) == digest)
        return Told(
            DecideOutcome(accepted=True),
            ((audit_events.REGISTRY_EDITED, fields), *self._give(given, now)),
        )

    def import_server(self, offered: Import, now: float, by: str = _CONSOLE) -> Told:
        """Write an entry for a server of another client's file, and trust it, as the person was shown every
        key of it. `offered` is what was found in that file just now, `by` says in the log who did."""
        made = add_entry(self._ground.places, offered.id, offered.entry)
        if made.why_not:
            return Told(DecideOutcome(accepted=False, why_not=made.why_not))
        self.read()
        fields = audit_events.server_imported(offered.id, offered.digest, by=by)
        entry = self._declared.registry.entry(offered.id)
        same = entry is not None and entry.source is Source.PROJECT and entry.raw == offered.entry
        given = ((offered.id, entry.digest),) if entry is not None and same else ()
        return Told(
            DecideOutcome(accepted=True),
            ((audit_events.REGISTRY_EDITED, fields), *self._give(given, now, by)),
        )

    def _give(self, pairs: Given, now: float, by: str = _CONSOLE) -> Lines:
        self._store.accept(pairs, self._declared.registry, now)
        return _trusted(tuple(pair for pair in pairs if self._holds(*pair)), by)

    def _holds(self, sidecar: str, shown: str) -> bool:
        """Whether that value stands in the files and is trusted."""
        entry = self._declared.registry.entry(sidecar)
        return entry is not None and entry.digest == shown and self._store.is_trusted(entry)


def _trusted(given: Given, by: str = _CONSOLE) -> Lines:
    fields = audit_events.trust_decided(given, by=by)
    return ((audit_events.TRUST_DECIDED, fields),) if given else ()


Wish = Callable[[Trusting, float], Told]
"""What a person wants done, in a thread of its own; at that Unix time."""
