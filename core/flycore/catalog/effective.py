"""The one word a person and an agent need, from the eight dimensions."""

from __future__ import annotations

from flycore.model.enums import (
    Discovery,
    Effective,
    Manifest,
    PathState,
    ProbeState,
    RuntimeState,
    SandboxState,
    UpgradeState,
    VersionState,
)
from flycore.model.stability import Stability, VersionEvidence

_STOPPING_UPGRADES = (UpgradeState.APPLYING, UpgradeState.ROLLBACK_REQUIRED, UpgradeState.FAILED)


def effective(stability: Stability) -> Effective:
    """The first line that applies. A dimension that was not looked at says nothing either way."""
    if stability.discovery is Discovery.DISABLED:
        return Effective.DISABLED
    if _unavailable(stability):
        return Effective.UNAVAILABLE
    if _degraded(stability):
        return Effective.DEGRADED
    return Effective.AVAILABLE


def _unavailable(stability: Stability) -> bool:
    return (
        stability.discovery is Discovery.MISSING
        or stability.manifest is Manifest.INVALID
        or stability.path in (PathState.UNRESOLVED, PathState.OUTSIDE_ROOT_DENIED)
        or stability.version is VersionState.INCOMPATIBLE
        or stability.upgrade in _STOPPING_UPGRADES
        or stability.probe is ProbeState.UNAVAILABLE
        or stability.sandbox is SandboxState.DENIED
    )


def _degraded(stability: Stability) -> bool:
    return (
        stability.runtime not in (None, RuntimeState.READY)
        or stability.probe is ProbeState.DEGRADED
        or (stability.version is VersionState.UNKNOWN and declares_package(stability.evidence.version))
        or stability.upgrade is UpgradeState.STAGED
        or stability.sandbox is SandboxState.QUOTA_LIMITED
    )


def declares_package(evidence: VersionEvidence | None) -> bool:
    """Whether the entry names a package, so that not knowing its version matters."""
    return evidence is not None and (evidence.package_id is not None or evidence.package_version is not None)
