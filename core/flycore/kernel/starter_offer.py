"""The offer of the starter registry: what each bundled sidecar finds on this machine.

It is asked by its probe, before any entry for it is written."""

from __future__ import annotations

import time

import anyio
import msgspec

from flycore.catalog.builtin import KNOWN
from flycore.catalog.observations import Answer, Observations
from flycore.catalog.prober import Prober
from flycore.catalog.probes import ProbeCache
from flycore.kernel.load_state import probe_work, resolve_programs
from flycore.kernel.probe_runner import probe_spawn
from flycore.kernel.root_state import state_in_force
from flycore.model.catalog import CapabilityView, Catalog
from flycore.model.diagnostics import FixKind
from flycore.model.enums import Source
from flycore.model.sidecar import Registry
from flycore.model.starter import StarterEntry, StarterOffer, StarterTool
from flycore.pipeline.context import Files, RootEnvironment
from flycore.registry.edits import read_for_edit
from flycore.registry.parse_registry import parse_registry
from flycore.registry.starter import StarterPiece, registered, registry_of, starter_pieces


async def starter_offer(
    environment: RootEnvironment, files: Files, cache: ProbeCache, session: str, *, ask: bool = True
) -> StarterOffer:
    """Ask the bundled sidecars what works here, and return the entries with their answers.

    `files` are the root's files, whose policy and settings count. Only programs of this distribution are
    started, sandboxed as for a call; they need no trust, as no file of the project names them. Without `ask`
    none is started, and what is known of them is used.
    """
    pieces = await anyio.to_thread.run_sync(starter_pieces, environment.places.app_root, environment.environ)
    proposed = await anyio.to_thread.run_sync(_proposed_files, environment, files, pieces)
    observations = Observations()
    prober = Prober(probe_spawn(environment, lambda: proposed, session), cache, time.time)

    async def find(sidecar: str) -> None:
        entry = proposed.registry.entry(sidecar)
        if entry is None:
            return
        work = probe_work(environment, proposed, entry)
        finding = await prober.probe(work) if ask else prober.known(work)
        if finding is not None:
            observations.note(entry, Answer(finding=finding))

    async with anyio.create_task_group() as group:
        for sidecar, program in proposed.programs.items():
            if environment.bundled(program):
                group.start_soon(find, sidecar)
    known, now = observations.current, time.time()
    catalog = (await anyio.to_thread.run_sync(state_in_force, environment, proposed, known, now)).catalog
    relative, text, _, _ = await anyio.to_thread.run_sync(read_for_edit, environment.places)
    present = registered(text, relative) if text is not None else frozenset[str]()
    return StarterOffer(
        file=relative,
        exists=text is not None,
        entries=tuple(_offered(piece, proposed.registry, catalog, piece.id in present) for piece in pieces),
    )


def _proposed_files(environment: RootEnvironment, files: Files, pieces: tuple[StarterPiece, ...]) -> Files:
    """The root's files, as if its registry had the starter entries alone, each switched on."""
    relative = read_for_edit(environment.places).relative
    entries, _ = parse_registry(registry_of(pieces), relative, Source.PROJECT, frozenset(KNOWN))
    app_root = files.registry.app_root
    enabled = tuple(
        msgspec.structs.replace(entry, enabled=True).with_origin(app_root) for entry in entries or ()
    )
    registry = Registry(
        app_root=app_root,
        config_dir=files.registry.config_dir,
        workspace=files.registry.workspace,
        entries=enabled,
    )
    programs, delegates = resolve_programs(environment, registry, enabled)
    return Files(
        registry=registry,
        policy=files.policy,
        settings=files.settings,
        programs=programs,
        delegates=delegates,
        trusted=frozenset(entry.id for entry in enabled),
    )


def _offered(piece: StarterPiece, registry: Registry, catalog: Catalog, present: bool) -> StarterEntry:
    entry = registry.entry(piece.id)
    names = entry.tool_names if entry is not None else ()
    views = (catalog.capability(name) for name in names)
    tools = tuple(_tool(view) for view in views if view is not None)
    return StarterEntry(id=piece.id, text=piece.text, tools=tools, present=present)


def _tool(view: CapabilityView) -> StarterTool:
    stability = view.stability
    reason = next(iter(stability.reasons), None)
    fix = next((found.fix for found in stability.reasons if found.fix is not None), None)
    return StarterTool(
        name=view.capability.name,
        state=stability.effective,
        reason=reason.message if reason is not None else "",
        remedy=reason.remedy if reason is not None else "",
        command=fix.argv if fix is not None and fix.kind is FixKind.COMMAND else (),
    )
