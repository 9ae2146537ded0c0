"""The first probe of an installed version of a package, which decides whether the version may stay."""

from __future__ import annotations

from flycore.catalog.probes import ProbeFinding
from flycore.model.enums import PackageScope, PathState, ProbeState, ReasonCode, Source
from flycore.model.package import PackageOutcome, PackageView
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import SidecarEntry
from flycore.packages import actions
from flycore.packages.area import PackageArea, areas
from flycore.registry.paths import RootPaths

NO_ANSWER = "it does not answer its probe"


def package_of(packages: tuple[PackageView, ...], entry: SidecarEntry) -> PackageView | None:
    """Return the package of an entry; None where it has none that flytui installed."""
    scope = PackageScope.USER if entry.source is Source.USER else PackageScope.PROJECT
    return next((view for view in packages if (view.scope, view.sidecar) == (scope, entry.id)), None)


def area_of(places: RootPaths, scope: PackageScope) -> PackageArea:
    """Return the area of a scope."""
    return next(area for area in areas(places) if area.scope is scope)


def verdict(finding: ProbeFinding | None, program: ResolvedProgram | None) -> str | None:
    """Return why a version cannot stay, an empty text where it can, and None where that is not known yet: it
    was not asked, because it is not trusted or its program changed since."""
    if program is not None and program.state is not PathState.RESOLVED:
        return program.message or NO_ANSWER
    if finding is None or (finding.reason is not None and finding.reason.code is ReasonCode.PROGRAM_CHANGED):
        return None
    if finding.state is ProbeState.UNAVAILABLE:
        # The code and not the message: what a program wrote decides nothing, and says nothing here.
        return f"{NO_ANSWER} ({finding.reason.code.value})" if finding.reason is not None else NO_ANSWER
    return ""


def record_first_probe(
    places: RootPaths, packages: tuple[PackageView, ...], entry: SidecarEntry, finding: ProbeFinding
) -> bool:
    """Record the answer of a version that was not probed before. Return whether anything was recorded."""
    view = package_of(packages, entry)
    if view is None or view.probed or entry.package_version != view.version:
        return False
    return record_verdict(places, view, verdict(finding, None)) is not None


def record_verdict(places: RootPaths, view: PackageView, why_not: str | None) -> PackageOutcome | None:
    """Record whether a version may stay; None where that is not known yet."""
    if why_not is None:
        return None
    return actions.record_probe(area_of(places, view.scope), view.id, why_not).outcome
