"""The catalog of a root without a kernel, from its files and from what is known of its sidecars: no lock, no
log, and no process but the trials of the sandbox."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import msgspec

from flycore.approval.tool_blocks import ToolBlockStore
from flycore.approval.tool_definitions import ToolDefinitionStore
from flycore.approval.trust_store import TrustStore
from flycore.catalog.observations import NOTHING_SEEN, Answer, Observation, Observations, all_holding
from flycore.catalog.probes import ProbeCache, known_finding, probe_mode
from flycore.discovery.scan import scan, search_roots
from flycore.kernel.effective_entries import EffectiveFiles, effective_files
from flycore.kernel.load_state import (
    Files,
    RootEnvironment,
    Situation,
    blocked_tools,
    build_state,
    find_environment,
    probe_work,
    read_files,
    sandbox_support,
)
from flycore.kernel.schema_answers import SchemaCache, note_cached
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Check
from flycore.model.enums import Kind
from flycore.model.sidecar import SidecarEntry
from flycore.model.upstream import McpToolOffer
from flycore.registry.paths import RootPaths


class RootReading(msgspec.Struct, frozen=True):
    """The files of a root, read once without a kernel, and what is known of its sidecars."""

    environment: RootEnvironment
    effective: EffectiveFiles
    trust: TrustStore
    schemas: SchemaCache
    observations: Observations
    """What is known of its executables, and with `known_catalog` of all sidecars."""
    waiting_trust: int
    """Entries that wait for trust, those included that changed since they were trusted."""
    unprobed: Catalog
    """The catalog without the answer of any probe."""

    @property
    def files(self) -> Files:
        """The files as the kernel applies them."""
        return self.effective.files

    def probed_entries(self) -> tuple[SidecarEntry, ...]:
        """Return the trusted entries whose sidecars may be probed here."""
        found = (
            self.files.registry.entry(view.id)
            for view in self.unprobed.sidecars
            if view.id in self.effective.trusted
            and view.entry.kind is not Kind.EXECUTABLE
            and view.stability.sandbox is not None
        )
        return tuple(entry for entry in found if entry is not None)

    def asks_nobody(self) -> bool:
        """Return whether a probe of everything would start no process, since there is nobody to ask."""
        executables = (
            entry.id
            for entry in self.files.registry.entries
            if entry.kind is Kind.EXECUTABLE and entry.id in self.effective.trusted
        )
        return all(sidecar in self.observations.current for sidecar in executables) and all(
            probe_mode(probe_work(self.environment, self.files, entry)) is None
            for entry in self.probed_entries()
        )


def read_root(places: RootPaths, environ: Mapping[str, str] | None = None) -> RootReading:
    """Read the files of a root. `environ` is by default that of this process."""
    environment = find_environment(places, dict(os.environ if environ is None else environ))
    trust = TrustStore.load(places.trust_file)
    files = read_files(environment, None)
    effective = effective_files(environment, files, trust)
    schemas = SchemaCache(places)
    observations = Observations()
    note_cached(effective.files, schemas, observations)
    unprobed = _build_catalog(environment, effective, trust, observations.current)
    waiting = sum(map(trust.waits, files.registry.entries))
    return RootReading(environment, effective, trust, schemas, observations, waiting, unprobed)


def known_catalog(root: RootReading) -> Catalog:
    """Return the catalog with the latest answer of each sidecar, however old it is."""
    probes = ProbeCache(root.environment.places.cache_dir)
    before = root.observations.current
    for entry in root.probed_entries():
        finding = known_finding(probes, probe_work(root.environment, root.files, entry))
        if finding is not None:
            root.observations.note(entry, Answer(finding=finding))
    seen = root.observations.current
    return catalog_with(root, seen) if seen is not before else root.unprobed


def catalog_with(root: RootReading, seen: Mapping[str, Observation]) -> Catalog:
    """Return the catalog that shows these observations, by sidecar."""
    return _build_catalog(root.environment, root.effective, root.trust, seen)


def check_root(places: RootPaths, catalog: Catalog) -> tuple[Check, ...]:
    """Run every doctor check but the terminal's, for a root without a kernel. Reads the whole log."""
    from flycore.kernel.doctor import check_up

    return check_up(places, dict(os.environ), catalog, None)


def _build_catalog(
    environment: RootEnvironment,
    effective: EffectiveFiles,
    trust: TrustStore,
    seen: Mapping[str, Observation],
) -> Catalog:
    places, now = environment.places, time.time()
    blocks = ToolBlockStore.load(places.blocks_file)
    definitions = ToolDefinitionStore.load(places.definitions_file)
    registry = effective.files.registry
    offers = {
        entry.id: definitions.offer(entry, None)
        for entry in registry.entries
        if entry.kind is Kind.MCP and entry.id in effective.trusted
    }
    for entry in registry.entries:
        answer = seen.get(entry.id, NOTHING_SEEN).answer
        if entry.kind is Kind.EXECUTABLE and entry.id in effective.trusted:
            unknown = answer is not None and answer.listing is None
            listing = answer.listing if answer is not None else None
            offers[entry.id] = McpToolOffer() if unknown else definitions.first_offer(entry, listing)
    observed = Situation(
        trusted=effective.trusted,
        seen=all_holding(seen, registry, effective.files.resolutions, now),
        diagnostics=(*trust.diagnostics, *blocks.diagnostics),
        described=scan(search_roots(places, environment.environ)),
        changed=effective.changed,
        offers=offers,
        blocked=blocked_tools(registry, blocks, offers),
        support=sandbox_support(),
    )
    return build_state(environment, effective.files, observed, version=1, now=now).catalog
