"""The building of a root's state: its files, its programs, and the catalog. Starts no process of a tool; only
the levels of the sandbox are tried, the first time that an entry needs one."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

import flycore
from flycore.approval.accepted_seals import AcceptedSeals
from flycore.approval.entry_summary import COMMAND
from flycore.approval.tool_blocks import ToolBlockStore
from flycore.catalog.build import CatalogFacts, PolicyView, build_catalog
from flycore.catalog.builtin import AGENT_ACTIONS, KNOWN, is_builtin_name
from flycore.catalog.builtin_tools import builtin_names
from flycore.catalog.executable_tools import with_offered_tools
from flycore.catalog.fixes import AS_ROOT, MANAGERS, NEEDED, Machine
from flycore.catalog.observations import Observation
from flycore.catalog.plan_capabilities import plan_names
from flycore.catalog.probes import ProbeWork
from flycore.catalog.registry_capability import excess_of_created
from flycore.discovery.tool_layers import read_tool_layers
from flycore.kernel.builtin_state import builtin_state
from flycore.model.catalog import Capability
from flycore.model.described import Described
from flycore.model.diagnostics import Diagnostic
from flycore.model.enums import Kind, Level, PackageScope, PathState, Source, UpgradeState
from flycore.model.json import JsonObject
from flycore.model.package import PackageView
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.model.stability import SandboxReport
from flycore.model.upstream import McpToolOffer
from flycore.packages.inventory import list_packages
from flycore.pipeline.context import RootEnvironment as RootEnvironment
from flycore.pipeline.context import RootState
from flycore.policy.conditions import PolicyCall
from flycore.policy.evaluate import Policy, denying_rules, load_policy
from flycore.policy.files import SystemFile
from flycore.policy.overview import policy_overview
from flycore.registry.created_tools import created_limits, project_limits
from flycore.registry.load import add_discovered, load_registry
from flycore.registry.package_metadata import installed_version
from flycore.registry.paths import LEGACY_REGISTRY_FILE, REGISTRY_FILE, RootPaths
from flycore.registry.resolve import at_url
from flycore.registry.settings import Settings, load_settings
from flycore.sandbox.detection import UNTRIED, SandboxSupport, detection
from flycore.sandbox.environment import declared_secrets
from flycore.sandbox.levels import minimum_level, report
from flycore.sandbox.seals import find_distribution
from flycore.sandbox.secret_masks import Masks
from flysafe.own_process import erase_from_environment


def find_host_tools(environ: Mapping[str, str]) -> Machine:
    """Find the package manager and missing programs on the PATH of `environ`, for suggested fixes."""
    path = os.pathsep.join(filter(os.path.isabs, environ.get("PATH", "").split(os.pathsep)))
    manager = next((name for name in MANAGERS if shutil.which(name, path=path)), "")
    prefix: tuple[str, ...] = ()
    if manager and manager != "brew" and os.geteuid() != 0:
        prefix = next((words for words in AS_ROOT if shutil.which(words[0], path=path)), ())
        manager = manager if prefix else ""
    absent = frozenset(name for name in NEEDED.values() if shutil.which(name, path=path) is None)
    return Machine(manager=manager, prefix=prefix if manager else (), absent=absent)


def _machine(environment: RootEnvironment) -> Machine:
    """Return what this machine has for fixes, with the command of this very flytui for this root."""
    own = environment.interpreter_dir / "flytui"
    return msgspec.structs.replace(
        find_host_tools(environment.environ),
        own=(str(own) if os.access(own, os.X_OK) else "flytui",),
        root=str(environment.places.app_root),
    )


ResolvedPrograms = tuple[dict[str, ResolvedProgram], dict[str, dict[str, ResolvedProgram]]]
"""The programs by sidecar, and the delegates by sidecar and name."""


def find_environment(places: RootPaths, environ: Mapping[str, str]) -> RootEnvironment:
    """Return the environment of this process. Programs beside its interpreter are found before PATH."""
    bin_dir = Path(sys.executable).parent
    return RootEnvironment(
        places, environ, bin_dir, find_distribution(bin_dir), AcceptedSeals(places.seals_file)
    )


class Files(msgspec.Struct, frozen=True):
    """The content of a root's files, read together."""

    registry: Registry
    policy: Policy
    settings: Settings
    programs: Mapping[str, ResolvedProgram]
    delegates: Mapping[str, Mapping[str, ResolvedProgram]]
    project_limits: tuple[JsonObject, ...] = ()
    """The limits that the project's files set for tools that agents make."""
    packages: tuple[PackageView, ...] = ()
    """The packages that are installed or staged."""

    def resolutions(self, sidecar: str) -> dict[str, ResolvedProgram]:
        """Return the programs of the sidecar's command, under `COMMAND`, and of its delegates by name."""
        program = self.programs.get(sidecar)
        own = {COMMAND: program} if program is not None else {}
        return {**self.delegates.get(sidecar, {}), **own}

    def is_resolved(self, sidecar: str) -> bool:
        """Return whether the program of the sidecar's command was found."""
        program = self.programs.get(sidecar)
        return program is not None and program.state is PathState.RESOLVED


