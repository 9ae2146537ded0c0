"""The entry of a package in a new version, and what a person has to know of the change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flycore.catalog.builtin import KNOWN
from flycore.model.enums import PackageScope, Risk
from flycore.model.json import Json, JsonObject, digest
from flycore.model.json_diff import json_difference
from flycore.model.package import PackageReview
from flycore.packages.records import PackageRecord, StagedVersion

_THE_PACKAGES = frozenset(("command", "kind", "packageId", "packageVersion"))
"""Keys that are the package's alone: an upgrade always writes them."""
_REACH = ("permissions", "delegates", "env", "passEnv", "sampling")
"""Keys of an entry that say what its program may reach."""
_ABSENT: Json = {"\0": None}
"""Stands for a key that is not there; no file can hold this value."""


def merged_entry(
    asked_before: JsonObject | None, current: JsonObject | None, asked_after: JsonObject
) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the entry in the new version, and notes about the values that stay as a person wrote them.

    `asked_before` is what the installed version asked for, and `current` is what the registry has. A value
    that differs in these two is the person's own, and stays.
    """
    if current is None:
        return asked_after, ()
    if asked_before is None:
        return {**current, **asked_after}, ()
    result: JsonObject = {}
    notes: list[str] = []
    for key in dict.fromkeys((*current, *asked_after)):
        asked, now, wanted = (value.get(key, _ABSENT) for value in (asked_before, current, asked_after))
        kept = wanted if key in _THE_PACKAGES or now == asked else now
        if kept != wanted and wanted != asked:
            notes.append(f"{key} stays as you wrote it, though the package now asks for another value")
        if kept is not _ABSENT:
            result[key] = kept
    return result, tuple(notes)


def review_of(record: PackageRecord, scope: PackageScope, current: JsonObject | None) -> PackageReview | None:
    """Return what the staged version would change; None where nothing is staged. `current` is the entry that
    the registry has now."""
    staged = record.staged
    if staged is None:
        return None
    before = current or {}
    permissions = _reach_difference(before, staged.entry)
    risk = tuple(_risk_changes(before, staged.entry))
    tools_before, tools_after = _tools(before), _tools(staged.entry)
    version = record.installed.version if record.installed else ""
    command = staged.entry.get("command")
    return PackageReview(
        id=record.id,
        sidecar=record.sidecar,
        scope=scope,
        before=version,
        after=staged.version,
        source=staged.source,
        command=" ".join([str(command), *_arguments(staged.entry)]),
        runtime=staged.runtime,
        permissions=permissions,
        risk=risk,
        tools_added=tuple(name for name in tools_after if name not in tools_before),
        tools_removed=tuple(name for name in tools_before if name not in tools_after),
        difference=json_difference(before, staged.entry),
        notes=staged.notes,
        needs_person=current is None or bool(permissions) or bool(risk),
        checksum=staged.checksum,
        digest=review_digest(record, staged, scope, current),
    )


def review_lines(review: PackageReview) -> tuple[str, ...]:
    """Return a review in lines, for a card and for a terminal."""
    lines = [
        f"version  {review.before or 'none'} → {review.after}",
        f"from     {review.source}",
        f"command  {review.command}",
    ]
    lines += [f"needs    {review.runtime}"] if review.runtime else []
    lines += [f"reach    {line}" for line in review.permissions or ("no change",)]
    lines += [f"risk     {line}" for line in review.risk]
    lines += [f"+ tool   {name}" for name in review.tools_added]
    lines += [f"- tool   {name}" for name in review.tools_removed]
    lines += [f"note     {line}" for line in review.notes]
    lines += [f"entry    {line}" for line in review.difference]
    return (*lines, f"files    sha256 {review.checksum}", f"review   {review.digest}")


def review_digest(
    record: PackageRecord, staged: StagedVersion, scope: PackageScope, current: JsonObject | None
) -> str:
    """Return the digest over everything that a review shows."""
    version = record.installed.version if record.installed else ""
    return digest(
        [
            scope.value,
            record.id,
            record.sidecar,
            version,
            staged.version,
            staged.checksum,
            current,
            staged.entry,
        ]
    )


def _arguments(entry: JsonObject) -> list[str]:
    args = entry.get("args")
    return [str(item) for item in args] if isinstance(args, list) else []


def _reach_difference(before: JsonObject, after: JsonObject) -> tuple[str, ...]:
    parts = [{key: entry[key] for key in _REACH if key in entry} for entry in (before, after)]
    return json_difference(*parts)


def _tools(entry: JsonObject) -> dict[str, Mapping[str, Any] | None]:
    """Return the tools of an entry by name, each with its description where the entry has one."""
    tools = entry.get("tools")
    found: dict[str, Mapping[str, Any] | None] = {}
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and isinstance(tool.get("name"), str):
            found[str(tool["name"])] = tool
        elif isinstance(tool, str):
            found[tool] = None
    return found


def _risk_changes(before: JsonObject, after: JsonObject) -> Iterable[str]:
    """Yield a line for each tool whose risk is another one, and for each new tool."""
    old = {name: _risk_words(name, spec) for name, spec in _tools(before).items()}
    for name, spec in _tools(after).items():
        words = _risk_words(name, spec)
        if name not in old:
            yield f"{name}: new, {words}"
        elif old[name] != words:
            yield f"{name}: {words}, before {old[name]}"


def _risk_words(name: str, spec: Mapping[str, Any] | None) -> str:
    """Return risk, approval classes and effect of a tool in words, as its description states them."""
    known = KNOWN.get(name)
    if known is not None:
        return f"{known.risk.value} risk, known to flytui"
    spec = spec or {}
    classes = spec.get("approvalClass", "not stated")
    said = " ".join(map(str, classes)) if isinstance(classes, list) else str(classes)
    effect = "changes nothing" if spec.get("readOnly") is True else "may change things"
    return f"{spec.get('risk', Risk.MEDIUM.value)} risk, class {said}, {effect}"
