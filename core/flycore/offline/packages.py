"""Packages while no kernel runs: listed, staged, applied, rolled back and removed by commands."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from flycore.approval.trust_store import TrustStore
from flycore.audit import events as audit_events
from flycore.catalog.prober import Prober
from flycore.catalog.probes import ProbeCache
from flycore.kernel.effective_entries import effective_files
from flycore.kernel.load_state import find_environment, probe_work, read_files
from flycore.kernel.package_probes import area_of, record_verdict, verdict
from flycore.kernel.probe_runner import probe_spawn
from flycore.kernel.registry_edits import TrustedRegistry
from flycore.model.enums import PackageAction, PackageResult, PackageScope, PathState
from flycore.model.package import PackageCheck, PackageOutcome, PackageView
from flycore.model.session import new_session
from flycore.offline.root import HeldRoot, living_holder
from flycore.packages import actions
from flycore.packages.actions import PackageEnd
from flycore.packages.area import areas
from flycore.packages.entries import review_lines as review_lines
from flycore.packages.inventory import list_packages, verify_area
from flycore.packages.recovery import recover_area
from flycore.registry.paths import RootPaths

BY = "flytui packages"


def read_packages(places: RootPaths) -> tuple[PackageView, ...]:
    """Return the packages of the project and of the user.

    What was cut off is finished or undone first, unless a kernel runs, which does that itself.
    """
    if living_holder(places) is None:
        for area in areas(places):
            recover_area(area)
    return list_packages(places)


def verify_packages(places: RootPaths) -> tuple[PackageCheck, ...]:
    """Compare the files of each installed package with those that were installed."""
    return tuple(check for area in areas(places) for check in verify_area(area))


def stage(places: RootPaths, source: Path, scope: PackageScope) -> PackageOutcome:
    """Stage the version in a folder or an archive. What runs does not change, so that neither the root's lock
    nor a line in the log is needed. A running kernel notices it, and asks a person."""
    return actions.stage(area_of(places, scope), source, time.time()).outcome


def discard(places: RootPaths, package: str, scope: PackageScope) -> PackageOutcome:
    """Forget the staged version of a package."""
    return actions.discard_staged(area_of(places, scope), package).outcome


class PackageDecision(NamedTuple):
    """A change of a package, and whether a person agreed to what was shown of it."""

    action: PackageAction
    package: str
    scope: PackageScope
    shown: str = ""
    """The digest of the review that was shown, for an apply."""
    agreed: bool = False


def change(root: HeldRoot, decision: PackageDecision) -> PackageOutcome:
    """Carry out a change. Where a person agreed, the entry is trusted. Raises AuditUnwritable; then nothing
    has changed."""
    by = BY if decision.agreed else f"{BY}, without a person"
    word = decision.action.value
    begins = PackageOutcome(id=decision.package, scope=decision.scope, result=PackageResult.COMMITTED)
    # Logged first: a change that the log does not have must not be made.
    root.record(audit_events.PACKAGE_CHANGED, audit_events.package_event(begins, f"{word} begins", by=by))
    end = _ACTIONS[decision.action](root.places, decision)
    root.record(audit_events.PACKAGE_CHANGED, audit_events.package_event(end.outcome, word, by=by))
    if decision.agreed and end.entry is not None:
        registry = TrustedRegistry(find_environment(root.places, dict(os.environ)))
        lines = registry.trust_written(end.outcome.sidecar, end.entry, time.time(), by)
        for event, fields in lines:
            root.record(event, fields)
    return end.outcome


def _apply(places: RootPaths, decision: PackageDecision) -> PackageEnd:
    return actions.apply(area_of(places, decision.scope), decision.package, decision.shown)


def _roll_back(places: RootPaths, decision: PackageDecision) -> PackageEnd:
    return actions.roll_back(area_of(places, decision.scope), decision.package)


def _remove(places: RootPaths, decision: PackageDecision) -> PackageEnd:
    return actions.remove(area_of(places, decision.scope), decision.package)


_ACTIONS: dict[PackageAction, Callable[[RootPaths, PackageDecision], PackageEnd]] = {
    PackageAction.APPLY: _apply,
    PackageAction.ROLLBACK: _roll_back,
    PackageAction.REMOVE: _remove,
}


async def probe_installed(root: HeldRoot, done: PackageOutcome) -> PackageOutcome:
    """Probe what a change has installed, and return the outcome with the state after it.

    A version that is not trusted is not asked. One that does not answer is `rollback-required`.
    """
    places = root.places
    view = actions.find(area_of(places, done.scope), done.id)
    if view is None or view.probed or not view.version:
        return done
    environment = find_environment(places, dict(os.environ))
    trust = TrustStore.load(places.trust_file)
    files = effective_files(environment, read_files(environment, None), trust)
    entry = files.registry.entry(view.sidecar)
    program = files.programs.get(view.sidecar)
    if entry is None or entry.id not in files.trusted or entry.package_version != view.version:
        return done
    finding = None
    if program is not None and program.state is PathState.RESOLVED:
        spawn = probe_spawn(environment, lambda: files, new_session())
        prober = Prober(spawn, ProbeCache(places.cache_dir), time.time)
        finding = await prober.probe(probe_work(environment, files, entry))
    why_not = verdict(finding, program)
    recorded = record_verdict(places, view, why_not)
    if recorded is None:
        return done
    fields = audit_events.package_event(recorded, "failed" if why_not else "healthy", by=BY)
    root.record(audit_events.PACKAGE_PROBED, fields)
    return msgspec.structs.replace(done, state=recorded.state, message=recorded.message or done.message)
