"""The trust that this user gave in other app roots, found by the ids of entries. It permits nothing here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from flycore.approval.trust_store import TrustRecord, TrustStore
from flycore.model.repository import RepositoryIdentity
from flycore.registry.paths import TRUST_FILE, RootPaths

MOST_ROOTS = 1_000
"""Roots that are looked at."""


class TrustedRoots:
    """Reads the trust files of the other roots below the same state folder, each again when it changed."""

    def __init__(self, places: RootPaths) -> None:
        self._roots = places.state_dir.parent
        self._own = places.state_dir.name
        self._stores: dict[Path, TrustStore] = {}

    def records(self, sidecars: Iterable[str]) -> dict[str, tuple[TrustRecord, ...]]:
        """Return the trusted values of entries with these ids that say in which repository they were trusted,
        by id. Reads files."""
        wanted = frozenset(sidecars)
        found: dict[str, list[TrustRecord]] = {}
        for path in self._files() if wanted else ():
            for sidecar, record in self._records_of(path).items():
                if sidecar in wanted:
                    found.setdefault(sidecar, []).append(record)
        return {sidecar: tuple(records) for sidecar, records in found.items()}

    def _files(self) -> Iterator[Path]:
        try:
            names = sorted(os.listdir(self._roots))
        except OSError:
            return
        yield from (self._roots / name / TRUST_FILE for name in names[:MOST_ROOTS] if name != self._own)

    def _records_of(self, path: Path) -> Mapping[str, TrustRecord]:
        store = self._stores.get(path) or self._stores.setdefault(path, TrustStore(path))
        store.refresh()
        return store.placed_records()


def nearest_record(
    records: Iterable[TrustRecord], digest: str, here: RepositoryIdentity
) -> TrustRecord | None:
    """Return the latest record of the same repository, one of exactly that value if there is any."""
    same = (record for record in records if record.place and here.is_same(record.place.repository))
    return max(same, key=lambda record: (record.digest == digest, record.at), default=None)
