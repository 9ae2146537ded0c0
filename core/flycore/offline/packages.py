"""Packages as a command stages and discards them. What runs does not change by it, so that no kernel is
needed: one that runs notices it, and asks a person."""

from __future__ import annotations

import time
from pathlib import Path

from flycore.kernel.package_probes import area_of
from flycore.model.enums import PackageScope
from flycore.model.package import PackageOutcome
from flycore.packages import actions
from flycore.packages.entries import review_lines as review_lines
from flycore.registry.paths import RootPaths


def stage(places: RootPaths, source: Path, scope: PackageScope) -> PackageOutcome:
    """Stage the version in a folder or an archive."""
    return actions.stage(area_of(places, scope), source, time.time()).outcome


def discard(places: RootPaths, package: str, scope: PackageScope) -> PackageOutcome:
    """Forget the staged version of a package."""
    return actions.discard_staged(area_of(places, scope), package).outcome
