"""Finishes or undoes changes that a kill or a loss of power cut off, as the folders and the registry show.

Where they show no moment of the change, because somebody else moved or edited something meanwhile, nothing is
guessed: the package is `rollback-required`, and a person decides.
"""

from __future__ import annotations

import os
from contextlib import suppress

import msgspec

from flycore.model.enums import PackageResult, UpgradeState
from flycore.model.package import PackageOutcome
from flycore.packages.area import (
    OpenArea,
    PackageArea,
    PackageRefused,
    exists,
    open_area,
    present,
    remove_tree,
    version_folder,
)
from flycore.packages.records import PackageRecord, read_records, readable_records, write_record
from flycore.packages.registry_file import (
    commit_next,
    read_registry_text,
    with_entry,
    write_next,
)
from flycore.packages.transition import (
    Step,
    entry_is,
    finish,
    move,
    moves_done,
    steps_of,
    take_back,
)

UNDECIDED = "a change was cut off, and the files show neither the old nor the new version"


def needs_recovery(area: PackageArea) -> bool:
    """Return whether a record of the area names a change that has not ended."""
    return any(record.state is UpgradeState.APPLYING for record in readable_records(area))


def recover_area(area: PackageArea) -> tuple[PackageOutcome, ...]:
    """Finish or undo what was cut off in an area. Nothing is done while another process changes packages
    there, or where the folders cannot be opened: then the sidecars stay unavailable."""
    if not exists(area) or not needs_recovery(area):
        return ()
    with suppress(PackageRefused, OSError), open_area(area) as opened:
        return recover(opened)
    return ()


def recover(opened: OpenArea) -> tuple[PackageOutcome, ...]:
    """Finish or undo what was cut off, in an area that is open, and remove what is left of it. Raises OSError
    where the records cannot be read; then nothing has changed."""
    records = read_records(opened.area)
    outcomes = tuple(
        _recover_one(opened, record) for record in records if record.state is UpgradeState.APPLYING
    )
    with suppress(OSError):
        _drop_missing(opened)
        _remove_unfinished(opened)
    return outcomes


def _recover_one(opened: OpenArea, begun: PackageRecord) -> PackageOutcome:
    change = begun.change
    if change is None:
        return _undecided(opened, begun)
    steps = steps_of(begun.id, change)
    try:
        registry = read_registry_text(opened)
        done = moves_done(opened, steps)
    except (PackageRefused, OSError):
        return _undecided(opened, begun)
    is_new = entry_is(registry, begun.sidecar, change.after)
    is_old = entry_is(registry, begun.sidecar, change.before)
    if done == len(steps) and is_new:
        outcome, _ = finish(opened, begun)
        return outcome
    if done is not None and is_old:
        before = msgspec.structs.replace(begun, state=change.was)
        outcome, _ = take_back(opened, before, begun, "it was cut off, and has been undone")
        return outcome
    return _undecided(opened, begun)


def _undecided(opened: OpenArea, begun: PackageRecord) -> PackageOutcome:
    record = msgspec.structs.replace(begun, state=UpgradeState.ROLLBACK_REQUIRED, why=UNDECIDED)
    with suppress(OSError):
        write_record(opened.area, record)
    return PackageOutcome(
        id=begun.id,
        sidecar=begun.sidecar,
        scope=opened.area.scope,
        result=PackageResult.FAILED,
        state=record.state,
        message=UNDECIDED,
    )


def undo_undecided(opened: OpenArea, record: PackageRecord) -> PackageRecord:
    """Put back what can be put back of a change that could not be decided, by a person's wish.

    Folders that were moved are moved back where their places are free, and the entry is written as it was
    before the change. Returns the record. Raises PackageRefused and OSError.
    """
    change = record.change
    if change is None:
        return record
    for step in reversed(steps_of(record.id, change)):
        moved = present(opened.folder(step.target.above), step.target.name)
        if moved and not present(opened.folder(step.source.above), step.source.name):
            move(opened, Step(step.target, step.source))
    registry = read_registry_text(opened)
    if not entry_is(registry, record.sidecar, change.before):
        text = with_entry(registry, record.sidecar, change.before or None, opened.area.shown_registry)
        write_next(opened, registry, text)
        commit_next(opened)
        os.fsync(opened.registry)
    if change.displaced and not present(opened.packages, record.id):
        message = f"the files of {record.id} as they were before are gone"
        raise PackageRefused("no-previous", message, f"flytui packages remove {record.id}")
    left = msgspec.structs.replace(record, state=UpgradeState.IDLE, change=None, probed=False, why="")
    write_record(opened.area, left)
    return left


def _drop_missing(opened: OpenArea) -> None:
    """Forget staged versions whose folders are gone."""
    for record in read_records(opened.area):
        staged = record.staged
        if staged is None or record.state is UpgradeState.APPLYING:
            continue
        if not present(opened.staging, version_folder(record.id, staged.version)):
            state = UpgradeState.IDLE if record.state is UpgradeState.STAGED else record.state
            write_record(opened.area, msgspec.structs.replace(record, staged=None, state=state))


def _remove_unfinished(opened: OpenArea) -> None:
    """Remove folders below `.staging` that are unpacked in part, or were to be removed."""
    named = set()
    for record in read_records(opened.area):
        if record.staged is not None:
            named.add(version_folder(record.id, record.staged.version))
        if record.change is not None:
            named |= {record.change.source, record.change.displaced}
    for name in os.listdir(opened.staging):
        # A version that was staged has a name without a dot in front. It stays, whatever the records say.
        if name.startswith(".") and name not in named:
            remove_tree(opened.staging, name)
