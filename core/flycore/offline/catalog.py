"""The catalog of a root without a kernel: no lock, no audit, and without `probe` no process."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import anyio

from flycore.approval.tool_blocks import ToolBlockStore
from flycore.approval.tool_definitions import ToolDefinitionStore
from flycore.approval.trust_store import TrustStore
from flycore.catalog.probes import ProbeCache, ProbeFinding, Prober
from flycore.discovery.scan import scan, search_roots
from flycore.kernel.crash_recovery import new_session
from flycore.kernel.doctor import check_up
from flycore.kernel.effective_entries import EffectiveFiles, effective_files
from flycore.kernel.load_state import (
    Observations,
    RootEnvironment,
    blocked_tools,
    build_state,
    find_environment,
    read_files,
)
from flycore.kernel.probe_runner import probe_spawn, probe_work
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Check
from flycore.model.enums import Kind
from flycore.registry.paths import RootPaths


async def read_catalog(
    places: RootPaths, *, probe: bool, environ: Mapping[str, str] | None = None
) -> Catalog:
    """What a kernel opened now would show; with `probe` after asking the trusted sidecars, otherwise
    with the answers that are still remembered."""
    ground = find_environment(places, dict(os.environ if environ is None else environ))
    trust = TrustStore.load(places.trust_file)
    held = effective_files(ground, read_files(ground, None), trust)
    files = held.files
    cheap = _build_catalog(places, ground, held, trust, {})
    prober = Prober(
        probe_spawn(ground, lambda: files, new_session()), ProbeCache(places.cache_dir), time.time
    )
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
            if view.id in held.trusted and view.stability.sandbox is not None:
                group.start_soon(look, view.id)
    return _build_catalog(places, ground, held, trust, found)


def check_root(places: RootPaths, catalog: Catalog) -> tuple[Check, ...]:
    """Every check of Doctor but those of a terminal, for a root without a kernel. Reads the whole log."""
    return check_up(places, dict(os.environ), catalog, None)


def _build_catalog(
    places: RootPaths,
    ground: RootEnvironment,
    held: EffectiveFiles,
    trust: TrustStore,
    found: Mapping[str, ProbeFinding],
) -> Catalog:
    blocks = ToolBlockStore.load(places.blocks_file)
    book = ToolDefinitionStore.load(places.definitions_file)
    registry = held.files.registry
    offers = {
        entry.id: book.offer(entry, None)
        for entry in registry.entries
        if entry.kind is Kind.MCP and entry.id in held.trusted
    }
    seen = Observations(
        trusted=held.trusted,
        probes=found,
        runtime={},
        diagnostics=(*trust.diagnostics, *blocks.diagnostics),
        described=scan(search_roots(places, ground.environ)),
        changed=held.changed,
        offers=offers,
        blocked=blocked_tools(registry, blocks, offers),
    )
    return build_state(ground, held.files, seen, version=1, now=time.time()).catalog
