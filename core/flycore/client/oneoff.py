"""The catalog without a kernel: no lock, no audit, and without `probe` no process."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import anyio

from flycore.approval.blocks import BLOCKS_FILE, BlockBook
from flycore.approval.trust import TrustStore
from flycore.catalog.findings import ProbeFinding
from flycore.catalog.probe_cache import ProbeCache
from flycore.catalog.probes import Prober
from flycore.kernel.probing import probe_spawn, probe_work
from flycore.kernel.world import Files, Ground, Observed, blocked_tools, build_world, find_ground, read_files
from flycore.model.catalog import Catalog
from flycore.registry.places import Places


async def read_catalog(places: Places, *, probe: bool, environ: Mapping[str, str] | None = None) -> Catalog:
    """What a kernel opened now would show; with `probe` after asking the trusted sidecars, otherwise
    with the answers that are still remembered."""
    ground = find_ground(places, dict(os.environ if environ is None else environ))
    files = read_files(ground, None)
    trust = _trust(places)
    trusted = trust.trusted_ids(files.registry)
    cheap = _built(places, ground, files, trust, {})
    prober = Prober(probe_spawn(ground, lambda: files), ProbeCache(places.cache_dir), time.time)
    found: dict[str, ProbeFinding] = {}

    async def look(sidecar: str) -> None:
        entry = files.registry.entry(sidecar)
        if entry is None:
            return
        work = probe_work(ground, files, entry)
        finding = await prober.probe(work) if probe else prober.known(work)
        if finding is not None:
            found[sidecar] = finding

    async with anyio.create_task_group() as group:
        for view in cheap.sidecars:
            if view.id in trusted and view.stability.sandbox is not None:
                group.start_soon(look, view.id)
    return _built(places, ground, files, trust, found)


def _trust(places: Places) -> TrustStore:
    return TrustStore.load(places.state_dir / "trust.json")


def _built(
    places: Places, ground: Ground, files: Files, trust: TrustStore, found: Mapping[str, ProbeFinding]
) -> Catalog:
    blocks = BlockBook.load(places.state_dir / BLOCKS_FILE)
    seen = Observed(
        trusted=trust.trusted_ids(files.registry),
        probes=found,
        runtime={},
        diagnostics=(*trust.diagnostics, *blocks.diagnostics),
        blocked=blocked_tools(files.registry, blocks),
    )
    return build_world(ground, files, seen, version=1, now=time.time()).catalog