class Situation(msgspec.Struct, frozen=True):
    """Observations, which change while the files stay the same."""

    trusted: frozenset[str]
    seen: Mapping[str, Observation]
    diagnostics: tuple[Diagnostic, ...] = ()
    blocked: frozenset[str] = frozenset()
    """Tools that a person has blocked."""
    described: tuple[Described, ...] = ()
    """Kits, skills, plugins and other clients' servers."""
    offers: Mapping[str, McpToolOffer] = msgspec.field(default_factory=dict)
    """The tools of executables and MCP servers, by sidecar."""
    changed: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Sidecars whose changed entry waits for trust, with its difference from the one in force."""
    support: SandboxSupport = UNTRIED
    """The levels of the sandbox that work here."""


def sandbox_support() -> SandboxSupport:
    """Return the levels of the sandbox that work here. The first time, and after a failure, this waits for
    processes."""
    # The kernel's own tools that start programs always need one.
    return detection.support()


def blocked_tools(
    registry: Registry, blocks: ToolBlockStore, offers: Mapping[str, McpToolOffer] | None = None
) -> frozenset[str]:
    """Return the blocked names among the tools of the registry, of executables and of MCP servers, the
    plans and the kernel's own tools."""
    found = with_offered_tools(registry, offers or {})
    names = {name for entry in found.entries for name in entry.tool_names} | plan_names() | builtin_names()
    return frozenset(name for name in names if blocks.block_for(name) is not None)


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
    registry = _with_diagnostics(registry, (*policy.diagnostics, *problems))
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


def _with_diagnostics(registry: Registry, more: tuple[Diagnostic, ...]) -> Registry:
    return msgspec.structs.replace(registry, diagnostics=(*registry.diagnostics, *more)) if more else registry


def _with_upgrades(registry: Registry, packages: tuple[PackageView, ...]) -> Registry:
    """Return the registry in which each entry of a package has the state of that package."""
    changing = [view for view in packages if view.state is not UpgradeState.IDLE]
    states = {(view.scope, view.sidecar): view.state for view in changing}
    if not states:
        return registry

    def of(entry: SidecarEntry) -> SidecarEntry:
        scope = PackageScope.USER if entry.source is Source.USER else PackageScope.PROJECT
        state = None if entry.source.discovered else states.get((scope, entry.id))
        return entry if state is None else msgspec.structs.replace(entry, upgrade=state)

    return msgspec.structs.replace(registry, entries=tuple(map(of, registry.entries)))


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


def build_state(
    environment: RootEnvironment, files: Files, observed: Situation, *, version: int, now: float
) -> RootState:
    """Build the state from these files and observations: the catalog and everything that calls look up."""
    registry = with_offered_tools(_with_diagnostics(files.registry, observed.diagnostics), observed.offers)
    registry = _with_upgrades(registry, files.packages)
    environment.keyring.look_up(_trusted_names(registry, observed.trusted), environment.environ)
    catalog = build_catalog(_catalog_facts(environment, files, observed, registry, version, now))
    secrets = _trusted_secrets(registry, observed.trusted, environment.secret_values)
    # Declared secrets need not look like secrets. A tool gets them in its own environment, not in ours.
    erase_from_environment(secrets)
    return RootState(
        registry=registry,
        catalog=catalog,
        policy=files.policy,
        settings=files.settings,
        programs=files.programs,
        trusted=observed.trusted,
        index={view.capability.name: view for view in catalog.capabilities},
        entries={entry.id: entry for entry in registry.entries},
        secrets=secrets,
        support=observed.support,
        created_limits=created_limits(files.settings.max_permissions, files.project_limits),
        masks=Masks(secrets),
    )


