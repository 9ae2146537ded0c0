"""The installed version of a package, as a file in the package's folder states it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.enums import Anchor
from flycore.model.json import escape_key
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.paths import PACKAGES_DIR, USER_PACKAGES_DIR
from flysafe.beneath import read_beneath

METADATA_FILES = ("sidecar.json", "package.json", "package.jsonc")
"""What is read, the first of them that is there."""
LARGEST_METADATA = 262_144
"""Bytes of a metadata file."""


def installed_version(entry: SidecarEntry, registry: Registry, program: str) -> str | None:
    """Return the version of the entry's package; None where no file states one. `program` is the path of the
    program that its command leads to."""
    for anchor, folder in _folders(entry, registry, program):
        for name in METADATA_FILES:
            if (version := _version_in(anchor, os.path.join(folder, name))) is not None:
                return version
    return None


def _folders(entry: SidecarEntry, registry: Registry, program: str) -> Iterator[tuple[str, str]]:
    """Yield the folders that may be the package's own, each below its anchor."""
    if entry.package_id and entry.cwd is Anchor.DATA:
        yield registry.data_dir, f"{USER_PACKAGES_DIR}/{entry.package_id}"
    for anchor in (registry.app_root, os.path.dirname(os.path.join(registry.config_dir, "tools"))):
        if entry.package_id:
            yield anchor, f"{PACKAGES_DIR}/{entry.package_id}"
        # A package has its programs right in its folder, or in one below it such as `bin`.
        for folder in (os.path.dirname(program), os.path.dirname(os.path.dirname(program))):
            relative = os.path.relpath(folder, anchor) if folder else ""
            if relative and relative != "." and not relative.startswith(".."):
                yield anchor, relative


def _version_in(anchor: str, relative: str) -> str | None:
    """Return the version of a metadata file below the anchor; None where there is none that can be read."""
    try:
        text = read_beneath(Path(anchor), relative, LARGEST_METADATA).decode("utf-8")
    except (OSError, ValueError):
        return None
    value, problem = parse_jsonc(text, relative)
    if problem is not None or not isinstance(value, dict):
        return None
    # A package that flytui installs has `packageVersion`; others have the key of their package manager.
    found = (value.get(key) for key in ("packageVersion", "version"))
    return next((version for version in found if isinstance(version, str) and version), None)


def without_metadata(entries: Iterable[SidecarEntry], registry: Registry) -> Iterator[Diagnostic]:
    """Yield a note for each entry that names a package whose folder states no version."""
    for entry in entries:
        if not entry.valid or (entry.package_id is None and entry.package_version is None):
            continue
        program = os.path.join(registry.app_root, entry.command) if "/" in entry.command else ""
        if installed_version(entry, registry, program) is None:
            name = entry.package_id or entry.id
            yield Diagnostic(
                severity=Severity.INFO,
                rule="package-metadata",
                message=f"{entry.id}: the folder of the package {name} states no version, so that it cannot "
                "be compared",
                remedy=f'write {{"version": "…"}} into sidecar.json of {PACKAGES_DIR}/{name}, '
                "or remove the key",
                pointer=f"/sidecars/{escape_key(entry.id)}",
                position=entry.position,
                sidecar=entry.id,
            )
