"""What a root's registry would run and nobody has trusted yet, read from the files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flycore.approval.trust import TrustStore
    from flycore.kernel.world import Files
    from flycore.model.trust import TrustItem
    from flycore.registry.places import Places


@dataclass(frozen=True, slots=True)
class Pending:
    """The files, the trust store, and the entries that wait."""

    files: Files
    store: TrustStore
    items: tuple[TrustItem, ...]

    @property
    def digest(self) -> str:
        """Over the whole set; empty where nothing waits."""
        from flycore.approval.trust import set_digest

        return set_digest(self.items) if self.items else ""


def read_pending(places: Places) -> Pending:
    """Read registry and trust. Spawns nothing, writes nothing."""
    from flycore.approval.describe import describe_entry
    from flycore.approval.trust import TrustStore
    from flycore.kernel.world import find_ground, read_files

    files = read_files(find_ground(places, dict(os.environ)), None)
    store = TrustStore.load(places.trust_file)
    items = store.pending(files.registry, lambda entry: describe_entry(entry, files.resolutions(entry.id)))
    return Pending(files, store, items)
