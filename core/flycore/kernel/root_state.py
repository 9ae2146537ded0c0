"""The state of a root, as a function of its files, the trust in them, and observations of its sidecars."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping

import msgspec

import flycore
from flycore.catalog.build import build_catalog
from flycore.catalog.builtin_tools import FILES_FAMILY, GIT, RUNNING, builtin_names, entries_for
from flycore.catalog.executable_tools import with_offered_tools
from flycore.catalog.fixes import AS_ROOT, MANAGERS, NEEDED, Machine
from flycore.catalog.mcp_capabilities import missing_names, untrusted_names
from flycore.catalog.observations import NO_OBSERVATION, Observation, still_holding
from flycore.catalog.plan_capabilities import plan_names
from flycore.catalog.registry_capability import excess_of_created
from flycore.catalog.snapshot import SidecarFacts
from flycore.kernel.effective_entries import effective_files
from flycore.kernel.load_state import sandbox_support, with_diagnostics
from flycore.kernel.trust import Trust
from flycore.model.catalog import Capability
from flycore.model.described import Described
from flycore.model.enums import Level, PackageScope, Source, UpgradeState
from flycore.model.package import PackageView
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.model.upstream import McpToolOffer
from flycore.pipeline.context import Files, RootEnvironment, RootState
from flycore.policy.conditions import PolicyCall
from flycore.policy.evaluate import denying_rules
from flycore.policy.overview import policy_overview
from flycore.registry.created_tools import created_limits
from flycore.registry.package_metadata import installed_version
from flycore.registry.paths import LEGACY_REGISTRY_FILE, REGISTRY_FILE, RootPaths
from flycore.sandbox.command_seals import OWN_PROGRAM, command_path, find_command
from flycore.sandbox.detection import SandboxSupport
from flycore.sandbox.environment import declared_secrets
from flycore.sandbox.levels import builtin_report, minimum_level, report
from flycore.sandbox.secret_masks import Masks
from flysafe.own_process import erase_from_environment


def root_state(
    environment: RootEnvironment,
    declared: Files,
    trust: Trust,
    observations: Mapping[str, Observation],
    now: float,
    described: tuple[Described, ...] = (),
) -> RootState:
    """Return the state of the files as they are written, by the trust in their entries.

    `observations` are by sidecar, `described` are kits, skills, plugins and other clients' servers, and `now`
    is Unix time in seconds. Starts no process of a tool; only the levels of the sandbox are tried, the first
    time that an entry needs one.
    """
    files = effective_files(environment, declared, trust.entries)
    return state_in_force(environment, files, observations, now, trust, described)


def state_in_force(
    environment: RootEnvironment,
    files: Files,
    observations: Mapping[str, Observation],
    now: float,
    trust: Trust | None = None,
    described: tuple[Described, ...] = (),
) -> RootState:
    """Return the state of files whose entries are in force: the catalog, and all that calls look up."""
    trust = trust or Trust.of_nothing()
    offers = trust.offers(files, observations)
    registry = with_offered_tools(
        with_diagnostics(files.registry, trust.diagnostics(environment.places)), offers
    )
    registry = _with_upgrades(registry, files.packages)
    environment.keyring.look_up(_trusted_names(registry, files.trusted), environment.environ)
    support = sandbox_support()
    names = {name for entry in registry.entries for name in entry.tool_names} | plan_names() | builtin_names()
    blocked = trust.blocked(names)
    sidecars, builtin = _sidecar_facts(
        environment, files, registry, offers, observations, support, blocked, now
    )

    def plan_denied(plan: Capability) -> str:
        denies = denying_rules(files.policy, PolicyCall(tool=plan.name, now=now))
        return "; ".join(f"{rule.because} ({rule.where})" for rule in denies)

    catalog = build_catalog(
        registry,
        sidecars,
        builtin,
        now=now,
        plan_denied=plan_denied,
        blocked=blocked,
        described=described,
        hide_degraded=files.settings.hide_degraded,
        registry_file=declared_in(environment.places, registry),
    )
    secrets = _trusted_secrets(registry, files.trusted, environment.secret_values)
    # Declared secrets need not look like secrets. A tool gets them in its own environment, not in ours.
    erase_from_environment(secrets)
    return RootState(
        files=files,
        registry=registry,
        catalog=catalog,
        index={view.capability.name: view for view in catalog.capabilities},
        entries={entry.id: entry for entry in registry.entries},
        secrets=secrets,
        support=support,
        created_limits=created_limits(files.settings.max_permissions, files.project_limits),
        masks=Masks(secrets),
    )


def _sidecar_facts(
    environment: RootEnvironment,
    files: Files,
    registry: Registry,
    offers: Mapping[str, McpToolOffer],
    observations: Mapping[str, Observation],
    support: SandboxSupport,
    blocked: frozenset[str],
    now: float,
) -> tuple[list[SidecarFacts], dict[str, SidecarFacts]]:
    """Return the facts about each entry, and by tool those about the kernel's own tools."""
    builtin = entries_for(files.settings.sandbox_network)
    # The kernel carries these out itself.
    own = {entry.id for tool, entry in builtin.items() if tool.startswith(f"{FILES_FAMILY}.")}
    bundled = {sidecar for sidecar, program in files.programs.items() if environment.bundled(program)}
    programs = {**files.programs, **_builtin_programs(environment, builtin, own)}
    reports = {
        **{e.id: report(e, support, bundled=e.id in bundled) for e in registry.entries if e.valid},
        **{e.id: builtin_report(support, e, own=e.id in own) for e in builtin.values()},
    }
    shipped = bundled | own
    levels = {sidecar: found.level for sidecar, found in reports.items()}
    decide = policy_overview(files.policy, bundled=shipped, levels=levels, risks=files.settings.risk, now=now)
    remedies = {check.level: support.remedy(check.level) for check in support.missing}
    limits = created_limits(files.settings.max_permissions, files.project_limits)
    machine = _machine(environment)

    def facts(entry: SidecarEntry, *, trusted: bool) -> SidecarFacts:
        offer = offers.get(entry.id, McpToolOffer())
        return SidecarFacts(
            entry=entry,
            program=programs.get(entry.id),
            core=flycore.__version__,
            policy=decide,
            delegates=files.delegates.get(entry.id, {}),
            installed_version=_installed_version(files, registry, entry, bundled=entry.id in bundled),
            trusted=trusted,
            changed=files.changed.get(entry.id, ()),
            missing_secrets=declared_secrets(entry.permissions, environment.secret_values)[1],
            observation=still_holding(
                observations.get(entry.id, NO_OBSERVATION), entry, files.resolutions(entry.id), now
            ),
            sandbox=reports.get(entry.id),
            # What a person has trusted has no such limit.
            exceeded=excess_of_created(entry.effective_permissions, limits) if entry.creator else (),
            minimum=files.settings.sandbox_minimum,
            least=minimum_level(entry, bundled=entry.id in shipped) if entry.valid else Level.NONE,
            level_remedies=remedies,
            blocked=blocked,
            changed_tools=untrusted_names(entry, offer),
            gone_tools=missing_names(entry, offer),
            lists=offer.lists,
            bundled=entry.id in bundled,
            machine=machine,
        )

    return (
        [facts(entry, trusted=entry.id in files.trusted) for entry in registry.entries],
        {tool: facts(entry, trusted=True) for tool, entry in builtin.items()},
    )


def _builtin_programs(
    environment: RootEnvironment, builtin: Mapping[str, SidecarEntry], own: Collection[str]
) -> dict[str, ResolvedProgram]:
    """Return what the kernel's own tools start, by what stands for the ids of their entries."""
    git = find_command((GIT,), str(environment.places.app_root), command_path(environment.environ))
    # What a call of process.run starts is known only from its input.
    return {
        entry.id: OWN_PROGRAM if entry.id in own or tool in RUNNING else git
        for tool, entry in builtin.items()
    }


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


def _installed_version(files: Files, registry: Registry, entry: SidecarEntry, *, bundled: bool) -> str | None:
    """Return the installed version of the entry's package; None if none is declared, or it is not known."""
    if bundled:
        return flycore.__version__
    program = files.programs.get(entry.id)
    if program is None or (entry.package_id is None and entry.package_version is None):
        return None
    return installed_version(entry, registry, program.path)
