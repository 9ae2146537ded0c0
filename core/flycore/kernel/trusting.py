"""The files of a root as they are written, and the trust a person gave to their entries."""

from __future__ import annotations

from flycore.approval.describe import describe_entry
from flycore.approval.trust import TrustStore
from flycore.kernel.in_force import InForce, in_force
from flycore.kernel.world import Ground, read_files
from flycore.model.approval import DecideOutcome
from flycore.model.diagnostics import Diagnostic
from flycore.model.sidecar import SidecarEntry
from flycore.model.trust import TrustItem

Given = tuple[tuple[str, str], ...]
"""Entries as (sidecar id, digest)."""


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

    def accept(self, accepted: Given, now: float) -> tuple[DecideOutcome, Given]:
        """Trust entries, as shown, that still are so in the files; and which were. `now` is Unix time."""
        self.read()
        registry = self._declared.registry
        outcome = self._store.accept(accepted, registry, now)
        given = tuple(
            (sidecar, shown)
            for sidecar, shown in accepted
            if (entry := registry.entry(sidecar)) is not None
            and entry.digest == shown
            and self._store.is_trusted(entry)
        )
        return outcome, given

    def revoke(self) -> tuple[DecideOutcome, Given]:
        """Trust nothing any longer; and what was trusted until now."""
        given = self._store.given()
        return self._store.revoke(), given
