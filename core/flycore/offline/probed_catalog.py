"""The catalog of a root without a kernel, after its sidecars were probed and its executables asked."""

from __future__ import annotations

import time

import anyio

from flycore.catalog.observations import Answer, Observations
from flycore.catalog.prober import Prober
from flycore.catalog.probes import ProbeCache
from flycore.kernel.load_state import probe_work
from flycore.kernel.probe_runner import probe_spawn
from flycore.kernel.schema_asker import ask_unknown
from flycore.model.catalog import Catalog
from flycore.model.session import new_session
from flycore.model.sidecar import SidecarEntry
from flycore.offline.catalog import RootReading, catalog_with


async def probed_catalog(root: RootReading, *, schemas_again: bool = False) -> Catalog:
    """Build the catalog that a kernel started now would show.

    The trusted sidecars without a recent answer are probed, and trusted executables asked for the schemas
    that are not known, or with `schemas_again` for all of them. No other process is started.
    """
    environment, files = root.environment, root.files
    spawn = probe_spawn(environment, lambda: files, new_session())
    prober = Prober(spawn, ProbeCache(environment.places.cache_dir), time.time)
    observations = Observations() if schemas_again else root.observations

    async def probe_sidecar(entry: SidecarEntry) -> None:
        finding = await prober.probe(probe_work(environment, files, entry))
        observations.note(entry, Answer(finding=finding))

    async with anyio.create_task_group() as group:
        for entry in root.probed_entries():
            group.start_soon(probe_sidecar, entry)
    await ask_unknown(
        environment,
        files,
        root.state.catalog,
        root.schemas,
        observations,
        new_session(),
        time.time(),
        again=schemas_again,
    )
    return catalog_with(root, observations.current)
