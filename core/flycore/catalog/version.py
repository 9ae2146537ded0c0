"""The `version` dimension: declared versions compared with this kernel and with what is installed.

Pre-releases count: a kernel 0.2.0rc1 lies inside `>=0.1,<1`, so that a release candidate does not switch
every sidecar off. A version that nobody declared is *unknown*, which matters only for a declared package.
"""

from __future__ import annotations

from flycore.catalog import reasons
from flycore.model.enums import RUNNABLE_KINDS, Kind, VersionState
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import Reason, VersionEvidence
from flycore.registry.version_range import is_in_range

PROTOCOLS = ("1",)
"""The versions of process-json that this kernel speaks."""


def check_versions(
    entry: SidecarEntry, *, core: str, protocols: tuple[str, ...], installed_version: str | None
) -> tuple[VersionState, Reason | None, VersionEvidence]:
    """Return the state, the reason where it is not compatible, and which versions were compared.

    `installed_version` is that of the declared package, or of the distribution a bundled sidecar belongs
    to; None where it is not known.
    """
    evidence = VersionEvidence(
        core=core,
        compatible_core=entry.compatible_core,
        package_id=entry.package_id,
        protocol_version=entry.protocol_version,
        package_version=entry.package_version,
        installed_version=installed_version,
    )
    state, reason = _compare(entry, core, protocols, installed_version)
    return state, reason, evidence


def _compare(
    entry: SidecarEntry, core: str, protocols: tuple[str, ...], installed: str | None
) -> tuple[VersionState, Reason | None]:
    if entry.kind not in RUNNABLE_KINDS:
        return VersionState.INCOMPATIBLE, reasons.kind_unsupported(entry)
    if entry.compatible_core is not None and not is_in_range(core, entry.compatible_core):
        return VersionState.INCOMPATIBLE, reasons.core_incompatible(entry, core)
    protocol = entry.protocol_version if entry.kind is not Kind.MCP else None
    if protocol is not None and not _speaks(protocol, protocols):
        return VersionState.INCOMPATIBLE, reasons.protocol_incompatible(entry, protocols)
    if entry.package_id is not None or entry.package_version is not None:
        # A package without metadata says nothing against its program; `flytui lint` says so.
        if installed is None:
            return VersionState.UNKNOWN, None
        if not _same(entry.package_version, installed):
            return VersionState.UNKNOWN, reasons.version_unknown(entry, installed)
        return VersionState.COMPATIBLE, None
    declared = entry.compatible_core or entry.protocol_version or installed
    return (VersionState.COMPATIBLE if declared else VersionState.UNKNOWN), None


def _speaks(declared: str, protocols: tuple[str, ...]) -> bool:
    """Return whether the declared version is one of ours, or the declared range holds one of ours. It may
    have the word that requests name the protocol by, `process-json/1`."""
    declared = declared.removeprefix("process-json/")
    return declared in protocols or any(is_in_range(protocol, declared) for protocol in protocols)


def _same(declared: str | None, installed: str) -> bool:
    if declared is None or declared == installed:
        return True
    from packaging.version import InvalidVersion, Version

    try:
        return Version(declared) == Version(installed)
    except InvalidVersion:
        return False
