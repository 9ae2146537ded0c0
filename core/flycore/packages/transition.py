"""Changes what is installed: applies a staged version, rolls back to the previous one, or removes a package.

Each of these is a list of moves of folders and one rename of the registry. The order is fixed: the registry
as it will be and the record of the change are on disk first; each move is on disk before the next one; the
rename of the registry makes the change; the record that it is done comes last. So a kill or a loss of power
between any two steps leaves a state that `recovery` can tell from the files, and finish or undo.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

import msgspec

from flycore.model.enums import PackageAction, PackageResult, UpgradeState
from flycore.model.json import JsonObject
from flycore.model.package import PackageOutcome
from flycore.packages.area import (
    FOLDER_FLAGS,
    OpenArea,
    PackageRefused,
    belongs_to,
    present,
    remove_tree,
    version_folder,
)
from flycore.packages.entries import review_digest
from flycore.packages.records import (
    InstalledVersion,
    PackageChange,
    PackageRecord,
    PreviousVersion,
    remove_record,
    value_of,
    write_record,
)
from flycore.packages.registry_file import (
    RegistryText,
    commit_next,
    entry_of_package,
    read_registry_text,
    remove_next,
    with_entry,
    write_next,
)
from flycore.packages.tree import checksum, read_tree
from flycore.registry.edits import entry_text
from flysafe.beneath import open_beneath

CUT_OFF = "the change was cut off, and what was moved could not be moved back"


class Spot(NamedTuple):
    """A folder of a package: the name of the folder above it, as `OpenArea.folder` knows it, and its own."""

    above: str
    name: str


class Step(NamedTuple):
    """One move of a folder."""

    source: Spot
    target: Spot


def steps_of(package: str, change: PackageChange) -> tuple[Step, ...]:
    """Return the moves of a change, in their order."""
    own = Spot("packages", package)
    apply = change.action is PackageAction.APPLY
    steps: list[Step] = []
    if change.displaced:
        steps.append(Step(own, Spot("previous" if apply else "staging", change.displaced)))
    if change.source:
        steps.append(Step(Spot("staging" if apply else "previous", change.source), own))
    return tuple(steps)


def moves_done(opened: OpenArea, steps: tuple[Step, ...]) -> int | None:
    """Return how many of the moves were made, as the folders show; None where they show no such moment."""
    spots = {spot for step in steps for spot in step}
    there = {spot for spot in spots if present(opened.folder(spot.above), spot.name)}
    expected = {step.source for step in steps}
    # The target of the first move may be the source of none; that of the second is the source of the first.
    for done in range(len(steps) + 1):
        if there == expected:
            return done
        if done < len(steps):
            expected = (expected - {steps[done].source}) | {steps[done].target}
    return None


def plan_apply(
    opened: OpenArea, record: PackageRecord, shown: str
) -> tuple[PackageChange, RegistryText, str]:
    """Return the change that applies the staged version, with the registry as it is and its text as it will
    be. `shown` is the digest of the review that was decided on.

    Raises PackageRefused (`stale`) where anything differs from that review, and OSError.
    """
    staged, area = record.staged, opened.area
    if staged is None:
        raise PackageRefused("not-staged", f"nothing of {record.id} is staged", "flytui packages stage PATH")
    again = f"flytui packages stage {staged.source}"
    registry = read_registry_text(opened)
    sidecar, current = entry_of_package(registry, record.id, area.shown_registry)
    if sidecar != record.sidecar or current != staged.before:
        raise PackageRefused("stale", f"the entry {record.sidecar} has changed since it was staged", again)
    if review_digest(record, staged, area.scope, current) != shown:
        message = f"what is staged of {record.id} has changed since it was shown"
        raise PackageRefused("stale", message, f"flytui packages review {record.id}")
    name = version_folder(record.id, staged.version)
    if _checksum_of(opened, name) != staged.checksum:
        raise PackageRefused("stale", f"the staged files of {record.id} have changed", again)
    before = registry.spelled(sidecar)
    text = with_entry(registry, sidecar, staged.entry, area.shown_registry)
    displaced = ""
    if present(opened.packages, record.id):
        version = record.installed.version if record.installed else "0"
        displaced = _free_name(opened.previous, version_folder(record.id, version))
    change = PackageChange(
        action=PackageAction.APPLY,
        version=staged.version,
        source=name,
        was=record.state,
        displaced=displaced,
        before=before,
        after=entry_text(text, sidecar) or "",
    )
    return change, registry, text


def plan_rollback(opened: OpenArea, record: PackageRecord) -> tuple[PackageChange, RegistryText, str]:
    """Return the change back to the previous version, as `plan_apply` does.

    Raises PackageRefused (`no-previous`) where there is none, and OSError.
    """
    previous, area = record.previous, opened.area
    if previous is None or not present(opened.previous, previous.folder):
        remedy = f"flytui packages remove {record.id}"
        raise PackageRefused("no-previous", f"there is no previous version of {record.id}", remedy)
    registry = read_registry_text(opened)
    text = with_entry(registry, record.sidecar, previous.entry or None, area.shown_registry)
    change = PackageChange(
        action=PackageAction.ROLLBACK,
        version=previous.version,
        source=previous.folder,
        was=record.state,
        displaced=f".gone-{record.id}" if present(opened.packages, record.id) else "",
        before=registry.spelled(record.sidecar),
        after=(entry_text(text, record.sidecar) or "") if previous.entry else "",
    )
    return change, registry, text


def plan_remove(opened: OpenArea, record: PackageRecord) -> tuple[PackageChange, RegistryText, str]:
    """Return the change that removes the package and its entry. Raises PackageRefused and OSError."""
    registry = read_registry_text(opened)
    text = with_entry(registry, record.sidecar, None, opened.area.shown_registry)
    change = PackageChange(
        action=PackageAction.REMOVE,
        was=record.state,
        displaced=f".gone-{record.id}" if present(opened.packages, record.id) else "",
        before=registry.spelled(record.sidecar),
    )
    return change, registry, text


def carry_out(
    opened: OpenArea, record: PackageRecord, change: PackageChange, registry: RegistryText, text: str
) -> tuple[PackageOutcome, PackageRecord | None]:
    """Make a planned change. Return how it ended, and the record that is left; None for a removed package."""
    begun = msgspec.structs.replace(record, state=UpgradeState.APPLYING, change=change, why="")
    # What lies where something is to be moved is a leftover: no record names it.
    try:
        for step in steps_of(record.id, change):
            if step.target.above != "packages":
                remove_tree(opened.folder(step.target.above), step.target.name)
        write_next(opened, registry, text)
        write_record(opened.area, begun)
        for step in steps_of(record.id, change):
            move(opened, step)
        commit_next(opened)
    except OSError as error:
        if not _is_committed(opened, text):
            return take_back(opened, record, begun, f"{error.strerror or error}")
    return finish(opened, begun)


def take_back(
    opened: OpenArea, record: PackageRecord, begun: PackageRecord, why: str
) -> tuple[PackageOutcome, PackageRecord]:
    """Undo a change whose registry was not renamed. Return the outcome, and `record` as it is then."""
    change = begun.change
    steps = steps_of(record.id, change) if change is not None else ()
    action = change.action.value if change is not None else "the change"
    try:
        done = moves_done(opened, steps)
        if done is None:
            return _outcome(opened, begun, PackageResult.FAILED, f"{why}; {CUT_OFF}"), begun
        for step in reversed(steps[:done]):
            move(opened, Step(step.target, step.source))
        kept = msgspec.structs.replace(record, change=None, why=f"{action} failed: {why}")
        write_record(opened.area, kept)
    except OSError as error:
        message = f"{why}; {error.strerror or error}. The next start of flytui tries again"
        return _outcome(opened, begun, PackageResult.FAILED, message), begun
    return _outcome(opened, kept, PackageResult.FAILED, why), kept


def finish(opened: OpenArea, begun: PackageRecord) -> tuple[PackageOutcome, PackageRecord | None]:
    """End a change whose registry was renamed. Return how it ended, and the record that is left."""
    left = record_after(begun)
    problems: list[str] = []
    try:
        os.fsync(opened.registry)
    except OSError as error:
        problems.append(error.strerror or str(error))
    try:
        if left is None:
            remove_record(opened.area, begun.id)
        else:
            write_record(opened.area, left)
    except OSError as error:
        problems.append(error.strerror or str(error))
    if problems:
        message = f"it is done, but may not outlive a loss of power: {'; '.join(problems)}"
        return _outcome(opened, left or begun, PackageResult.UNSYNCED, message), left
    with suppress(OSError):  # a leftover takes room, and the next change removes it
        clean_up(opened, begun.id, left)
    return _outcome(opened, left or begun, PackageResult.COMMITTED, ""), left


def record_after(begun: PackageRecord) -> PackageRecord | None:
    """Return the record once the change that it names is done; None for a removed package."""
    change = begun.change
    if change is None or change.action is PackageAction.REMOVE:
        return None
    idle = msgspec.structs.replace(begun, state=UpgradeState.IDLE, change=None, probed=False, why="")
    if change.action is PackageAction.APPLY:
        previous, staged = None, begun.staged
        was = begun.installed or InstalledVersion(version="0", checksum="")
        if staged is not None and staged.checksum == was.checksum:
            previous = begun.previous  # the same files again: the way back stays what it was
        elif change.displaced:
            previous = PreviousVersion(
                version=was.version,
                folder=change.displaced,
                checksum=was.checksum,
                entry=change.before,
                asked=was.asked,
                source=was.source,
            )
        installed = None
        if staged is not None:
            installed = InstalledVersion(
                version=staged.version,
                checksum=staged.checksum,
                asked=staged.asked or staged.entry,
                source=staged.source,
            )
        return msgspec.structs.replace(idle, installed=installed, staged=None, previous=previous)
    back = begun.previous
    installed = None
    if back is not None:
        installed = InstalledVersion(
            version=back.version, checksum=back.checksum, asked=back.asked, source=back.source
        )
    return msgspec.structs.replace(idle, installed=installed, staged=None, previous=None)


def clean_up(opened: OpenArea, package: str, record: PackageRecord | None) -> None:
    """Remove the folders of the package that its record does not name. Raises OSError."""
    previous = record.previous.folder if record is not None and record.previous is not None else ""
    staged = ""
    if record is not None and record.staged is not None:
        staged = version_folder(package, record.staged.version)
    for folder, kept in ((opened.previous, previous), (opened.staging, staged)):
        for name in os.listdir(folder):
            if belongs_to(name, package) and name != kept:
                remove_tree(folder, name)
    if not staged:
        remove_next(opened)


def move(opened: OpenArea, step: Step) -> None:
    """Move a folder, and wait until that is on disk. Raises OSError."""
    source, target = opened.folder(step.source.above), opened.folder(step.target.above)
    os.rename(step.source.name, step.target.name, src_dir_fd=source, dst_dir_fd=target)
    # The new name first: after a loss of power a folder may have both names, and is never gone.
    os.fsync(target)
    os.fsync(source)


def entry_is(registry: RegistryText, sidecar: str, text: str) -> bool:
    """Return whether the registry has the entry that is spelled so; an empty text stands for none."""
    wanted: object = value_of(text)
    return registry.sidecars.get(sidecar) == wanted


def _is_committed(opened: OpenArea, text: str) -> bool:
    """Whether the registry is the new one: a rename may report an error after it was made."""
    try:
        return read_registry_text(opened).text == text and not present(
            opened.registry, f"{opened.registry_name}.next"
        )
    except (PackageRefused, OSError):
        return False


def _free_name(folder: int, name: str) -> str:
    """Return the name, or with a number behind it where it is in use."""
    return next(
        found for found in (name, *(f"{name}.{n}" for n in range(1, 100))) if not present(folder, found)
    )


def _checksum_of(opened: OpenArea, name: str) -> str:
    """The checksum over all files of a staged version; empty where it is gone."""
    try:
        fd = open_beneath(opened.staging, name, FOLDER_FLAGS)
    except FileNotFoundError:
        return ""
    try:
        return checksum(read_tree(fd))
    finally:
        os.close(fd)


def _outcome(opened: OpenArea, record: PackageRecord, result: PackageResult, message: str) -> PackageOutcome:
    return PackageOutcome(
        id=record.id,
        sidecar=record.sidecar,
        scope=opened.area.scope,
        result=result,
        state=record.state,
        message=message,
    )


def current_entry(opened: OpenArea, record: PackageRecord) -> JsonObject | None:
    """Return the entry of a package as the registry has it now; None where there is none."""
    entry = read_registry_text(opened).sidecars.get(record.sidecar)
    return entry if isinstance(entry, dict) else None
