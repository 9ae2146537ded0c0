"""The record of each package: what is installed and staged, and the change that is under way.

A record is one file. It is written as a whole, and is on disk before the change that it announces. It lies in
the state folder and not in the project, so that no clone can bring one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from flycore.model.base import Value
from flycore.model.enums import PackageAction, UpgradeState
from flycore.model.json import Json, JsonObject
from flycore.packages.area import PACKAGE_ID, VERSION, PackageArea
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.store.json_store import Store, StoreDamaged

LARGEST = 1 << 20
MOST_PACKAGES = 1_000
"""Records that are read of one area."""
ENDING = ".json"


class StagedVersion(Value, frozen=True, kw_only=True):
    """A version that was unpacked and checked, and can be applied."""

    version: str
    checksum: str
    """Over all files of the package."""
    entry: JsonObject
    """The entry as it will be, with the values that the person had changed."""
    asked: JsonObject = msgspec.field(default_factory=dict)
    """The entry that the metadata asks for."""
    before: Json = None
    """The entry as it was when the version was staged; None where there was none."""
    source: str = ""
    runtime: str = ""
    notes: tuple[str, ...] = ()
    at: float = 0.0
    """Unix time, seconds."""


class InstalledVersion(Value, frozen=True, kw_only=True):
    """The version in the package's own folder."""

    version: str
    checksum: str
    asked: JsonObject = msgspec.field(default_factory=dict)
    """The entry that its metadata asks for, to tell what a person changed in it."""
    source: str = ""
    """The folder or the archive that it was staged from; empty where that is not known."""


class PreviousVersion(Value, frozen=True, kw_only=True):
    """The version that a rollback leads to."""

    version: str
    folder: str
    """Its name below `.previous`."""
    checksum: str = ""
    entry: str = ""
    """The entry as the registry spelled it, with comments; empty where there was none."""
    asked: JsonObject = msgspec.field(default_factory=dict)
    source: str = ""


class PackageChange(Value, frozen=True, kw_only=True):
    """A change that has begun."""

    action: PackageAction
    version: str = ""
    """The version that will be installed; empty for none."""
    source: str = ""
    """The folder that becomes the installed one: a name below `.staging` for an apply, below `.previous` for
    a rollback; empty for none."""
    was: UpgradeState = UpgradeState.IDLE
    """The state before the change."""
    displaced: str = ""
    """The name that the present folder gets, below `.previous` for an apply, else below `.staging`; empty
    where nothing is installed."""
    before: str = ""
    """The entry as the registry spelled it before; empty for none."""
    after: str = ""
    """The entry as it is spelled afterwards; empty for none."""


class PackageRecord(Value, frozen=True, kw_only=True):
    """Everything that is known of one package."""

    id: str
    sidecar: str
    state: UpgradeState = UpgradeState.IDLE
    installed: InstalledVersion | None = None
    staged: StagedVersion | None = None
    previous: PreviousVersion | None = None
    change: PackageChange | None = None
    probed: bool = True
    """Whether the installed version has answered its probe, or has none."""
    why: str = ""
    schema_version: int = 1


def read_record(area: PackageArea, package: str) -> PackageRecord | None:
    """Return the record of a package; None where there is none, or none that flytui has written.

    Raises OSError where it cannot be read: a record that is only out of reach must not count as absent.
    """
    if not PACKAGE_ID.fullmatch(package):
        return None
    try:
        record = _store(area, package).read()
    except (NotADirectoryError, StoreDamaged):
        return None
    return record if record is not None and record.id == package and _is_sound(record) else None


def read_records(area: PackageArea) -> tuple[PackageRecord, ...]:
    """Return all records of an area, in the order of their ids. Raises OSError, as `read_record` does."""
    return tuple(_records(area))


def _records(area: PackageArea) -> Iterator[PackageRecord]:
    try:
        names = sorted(os.listdir(area.records))[:MOST_PACKAGES]
    except FileNotFoundError:
        return
    for name in names:
        record = read_record(area, name.removesuffix(ENDING)) if name.endswith(ENDING) else None
        if record is not None:
            yield record


def readable_records(area: PackageArea) -> tuple[PackageRecord, ...]:
    """Return the records of an area for a list; none where they cannot be read. Raises nothing."""
    with suppress(OSError):
        return read_records(area)
    return ()


def _is_sound(record: PackageRecord) -> bool:
    """Whether every name in a record is one that can be a name of a folder, and of no other place."""
    versions = [item.version for item in (record.installed, record.staged, record.previous) if item]
    change = record.change
    folders = [record.previous.folder] if record.previous else []
    folders += [name for name in (change.source, change.displaced) if name] if change else []
    versions += [change.version] if change and change.version else []
    return all(VERSION.fullmatch(version) for version in versions) and not any(
        "/" in name or "\0" in name or name in (".", "..") for name in folders
    )


def write_record(area: PackageArea, record: PackageRecord) -> None:
    """Write a record; it is on disk when this returns. Raises OSError; then the earlier record stays."""
    _store(area, record.id).write(record)


def _store(area: PackageArea, package: str) -> Store[PackageRecord | None]:
    path = area.records / f"{package}{ENDING}"
    return Store[PackageRecord | None](path, PackageRecord, None, LARGEST)


def remove_record(area: PackageArea, package: str) -> None:
    """Remove a record; nothing where there is none. Raises OSError."""
    with suppress(FileNotFoundError):
        (area.records / f"{package}{ENDING}").unlink()
        _sync(area.records)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def value_of(text: str) -> Json:
    """Return the value of an entry's text; None for an empty one."""
    return parse_jsonc(text, "")[0] if text else None