def _catalog_facts(
    environment: RootEnvironment,
    files: Files,
    observed: Situation,
    registry: Registry,
    version: int,
    now: float,
) -> CatalogFacts:
    """Return the facts of the catalog: those of the registry's entries, and of the kernel's own tools."""
    bundled = {sid for sid, program in files.programs.items() if environment.bundled(program)}
    confinement = _confinement(registry, observed.support, bundled)
    builtin = builtin_state(environment, files.settings, observed.support)
    reports = {**confinement.reports, **builtin.reports}
    levels = {sidecar: found.level for sidecar, found in reports.items()}

    def plan_denied(plan: Capability) -> str:
        denies = denying_rules(files.policy, PolicyCall(tool=plan.name, now=now))
        return "; ".join(f"{rule.because} ({rule.where})" for rule in denies)

    return CatalogFacts(
        registry=registry,
        programs={**files.programs, **builtin.programs},
        trusted=observed.trusted,
        changed=observed.changed,
        policy=_policy_view(files, {*bundled, *builtin.own}, levels, now),
        plan_denied=plan_denied,
        core=flycore.__version__,
        version=version,
        now=now,
        delegates=files.delegates,
        installed=_installed_versions(files, registry, bundled),
        missing_secrets=_missing_secrets(files, environment.secret_values),
        seen=observed.seen,
        blocked=observed.blocked,
        described=observed.described,
        offers=observed.offers,
        bundled=frozenset(bundled),
        builtin=builtin.entries,
        exceeded=_exceeded(registry, files),
        minimum=files.settings.sandbox_minimum,
        machine=_machine(environment),
        hide_degraded=files.settings.hide_degraded,
        registry_file=declared_in(environment.places, registry),
        least={**confinement.least, **builtin.least},
        level_remedies=confinement.remedies,
        sandbox=reports,
    )


def _exceeded(registry: Registry, files: Files) -> dict[str, tuple[str, ...]]:
    """Return the permissions of tools that agents made beyond their limits, by sidecar. What a person has
    trusted has no such limit."""
    limits = created_limits(files.settings.max_permissions, files.project_limits)
    return {
        entry.id: excess_of_created(entry.effective_permissions, limits)
        for entry in registry.entries
        if entry.creator
    }


class _Confinement(msgspec.Struct, frozen=True):
    """How the sidecars are confined here, by sidecar, and by level what makes it possible."""

    reports: Mapping[str, SandboxReport]
    least: Mapping[str, Level]
    remedies: Mapping[Level, str]


def _confinement(registry: Registry, support: SandboxSupport, bundled: Collection[str]) -> _Confinement:
    valid = [(entry, entry.id in bundled) for entry in registry.entries if entry.valid]
    return _Confinement(
        reports={entry.id: report(entry, support, bundled=own) for entry, own in valid},
        least={entry.id: minimum_level(entry, bundled=own) for entry, own in valid},
        remedies={check.level: support.remedy(check.level) for check in support.missing},
    )


def _policy_view(
    files: Files, bundled: Collection[str], levels: Mapping[str, Level], now: float
) -> PolicyView:
    return policy_overview(files.policy, bundled=bundled, levels=levels, risks=files.settings.risk, now=now)


def _trusted_secrets(
    registry: Registry, trusted: Collection[str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the declared secrets by name."""
    # Of trusted entries only: what a clone declares must not hide a path or a host on the cards of others.
    return {
        name: value
        for entry in registry.entries
        if entry.id in trusted and entry.valid
        for name, value in declared_secrets(entry.permissions, environ)[0].items()
    }


def _trusted_names(registry: Registry, trusted: Collection[str]) -> set[str]:
    """Return the names of the secrets that may be looked for in the keyring."""
    entries = (entry for entry in registry.entries if entry.id in trusted and entry.valid and entry.enabled)
    return {name for entry in entries for name in entry.permissions.secrets}


def declared_in(places: RootPaths, registry: Registry) -> str:
    """Return the project's registry file that was read, relative to the app root; empty if there is none."""
    for relative in (REGISTRY_FILE, LEGACY_REGISTRY_FILE):
        if str(places.app_root / relative) in registry.files:
            return relative
    return ""


def _installed_versions(files: Files, registry: Registry, bundled: set[str]) -> dict[str, str]:
    """Return the installed version of each entry's package, where it is known, by sidecar."""
    found = dict.fromkeys(bundled, flycore.__version__)
    for entry in registry.entries:
        program = files.programs.get(entry.id)
        declared = entry.package_id is not None or entry.package_version is not None
        if declared and entry.id not in found and program is not None:
            version = installed_version(entry, registry, program.path)
            found |= {} if version is None else {entry.id: version}
    return found


def _missing_secrets(files: Files, environ: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
    found = {entry.id: declared_secrets(entry.permissions, environ)[1] for entry in files.registry.entries}
    return {sidecar: missing for sidecar, missing in found.items() if missing}
