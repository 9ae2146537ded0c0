"""What a person does with packages, one function for each: stage, apply, roll back, remove, keep disabled.

Each opens and locks the area, recovers what was cut off there, and acts. A refusal is an outcome like any
other: nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

import flycore
from flycore.catalog.builtin import KNOWN
from flycore.model.enums import PackageAction, PackageResult, UpgradeState
from flycore.model.json import JsonObject
from flycore.model.package import PackageOutcome, PackageView
from flycore.packages.area import OpenArea, PackageArea, PackageRefused, open_area
from flycore.packages.entries import review_of
from flycore.packages.inventory import is_whole, list_area
from flycore.packages.records import (
    InstalledVersion,
    PackageRecord,
    StagedVersion,
    read_record,
    value_of,
    write_record,
)
from flycore.packages.recovery import recover, undo_undecided
from flycore.packages.stage import PackageUnsynced, discard
from flycore.packages.stage import stage as stage_in
from flycore.packages.transition import carry_out, current_entry, plan_apply, plan_remove, plan_rollback

STAGE = "flytui packages stage PATH"
KEPT_DISABLED = "you keep it disabled"


class PackageEnd(NamedTuple):
    """How an action ended, and the entry that is in the registry because of it."""

    outcome: PackageOutcome
    entry: JsonObject | None = None
    """What the registry has for the sidecar now, if the action put it there."""
    again: str = ""
    """The digest of the review of what is staged now, where these are the files that a person agreed to
    before and nothing else changes."""


def stage(area: PackageArea, source: Path, now: float) -> PackageEnd:
    """Stage the version in a folder or an archive. `now` is Unix time in seconds."""

    def act(opened: OpenArea) -> PackageEnd:
        known = frozenset(KNOWN)
        try:
            record = stage_in(opened, source, core=flycore.__version__, known=known, now=now)
        except PackageUnsynced as error:
            why = f"it is staged, but may not outlive a loss of power: {error.why}"
            outcome = _outcome(area, error.record.id, error.record, PackageResult.UNSYNCED, why)
            return PackageEnd(outcome)
        message = record.staged.version if record.staged is not None else ""
        return PackageEnd(_outcome(area, record.id, record, PackageResult.COMMITTED, message))

    return _act(area, source.name, act)


def apply(area: PackageArea, package: str, shown: str) -> PackageEnd:
    """Apply the staged version, if `shown` is the digest of its review."""

    def act(opened: OpenArea) -> PackageEnd:
        record = _known(area, package)
        plan = plan_apply(opened, record, shown)
        outcome, left = carry_out(opened, record, *plan)
        return _ended(outcome, left, value_of(plan[0].after))

    return _act(area, package, act)


def announce(area: PackageArea, package: str, action: PackageAction, shown: str) -> PackageEnd:
    """Check a change and record that it begins, so that its sidecar takes no more calls. Nothing is moved
    yet; the action itself, or the next recovery, goes on from here."""

    def act(opened: OpenArea) -> PackageEnd:
        record = _known(area, package)
        if action is PackageAction.APPLY:
            change = plan_apply(opened, record, shown)[0]
        elif record.change is not None:
            return PackageEnd(_outcome(area, package, record, PackageResult.COMMITTED, ""))
        else:
            plan = plan_rollback if action is PackageAction.ROLLBACK else plan_remove
            change = plan(opened, record)[0]
        begun = msgspec.structs.replace(record, state=UpgradeState.APPLYING, change=change)
        write_record(area, begun)
        return PackageEnd(_outcome(area, package, begun, PackageResult.COMMITTED, ""))

    return _act(area, package, act)


def roll_back(area: PackageArea, package: str) -> PackageEnd:
    """Go back to the previous version, with its entry."""

    def act(opened: OpenArea) -> PackageEnd:
        record = _known(area, package)
        if record.change is not None:
            left = undo_undecided(opened, record)
            entry = value_of(record.change.before)
            return _ended(_outcome(area, package, left, PackageResult.COMMITTED, ""), left, entry)
        plan = plan_rollback(opened, record)
        outcome, kept = carry_out(opened, record, *plan)
        return _ended(outcome, kept, value_of(plan[0].after))

    return _act(area, package, act)


def remove(area: PackageArea, package: str) -> PackageEnd:
    """Remove the package, its entry, and everything that is staged and kept of it."""

    def act(opened: OpenArea) -> PackageEnd:
        record = _known(area, package)
        outcome, _ = carry_out(opened, record, *plan_remove(opened, record))
        return PackageEnd(outcome)

    return _act(area, package, act)


def discard_staged(area: PackageArea, package: str) -> PackageEnd:
    """Forget the staged version. What is installed stays."""

    def act(opened: OpenArea) -> PackageEnd:
        record = _known(area, package)
        if record.staged is None:
            raise PackageRefused("not-staged", f"nothing of {package} is staged")
        left = discard(opened, record)
        return PackageEnd(_outcome(area, package, left, PackageResult.COMMITTED, "discarded"))

    return _act(area, package, act)


def keep_disabled(area: PackageArea, package: str) -> PackageEnd:
    """Leave a package that has to be rolled back as it is: unavailable, and nobody is asked again."""

    def act(opened: OpenArea) -> PackageEnd:
        record = _known(area, package)
        left = msgspec.structs.replace(record, state=UpgradeState.FAILED, why=KEPT_DISABLED)
        write_record(area, left)
        return PackageEnd(_outcome(area, package, left, PackageResult.COMMITTED, KEPT_DISABLED))

    return _act(area, package, act)


def restage(area: PackageArea, package: str, now: float) -> PackageEnd:
    """Stage the installed version again from where it came, if its files are not what they were.

    Where they are, nothing is staged. After a change that could not be decided, the version that it would
    have installed is staged again, for a person to review. `now` is Unix time in seconds.
    """

    def act(opened: OpenArea) -> PackageEnd:
        record = _known(area, package)
        installed, undecided = record.installed, record.change is not None
        version: InstalledVersion | StagedVersion | None = installed
        if undecided and record.staged is not None:
            version = record.staged
        if not undecided and installed is not None and is_whole(opened, record):
            return PackageEnd(_outcome(area, package, record, PackageResult.COMMITTED, ""))
        source = version.source if version is not None else ""
        if not source:
            raise PackageRefused("no-source", f"it is not known where {package} came from", STAGE)
        left = stage_in(opened, Path(source), core=flycore.__version__, known=frozenset(KNOWN), now=now)
        if left.id != package:
            raise PackageRefused("other", f"{source} has another package by now: {left.id}", STAGE)
        outcome = _outcome(area, package, left, PackageResult.COMMITTED, f"staged again from {source}")
        return PackageEnd(outcome, again="" if undecided else _same_again(opened, left))

    return _act(area, package, act)


def _same_again(opened: OpenArea, record: PackageRecord) -> str:
    """The digest of the review of a staged version that is the installed one; else an empty text."""
    review = review_of(record, opened.area.scope, current_entry(opened, record))
    installed = record.installed
    if review is None or review.needs_person or installed is None or review.checksum != installed.checksum:
        return ""
    return review.digest


def record_probe(area: PackageArea, package: str, why_not: str) -> PackageEnd:
    """Record that the installed version has answered its probe, or with `why_not` that it did not."""

    def act(_: OpenArea) -> PackageEnd:
        record = _known(area, package)
        state = record.state
        if why_not:
            state = UpgradeState.ROLLBACK_REQUIRED
        elif state in (UpgradeState.ROLLBACK_REQUIRED, UpgradeState.FAILED):
            state = UpgradeState.STAGED if record.staged is not None else UpgradeState.IDLE
        left = msgspec.structs.replace(record, probed=not why_not, state=state, why=why_not)
        write_record(area, left)
        return PackageEnd(_outcome(area, package, left, PackageResult.COMMITTED, why_not))

    # The answer comes once. Whoever changes packages at this moment has soon ended.
    return _act(area, package, act, patient=True)


def find(area: PackageArea, package: str) -> PackageView | None:
    """Return one package of the area as it is now; None where there is none of that id."""
    return next((view for view in list_area(area) if view.id == package), None)


def _act(
    area: PackageArea, package: str, act: Callable[[OpenArea], PackageEnd], *, patient: bool = False
) -> PackageEnd:
    try:
        with open_area(area, patient=patient) as opened:
            recover(opened)
            return act(opened)
    except PackageRefused as error:
        refused = _outcome(area, package, _record(area, package), PackageResult.FAILED, error.message)
        return PackageEnd(msgspec.structs.replace(refused, next_step=error.next_step))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        message = f"{place}{error.strerror or error}"
        return PackageEnd(_outcome(area, package, _record(area, package), PackageResult.FAILED, message))


def _record(area: PackageArea, package: str) -> PackageRecord | None:
    with suppress(OSError):
        return read_record(area, package)
    return None


def _known(area: PackageArea, package: str) -> PackageRecord:
    record = read_record(area, package)
    if record is None:
        raise PackageRefused("unknown", f"there is no package {package}", "flytui packages list")
    return record


def _ended(outcome: PackageOutcome, left: PackageRecord | None, entry: object) -> PackageEnd:
    put = entry if outcome.changed and left is not None and isinstance(entry, dict) else None
    return PackageEnd(outcome, put)


def _outcome(
    area: PackageArea, package: str, record: PackageRecord | None, result: PackageResult, message: str
) -> PackageOutcome:
    return PackageOutcome(
        id=package,
        sidecar=record.sidecar if record else "",
        scope=area.scope,
        result=result,
        state=record.state if record else UpgradeState.IDLE,
        message=message,
    )
