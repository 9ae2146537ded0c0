"""What is installed and staged, as values; and whether the installed files are those that were installed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from flycore.model.enums import PackageScope, UpgradeState
from flycore.model.json import JsonObject
from flycore.model.package import PackageCheck, PackageView
from flycore.packages.area import (
    FOLDER_FLAGS,
    PACKAGE_ID,
    OpenArea,
    PackageArea,
    PackageRefused,
    areas,
)
from flycore.packages.entries import review_of
from flycore.packages.records import PackageRecord, readable_records
from flycore.packages.tree import checksum, read_tree
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.paths import RootPaths
from flycore.registry.read_file import read_text
from flysafe.beneath import open_anchor, open_beneath

_STEPS = {
    UpgradeState.STAGED: "flytui packages apply {id}",
    UpgradeState.ROLLBACK_REQUIRED: "flytui packages rollback {id}",
    UpgradeState.FAILED: "flytui packages rollback {id}",
    UpgradeState.APPLYING: "flytui packages list",
}


def list_packages(places: RootPaths) -> tuple[PackageView, ...]:
    """Return the packages of the project and of the user. Reads files, and writes nothing."""
    return tuple(view for area in areas(places) for view in list_area(area))


def list_area(area: PackageArea) -> tuple[PackageView, ...]:
    """Return the packages of one area, also folders that nobody installed with flytui."""
    records = {record.id: record for record in readable_records(area)}
    entries = _entries(area) if any(record.staged for record in records.values()) else {}
    found = [_view(area, record, entries) for record in records.values()]
    found += [
        PackageView(id=name, sidecar=name, scope=area.scope, state=UpgradeState.IDLE, why=BY_HAND)
        for name in _folders(area)
        if name not in records
    ]
    return tuple(sorted(found, key=lambda view: view.id))


BY_HAND = "its folder was put there by hand"


def _view(area: PackageArea, record: PackageRecord, entries: Mapping[str, JsonObject]) -> PackageView:
    option = " --user" if area.scope is PackageScope.USER else ""
    step = _STEPS.get(record.state, "").format(id=record.id)
    if record.state in _BACK and record.previous is None and record.change is None:
        step = f"flytui packages remove {record.id}"
    return PackageView(
        id=record.id,
        sidecar=record.sidecar,
        scope=area.scope,
        state=record.state,
        version=record.installed.version if record.installed else "",
        staged=record.staged.version if record.staged else "",
        previous=record.previous.version if record.previous else "",
        source=record.installed.source if record.installed else "",
        probed=record.probed,
        why=record.why,
        next_step=step + option if step else "",
        review=review_of(record, area.scope, entries.get(record.sidecar)),
    )


_BACK = (UpgradeState.ROLLBACK_REQUIRED, UpgradeState.FAILED)


def _entries(area: PackageArea) -> dict[str, JsonObject]:
    text, _, problem = read_text(area.registry_anchor, area.registry, area.registry)
    value = parse_jsonc(text, area.registry)[0] if text is not None and problem is None else None
    sidecars = value.get("sidecars") if isinstance(value, dict) else None
    if not isinstance(sidecars, dict):
        return {}
    return {sidecar: entry for sidecar, entry in sidecars.items() if isinstance(entry, dict)}


def _folders(area: PackageArea) -> Iterator[str]:
    with suppress(OSError):
        for item in os.scandir(area.base / area.folder):
            if PACKAGE_ID.fullmatch(item.name) and item.is_dir(follow_symlinks=False):
                yield item.name


def verify_area(area: PackageArea) -> tuple[PackageCheck, ...]:
    """Compare the files of each installed package with those that were installed."""
    return tuple(_check(area, record) for record in readable_records(area) if record.installed is not None)


def _check(area: PackageArea, record: PackageRecord) -> PackageCheck:
    installed = record.installed
    version, wanted = (installed.version, installed.checksum) if installed else ("", "")
    found, problems = "", []
    try:
        found = _installed_checksum(area, record.id)
    except PackageRefused as error:
        problems.append(error.message)
    except OSError as error:
        problems.append(f"its folder cannot be read: {error.strerror}")
    if not problems and not wanted:
        problems.append("its folder was put there by hand, so that there is nothing to compare it with")
    elif not problems and found != wanted:
        problems.append("its files are not those that were installed")
    if record.state not in (UpgradeState.IDLE, UpgradeState.STAGED):
        problems.append(f"{record.state.value}: {record.why}" if record.why else record.state.value)
    return PackageCheck(
        id=record.id, scope=area.scope, version=version, checksum=found, problems=tuple(problems)
    )


def is_whole(opened: OpenArea, record: PackageRecord) -> bool:
    """Return whether the installed files are those that were installed."""
    with suppress(PackageRefused, OSError):
        wanted = record.installed.checksum if record.installed else ""
        return bool(wanted) and _installed_checksum(opened.area, record.id) == wanted
    return False


def _installed_checksum(area: PackageArea, package: str) -> str:
    anchor = open_anchor(area.base)
    try:
        fd = open_beneath(anchor, f"{area.folder}/{package}", FOLDER_FLAGS)
    finally:
        os.close(anchor)
    try:
        return checksum(read_tree(fd))
    finally:
        os.close(fd)
