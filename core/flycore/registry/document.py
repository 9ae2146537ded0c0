"""One registry file's text: its frame, and each of its entries."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from flycore.model.canonical import Json
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Source
from flycore.model.sidecar import SidecarEntry
from flycore.registry.entry import parse_entry, sorted_json
from flycore.registry.jsonc import index_findings, parse_jsonc
from flycore.registry.located import Findings, RegistryText
from flycore.registry.names import nearest
from flycore.registry.outline import EntryOutline, outline
from flycore.registry.spans import line_starts, pointer_join

_ID = re.compile(r"[a-z0-9._-]{1,64}")
_TOP_KEYS = ("$schema", "schemaVersion", "sidecars")
_VERSIONS = (1, 2)

_Placed = tuple[Position, dict[str, Position]]
"""Where an entry's key stands, and the keys inside it."""

Parsed = tuple[tuple[SidecarEntry, ...] | None, tuple[Diagnostic, ...]]


def parse_registry(text: str, shown: str, source: Source, known: frozenset[str]) -> Parsed:
    """The entries in the order of the file, None where it does not parse; and findings about the file
    as a whole. Findings about one entry are in the entry."""
    value, problem = parse_jsonc(text, shown)
    if problem is not None:
        return None, (problem,)
    file = RegistryText(text, shown, source)
    frame = list(_frame_problems(value, file))
    if any(finding.severity is Severity.ERROR for finding in frame):
        return None, tuple(frame)
    sidecars = _sidecars(value)
    places, slow = _places(text, value, sidecars)
    of_entries: dict[str, list[Diagnostic]] = {}
    if slow:
        for found in index_findings(value, file.index, shown):
            owner = _owner(found, file, sidecars)
            of_entries.setdefault(owner, []).append(found) if owner is not None else frame.append(found)
        if any(finding.severity is Severity.ERROR for finding in frame):
            return None, tuple(frame)
        places = _indexed_places(file, sidecars)
    placed = _positions(text, shown, places)
    entries: list[SidecarEntry] = []
    for sidecar, raw in sidecars.items():
        findings = Findings(file, sidecar, _owned(of_entries.get(sidecar, []), sidecar))
        position, where = placed[sidecar]
        if _ID.fullmatch(sidecar) is None:
            remedy = "write 1 to 64 of a-z 0-9 . _ -"
            findings.add("", "sidecar-id", "not a sidecar id", remedy)
        entries.append(parse_entry(raw, findings, known, position, where))
    return tuple(entries), tuple(frame)


def _frame_problems(value: Json, file: RegistryText) -> Iterator[Diagnostic]:
    """What is wrong around the entries; an error makes the whole file unusable."""
    if not isinstance(value, dict):
        yield _at(file, "", "schema", "must be an object", 'write {"schemaVersion": 2, "sidecars": {}}')
        return
    version = value.get("schemaVersion")
    if isinstance(version, bool) or version not in _VERSIONS:
        remedy = 'write "schemaVersion": 2'
        said = "schemaVersion is missing" if version is None else "schemaVersion must be 1 or 2"
        yield _at(file, "/schemaVersion", "schema-version", said, remedy)
    if not isinstance(value.get("sidecars", {}), dict):
        remedy = 'write "sidecars": {"some.id": {"command": "…"}}'
        yield _at(file, "/sidecars", "schema", "sidecars must be an object", remedy)
    for key in value.keys() - set(_TOP_KEYS):
        near = nearest(key, _TOP_KEYS, 1)
        remedy = f"did you mean {near[0]}?" if near else "remove it"
        pointer = pointer_join("", key)
        yield _at(file, pointer, "unknown-key", f"{key} is not known here", remedy, Severity.WARNING)


def _sidecars(value: Json) -> dict[str, Any]:
    sidecars = value.get("sidecars") if isinstance(value, dict) else None
    return sidecars if isinstance(sidecars, dict) else {}


def _at(
    file: RegistryText,
    pointer: str,
    rule: str,
    message: str,
    remedy: str,
    severity: Severity = Severity.ERROR,
) -> Diagnostic:
    return Diagnostic(
        severity=severity,
        rule=rule,
        message=f"{file.file}: {message}",
        remedy=remedy,
        pointer=pointer,
        position=file.place(pointer),
    )


def _places(text: str, value: Json, sidecars: dict[str, Any]) -> tuple[dict[str, EntryOutline], bool]:
    """Offsets of entries and their keys by the quick way, and whether the full scan is needed: for text
    that is not plain JSONC, or where a key may be written twice. Every key of plain JSONC shows in the
    text as `":`, so where as many come back out of the parsed value, none was lost."""
    quick = outline(text)
    if quick is None or quick[0].keys() != sidecars.keys() or not isinstance(value, dict):
        return {}, True
    try:
        written = sorted_json(value)
    except UnicodeEncodeError:
        return {}, True
    keys = written.count(b'":') - written.count(b'\\":')
    return quick[0], keys != quick[1]


def _indexed_places(file: RegistryText, sidecars: dict[str, Any]) -> dict[str, EntryOutline]:
    """The same from the full index."""
    places: dict[str, EntryOutline] = {}
    for sidecar, raw in sidecars.items():
        pointer = pointer_join("/sidecars", sidecar)
        keys = (
            {key: _key_start(file, pointer_join(pointer, key)) for key in raw}
            if isinstance(raw, dict)
            else {}
        )
        places[sidecar] = _key_start(file, pointer), keys
    return places


def _key_start(file: RegistryText, pointer: str) -> int:
    span = file.index.key(pointer)
    return span.start if span is not None else 0


def _owner(found: Diagnostic, file: RegistryText, sidecars: dict[str, Any]) -> str | None:
    """The sidecar in whose entry a finding lies."""
    if found.position is None:
        return None
    place = found.position.line, found.position.column
    for sidecar in sidecars:
        pointer = pointer_join("/sidecars", sidecar)
        key, value = file.index.key(pointer), file.index.value(pointer)
        inside = key and value and file.index.position(key.start) <= place < file.index.position(value.end)
        if inside or found.pointer == pointer or found.pointer.startswith(f"{pointer}/"):
            return sidecar
    return None


def _owned(found: list[Diagnostic], sidecar: str) -> list[Diagnostic]:
    """The findings as the entry's own."""
    return [
        Diagnostic(
            severity=one.severity,
            rule=one.rule,
            message=f"{one.pointer.rpartition('/')[2] or sidecar}: {one.message}",
            remedy=one.remedy,
            pointer=one.pointer or pointer_join("/sidecars", sidecar),
            position=one.position,
            sidecar=sidecar,
        )
        for one in found
    ]


def _positions(text: str, shown: str, places: dict[str, EntryOutline]) -> dict[str, _Placed]:
    """Offsets as lines and columns. Most rise; whichever does not is looked for from the start."""
    starts = line_starts(text)
    line = last = 0
    placed: dict[str, _Placed] = {}
    for sidecar, (start, keys) in places.items():
        where: dict[str, Position] = {}
        line = bisect_right(starts, start, line if start >= last else 0)
        position = Position(file=shown, line=line, column=start - starts[line - 1] + 1)
        last = start
        for key, offset in keys.items():
            line = bisect_right(starts, offset, line if offset >= last else 0)
            where[key] = Position(file=shown, line=line, column=offset - starts[line - 1] + 1)
            last = offset
        placed[sidecar] = position, where
    return placed
