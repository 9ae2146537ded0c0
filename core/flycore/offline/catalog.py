"""The catalog of a root without a kernel: no lock, no log, and no process other than the probes and the
questions for schemas."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import anyio

from flycore.approval.tool_blocks import ToolBlockStore
from flycore.approval.tool_definitions import ToolDefinitionStore
from flycore.approval.trust_store import TrustStore
from flycore.catalog.probes import ProbeCache, ProbeFinding, Prober, known_finding
from flycore.discovery.scan import scan, search_roots
from flycore.kernel.effective_entries import EffectiveFiles, effective_files
from flycore.kernel.load_state import (
    Observations,
    RootEnvironment,
    blocked_tools,
    build_state,
    find_environment,
    probe_work,
    read_files,
    sandbox_support,
)
from flycore.kernel.mcp_status import McpStatus, findings_of
from flycore.kernel.schema_answers import SchemaCache, cached_statuses
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Check
from flycore.model.enums import Kind
from flycore.model.session import new_session
from flycore.model.upstream import McpToolOffer
from flycore.registry.paths import RootPaths


async def read_catalog(
    places: RootPaths,
    *,
    probe: bool,
    environ: Mapping[str, str] | None = None,
    schemas_again: bool = False,
) -> Catalog:
    """Build the catalog that a kernel started now would show.

    With `probe` the trusted sidecars are probed first, and trusted executables asked for the schemas that are
    not known, or with `schemas_again` for all of them; otherwise the cached answers are used.
    """
    environment = find_environment(places, dict(os.environ if environ is None else environ))
    trust = TrustStore.load(places.trust_file)
    effective = effective_files(environment, read_files(environment, None), trust)
    files = effective.files
    cache = SchemaCache(places)
    unprobed = _build_catalog(places, environment, effective, trust, {}, cached_statuses(files, cache))
    probes = ProbeCache(places.cache_dir)
    prober: Prober | None = None
    if probe:
        from flycore.kernel.probe_runner import probe_spawn  # most of the pipeline, which nothing else needs

        prober = Prober(probe_spawn(environment, lambda: files, new_session()), probes, time.time)
    findings: dict[str, ProbeFinding] = {}

    async def probe_sidecar(sidecar: str) -> None:
        entry = files.registry.entry(sidecar)
        if entry is None:
            return
        work = probe_work(environment, files, entry)
        finding = await prober.probe(work) if prober is not None else known_finding(probes, work)
        if finding is not None:
            findings[sidecar] = finding

    async with anyio.create_task_group() as group:
        for view in unprobed.sidecars:
            probed = view.entry.kind is not Kind.EXECUTABLE and view.stability.sandbox is not None
            if view.id in effective.trusted and probed:
                group.start_soon(probe_sidecar, view.id)
    statuses = cached_statuses(files, cache)
    if probe:
        from flycore.kernel.schema_asker import ask_unknown

        session = new_session()
        statuses = await ask_unknown(
            environment, files, unprobed, cache, session, time.time(), again=schemas_again
        )
    return _build_catalog(places, environment, effective, trust, findings, statuses)


def check_root(places: RootPaths, catalog: Catalog) -> tuple[Check, ...]:
    """Run every doctor check but the terminal's, for a root without a kernel. Reads the whole log."""
    from flycore.kernel.doctor import check_up

    return check_up(places, dict(os.environ), catalog, None)


def _build_catalog(
    places: RootPaths,
    environment: RootEnvironment,
    effective: EffectiveFiles,
    trust: TrustStore,
    probes: Mapping[str, ProbeFinding],
    statuses: Mapping[str, McpStatus],
) -> Catalog:
    blocks = ToolBlockStore.load(places.blocks_file)
    definitions = ToolDefinitionStore.load(places.definitions_file)
    registry = effective.files.registry
    offers = {
        entry.id: definitions.offer(entry, None)
        for entry in registry.entries
        if entry.kind is Kind.MCP and entry.id in effective.trusted
    }
    for entry in registry.entries:
        status = statuses.get(entry.id)
        if entry.kind is Kind.EXECUTABLE and entry.id in effective.trusted:
            unknown = status is not None and status.listing is None
            listing = status.listing if status is not None else None
            offers[entry.id] = McpToolOffer() if unknown else definitions.first_offer(entry, listing)
    observed = Observations(
        trusted=effective.trusted,
        probes={**probes, **findings_of(statuses, registry)},
        runtime={},
        diagnostics=(*trust.diagnostics, *blocks.diagnostics),
        described=scan(search_roots(places, environment.environ)),
        changed=effective.changed,
        offers=offers,
        blocked=blocked_tools(registry, blocks, offers),
        support=sandbox_support(),
    )
    return build_state(environment, effective.files, observed, version=1, now=time.time()).catalog
