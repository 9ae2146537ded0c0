"""The reading of a root's files, and of the programs that its entries lead to. Starts no process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flycore.approval.accepted_seals import AcceptedSeals
from flycore.catalog.builtin import AGENT_ACTIONS, KNOWN, is_builtin_name
from flycore.catalog.plan_capabilities import plan_names
from flycore.catalog.probes import ProbeWork
from flycore.discovery.tool_layers import read_tool_layers
from flycore.model.diagnostics import Diagnostic
from flycore.model.enums import Kind
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.packages.inventory import list_packages
from flycore.pipeline.context import Files
from flycore.pipeline.context import RootEnvironment as RootEnvironment
from flycore.policy.evaluate import load_policy
from flycore.policy.files import SystemFile
from flycore.registry.created_tools import project_limits
from flycore.registry.load import add_discovered, load_registry
from flycore.registry.paths import RootPaths
from flycore.registry.resolve import at_url
from flycore.registry.settings import load_settings
from flycore.sandbox.detection import SandboxSupport, detection
from flycore.sandbox.seals import find_distribution

ResolvedPrograms = tuple[dict[str, ResolvedProgram], dict[str, dict[str, ResolvedProgram]]]
"""The programs by sidecar, and the delegates by sidecar and name."""


def find_environment(places: RootPaths, environ: Mapping[str, str]) -> RootEnvironment:
    """Return the environment of this process. Programs beside its interpreter are found before PATH."""
    bin_dir = Path(sys.executable).parent
    return RootEnvironment(
        places, environ, bin_dir, find_distribution(bin_dir), AcceptedSeals(places.seals_file)
    )


def sandbox_support() -> SandboxSupport:
    """Return the levels of the sandbox that work here. The first time, and after a failure, this waits for
    processes."""
    # The kernel's own tools that start programs always need one.
    return detection.support()


def is_reserved(tool: str) -> bool:
    """Return whether the name belongs to a tool of the kernel, a plan, or a known capability, so that no file
    but a registry may offer it."""
    return tool in KNOWN or tool in AGENT_ACTIONS or tool in plan_names() or is_builtin_name(tool)


def read_files(environment: RootEnvironment, last: Files | None) -> Files:
    """Read registry, discovered tools, policy and settings. If the registry does not parse, the entries of
    `last` stay."""
    known = frozenset(KNOWN)
    registry = load_registry(
        environment.places, known=known, environ=environment.environ, previous=last.registry if last else None
    )
    programs, delegates = resolve_programs(environment, registry, registry.entries)
    delegated = (program for found in delegates.values() for program in found.values())
    run = {program.path for program in (*programs.values(), *delegated) if program.path}
    declared_ids = {entry.id for entry in registry.entries}
    for layer in read_tool_layers(environment.places, environment.environ, is_reserved, run):
        registry = add_discovered(registry, layer.entries, layer.diagnostics)
    found = tuple(entry for entry in registry.entries if entry.id not in declared_ids)
    programs |= resolve_programs(environment, registry, found)[0]
    declared = (*registry.entries, *registry.replaced)
    claimed = {name for entry in declared for name in entry.tool_names}
    claimed |= {f"{entry.id}.*" for entry in declared if entry.kind is Kind.MCP}
    before = last.policy if last else None
    policy = load_policy(
        environment.places, before, names=known | AGENT_ACTIONS | claimed, system=SystemFile()
    )
    settings, problems = load_settings(environment.places.config_dir)
    registry = with_diagnostics(registry, (*policy.diagnostics, *problems))
    return Files(
        registry=registry,
        policy=policy,
        settings=settings,
        programs=programs,
        delegates=delegates,
        project_limits=project_limits(environment.places.app_root),
        packages=list_packages(environment.places),
    )


def resolve_programs(
    environment: RootEnvironment, registry: Registry, entries: tuple[SidecarEntry, ...]
) -> ResolvedPrograms:
    """Find the programs of these entries and of their delegates. Invalid entries are left out."""
    usable = [entry for entry in entries if entry.valid and entry.command]
    programs = {entry.id: environment.resolve(registry, entry, entry.command, entry.args) for entry in usable}
    programs |= {entry.id: at_url(entry) for entry in entries if entry.valid and entry.url}
    delegates = {
        entry.id: {
            name: environment.resolve(registry, entry, delegate.command, delegate.args)
            for name, delegate in entry.delegates.items()
        }
        for entry in usable
        if entry.delegates
    }
    return programs, delegates


def with_diagnostics(registry: Registry, more: tuple[Diagnostic, ...]) -> Registry:
    return msgspec.structs.replace(registry, diagnostics=(*registry.diagnostics, *more)) if more else registry


def probe_work(environment: RootEnvironment, files: Files, entry: SidecarEntry) -> ProbeWork:
    """Return what the prober needs to probe one sidecar."""
    program = files.programs[entry.id]
    return ProbeWork(
        entry=entry,
        program=program,
        bundled=environment.bundled(program),
        delegates=files.delegates.get(entry.id, {}),
        environ=environment.environ,
    )
