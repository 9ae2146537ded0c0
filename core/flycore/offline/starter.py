"""The starter registry of a root without a kernel: what the bundled sidecars find, and the write.

As every edit of a registry without a kernel, it trusts nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from flycore.catalog.probes import ProbeCache
from flycore.kernel.load_state import find_environment, read_files
from flycore.kernel.starter_offer import starter_offer
from flycore.model.session import new_session
from flycore.model.starter import StarterOffer
from flycore.registry.paths import RootPaths
from flycore.registry.starter import StarterEdit as StarterEdit
from flycore.registry.starter import plan_starter as plan_starter
from flycore.registry.starter import registry_of, starter_pieces
from flycore.registry.starter import write_plan as write_plan


async def read_offer(places: RootPaths, environ: Mapping[str, str]) -> StarterOffer:
    """Ask the bundled sidecars what works on this machine, and return the entries for them."""
    environment = find_environment(places, environ)
    files = read_files(environment, None)
    return await starter_offer(environment, files, ProbeCache(places.cache_dir), new_session())


def starter_names() -> tuple[str, ...]:
    """Return the ids of all entries of the starter registry."""
    return tuple(piece.id for piece in starter_pieces(Path("/"), {}))


def starter_registry(places: RootPaths, environ: Mapping[str, str], sidecars: Collection[str]) -> str:
    """Return the text of a registry with these entries alone, for this machine."""
    pieces = starter_pieces(places.app_root, environ)
    return registry_of(piece for piece in pieces if piece.id in sidecars)
