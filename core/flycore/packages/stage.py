"""Stages a version of a package: unpacked, checked, and ready to be applied. What runs does not change."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from flycore.model.enums import UpgradeState
from flycore.model.errors import FlyError
from flycore.packages.area import (
    FOLDER_FLAGS,
    OpenArea,
    PackageRefused,
    belongs_to,
    new_name,
    present,
    remove_tree,
    version_folder,
)
from flycore.packages.entries import merged_entry
from flycore.packages.metadata import ReadPackage, read_package
from flycore.packages.records import (
    InstalledVersion,
    PackageRecord,
    StagedVersion,
    read_record,
    remove_record,
    write_record,
)
from flycore.packages.registry_file import (
    entry_of_package,
    read_registry_text,
    remove_next,
    with_entry,
    write_next,
)
from flycore.packages.unpack import unpack
from flysafe.beneath import open_beneath

NO_CHECKSUM = "the package states no checksum, so that nothing shows whether it is whole"
NO_PROBE = "the package names no probe, so that nobody asks the new version whether it works"


def stage(opened: OpenArea, source: Path, *, core: str, known: frozenset[str], now: float) -> PackageRecord:
    """Unpack and check a version, and return the record with it.

    `core` is the version of flytui, and `known` holds the names of the known capabilities; `now` is Unix time
    in seconds. A version that was staged before is replaced. Raises PackageRefused and OSError; then nothing
    is staged that was not before.
    """
    new = new_name()
    try:
        unpack(source, opened.staging, new)
        package = _read(opened, new, core, known)
        return _take(opened, new, package, source, now)
    except BaseException:
        with suppress(OSError):
            remove_tree(opened.staging, new)
            remove_tree(opened.staging, f"{new}-top")
        raise


def _read(opened: OpenArea, name: str, core: str, known: frozenset[str]) -> ReadPackage:
    fd = open_beneath(opened.staging, name, FOLDER_FLAGS)
    try:
        return read_package(fd, opened.area, core=core, known=known)
    finally:
        os.close(fd)


def _take(opened: OpenArea, new: str, package: ReadPackage, source: Path, now: float) -> PackageRecord:
    """Give the unpacked folder its name, and write the registry as it will be and the record."""
    metadata, area = package.metadata, opened.area
    record = earlier = read_record(area, metadata.id)
    if record is not None and record.state is UpgradeState.APPLYING:
        message = f"a change of {metadata.id} was cut off and is not recovered yet"
        raise PackageRefused("busy", message, "run flytui packages list")
    registry = read_registry_text(opened)
    sidecar, current = entry_of_package(registry, metadata.id, area.shown_registry)
    asked = record.installed.asked if record is not None and record.installed else None
    entry, notes = merged_entry(asked, current, metadata.entry)
    text = with_entry(registry, sidecar, entry, area.shown_registry)
    staged = StagedVersion(
        version=metadata.version,
        checksum=package.whole,
        entry=entry,
        asked=metadata.entry,
        before=current,
        source=str(source),
        runtime=metadata.runtime,
        notes=(*notes, *_notes(package)),
        at=now,
    )
    if record is None:
        record = PackageRecord(id=metadata.id, sidecar=sidecar, installed=_installed(opened, metadata.id))
    state = UpgradeState.STAGED if record.state in _QUIET else record.state
    record = msgspec.structs.replace(record, sidecar=sidecar, staged=staged, state=state)
    name = version_folder(metadata.id, metadata.version)
    for other in os.listdir(opened.staging):
        if belongs_to(other, metadata.id):
            remove_tree(opened.staging, other)
    os.rename(new, name, src_dir_fd=opened.staging, dst_dir_fd=opened.staging)
    os.fsync(opened.staging)
    write_next(opened, registry, text)
    # Last: a record names only what is whole and on disk.
    try:
        write_record(area, record)
    except OSError as error:
        # The record may be in its place although an error came after that.
        _put_back(opened, metadata.id, earlier)
        with suppress(OSError):
            if read_record(area, metadata.id) == record:
                raise PackageUnsynced(record, error.strerror or str(error)) from error
        with suppress(OSError):
            remove_tree(opened.staging, name)
        raise
    return record


class PackageUnsynced(FlyError):
    """The version is staged, and an error came afterwards: it may not outlive a loss of power."""

    def __init__(self, record: PackageRecord, why: str) -> None:
        super().__init__(why)
        self.record, self.why = record, why


def _put_back(opened: OpenArea, package: str, earlier: PackageRecord | None) -> None:
    """Undo the record of a version that could not be synced, as far as that is possible."""
    with suppress(OSError):
        if earlier is None:
            remove_record(opened.area, package)
        else:
            left = msgspec.structs.replace(earlier, staged=None)
            quiet = left.state is UpgradeState.STAGED
            write_record(
                opened.area, msgspec.structs.replace(left, state=UpgradeState.IDLE) if quiet else left
            )


_QUIET = (UpgradeState.IDLE, UpgradeState.STAGED)


def _notes(package: ReadPackage) -> tuple[str, ...]:
    notes = [] if package.metadata.stated_checksum else [NO_CHECKSUM]
    probe = package.metadata.entry.get("probe")
    mode = probe.get("mode") if isinstance(probe, dict) else None
    return (*notes, *([] if mode in ("request", "command") else [NO_PROBE]))


def _installed(opened: OpenArea, package: str) -> InstalledVersion | None:
    """Return what is known of a folder that was put in place by hand; None where there is none."""
    if not present(opened.packages, package):
        return None
    return InstalledVersion(version="0", checksum="")


def discard(opened: OpenArea, record: PackageRecord) -> PackageRecord | None:
    """Forget the staged version; return the record that is left, or None. Raises OSError."""
    quiet = record.state is UpgradeState.STAGED
    left = msgspec.structs.replace(
        record,
        staged=None,
        state=UpgradeState.IDLE if quiet else record.state,
        why="" if quiet else record.why,
    )
    if left.installed is None and left.previous is None:
        remove_record(opened.area, record.id)
        kept = None
    else:
        write_record(opened.area, left)
        kept = left
    for name in os.listdir(opened.staging):
        if belongs_to(name, record.id):
            remove_tree(opened.staging, name)
    remove_next(opened)
    return kept
