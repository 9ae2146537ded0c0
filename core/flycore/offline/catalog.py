"""The catalog of a root without a kernel, from its files and from what is known of its sidecars: no lock, no
log, and no process but the trials of the sandbox."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import msgspec

from flycore.catalog.observations import Answer, Observation, Observations
from flycore.catalog.probes import ProbeCache, known_finding, probe_mode
from flycore.discovery.scan import scan, search_roots
from flycore.kernel.load_state import find_environment, probe_work, read_files
from flycore.kernel.root_state import root_state
from flycore.kernel.schema_answers import SchemaCache, note_cached
from flycore.kernel.trust import Trust
from flycore.model.catalog import Catalog
from flycore.model.described import Described
from flycore.model.diagnostics import Check
from flycore.model.enums import Kind
from flycore.model.sidecar import SidecarEntry
from flycore.pipeline.context import Files, RootEnvironment, RootState
from flycore.registry.paths import RootPaths


class RootReading(msgspec.Struct, frozen=True):
    """The files of a root, read once without a kernel, and the known answers of its sidecars."""

    environment: RootEnvironment
    declared: Files
    trust: Trust
    described: tuple[Described, ...]
    schemas: SchemaCache
    observations: Observations
    """The known answers of its executables, and after `known_catalog` those of all sidecars."""
    waiting_trust: int
    """Entries that wait for trust, those included that changed since they were trusted."""
    state: RootState
    """The state without the answer of any probe."""

    @property
    def files(self) -> Files:
        """The files as the kernel applies them."""
        return self.state.files

    def probed_entries(self) -> tuple[SidecarEntry, ...]:
        """Return the trusted entries whose sidecars may be probed here."""
        found = (
            self.files.registry.entry(view.id)
            for view in self.state.catalog.sidecars
            if view.trusted and view.entry.kind is not Kind.EXECUTABLE and view.stability.sandbox is not None
        )
        return tuple(entry for entry in found if entry is not None)

    def asks_nobody(self) -> bool:
        """Return whether a probe of everything would start no process, since there is nobody to ask."""
        executables = (
            entry.id
            for entry in self.files.registry.entries
            if entry.kind is Kind.EXECUTABLE and entry.id in self.files.trusted
        )
        return all(sidecar in self.observations.current for sidecar in executables) and all(
            probe_mode(probe_work(self.environment, self.files, entry)) is None
            for entry in self.probed_entries()
        )


def read_root(places: RootPaths, environ: Mapping[str, str] | None = None) -> RootReading:
    """Read the files of a root. `environ` is by default that of this process."""
    environment = find_environment(places, dict(os.environ if environ is None else environ))
    trust = Trust.load(places, stores_lists=False)
    declared = read_files(environment, None)
    schemas, observations = SchemaCache(places), Observations()
    note_cached(declared, schemas, observations)
    described = scan(search_roots(places, environment.environ))
    state = root_state(environment, declared, trust, observations.current, time.time(), described)
    waiting = sum(map(trust.entries.waits, declared.registry.entries))
    return RootReading(environment, declared, trust, described, schemas, observations, waiting, state)


def known_catalog(root: RootReading) -> Catalog:
    """Return the catalog with the latest answer of each sidecar, however old it is."""
    probes = ProbeCache(root.environment.places.cache_dir)
    before = root.observations.current
    for entry in root.probed_entries():
        finding = known_finding(probes, probe_work(root.environment, root.files, entry))
        if finding is not None:
            root.observations.note(entry, Answer(finding=finding))
    after = root.observations.current
    return catalog_with(root, after) if after is not before else root.state.catalog


def catalog_with(root: RootReading, observations: Mapping[str, Observation]) -> Catalog:
    """Return the catalog that shows these observations, by sidecar."""
    state = root_state(root.environment, root.declared, root.trust, observations, time.time(), root.described)
    return state.catalog


def check_root(places: RootPaths, catalog: Catalog) -> tuple[Check, ...]:
    """Run every doctor check but the terminal's, for a root without a kernel. Reads the whole log."""
    from flycore.kernel.doctor import check_up

    return check_up(places, dict(os.environ), catalog, None)
