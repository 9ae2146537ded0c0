"""Parses the text of one registry file: the frame around the entries, and each entry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from flycore.model.diagnostics import Diagnostic, Position, Severity, nearest
from flycore.model.enums import Source
from flycore.model.json import Json, may_hold_more, pointer_join
from flycore.model.sidecar import SidecarEntry
from flycore.registry.entry import EntrySource, parse_entry, sorted_json
from flycore.registry.jsonc.parse import index_findings, parse_jsonc
from flycore.registry.jsonc.plain import PlainDocument, read_plain
from flycore.registry.jsonc.spans import Span
from flycore.registry.read_file import whole_file
from flycore.registry.source_text import EntryFindings, SourceText

_ID = re.compile(r"[a-z0-9._-]{1,64}")
_TOP_KEYS = ("$schema", "schemaVersion", "sidecars")
_VERSIONS = (1, 2)
MOST_ENTRIES = 1_000
"""Entries of a project's file. A folder that was just cloned must not hold up commands that look at it."""
MOST_TOOLS = 10_000
"""Tools that all entries of a project's file may declare together."""
MOST_VALUES = 100_000
"""Values of a project's file. The place of each may be looked for, which takes some 20 microseconds."""
_SPLIT = "remove what you do not use, or put entries of your own into your user registry"

_EntryJson = dict[str, bytes]
"""The JSON of each entry with sorted keys, by sidecar id."""

ParseResult = tuple[tuple[SidecarEntry, ...] | None, tuple[Diagnostic, ...]]


def parse_registry(text: str, shown: str, source: Source, known: frozenset[str]) -> ParseResult:
    """Return the entries in the order of the file, and the findings about the file as a whole.

    The entries are None where the file does not parse. Findings about one entry are in the entry.
    """
    if source is Source.PROJECT and may_hold_more(text, MOST_VALUES):
        said = f"holds more than {MOST_VALUES:,} values, which a project's file may not"
        return None, (whole_file(shown, "too-many", said, _SPLIT),)
    value: Json
    plain, encoded = _read_plain(text)
    if plain is None:
        value, problem = parse_jsonc(text, shown)
        if problem is not None:
            return None, (problem,)
    else:
        value = plain.value
    file = SourceText(text, shown, source)
    frame = list(_frame_problems(value, file))
    if any(finding.severity is Severity.ERROR for finding in frame):
        return None, tuple(frame)
    sidecars = _sidecars(value)
    places = {} if plain is None else plain.places
    of_entries: dict[str, list[Diagnostic]] = {}
    if not encoded:
        for found in index_findings(value, file.index, shown):
            owner = _owner(found, file, sidecars)
            of_entries.setdefault(owner, []).append(found) if owner is not None else frame.append(found)
        if any(finding.severity is Severity.ERROR for finding in frame):
            return None, tuple(frame)
        places = _indexed_spans(file, sidecars)
    entries: list[SidecarEntry] = []
    for written in _source_entries(text, shown, places, encoded):
        sidecar = written.sidecar
        findings = EntryFindings(file, sidecar, _entry_findings(of_entries.get(sidecar, []), sidecar))
        if _ID.fullmatch(sidecar) is None:
            remedy = "write 1 to 64 of a-z 0-9 . _ -"
            findings.add("", "sidecar-id", "not a sidecar id", remedy)
        entries.append(parse_entry(sidecars[sidecar], findings, known, written))
    return tuple(entries), tuple(frame)


def _frame_problems(value: Json, file: SourceText) -> Iterator[Diagnostic]:
    """Yield the problems around the entries. An error makes the whole file unusable."""
    if not isinstance(value, dict):
        yield _frame_finding(
            file, "", "schema", "must be an object", 'write {"schemaVersion": 2, "sidecars": {}}'
        )
        return
    version = value.get("schemaVersion")
    if isinstance(version, bool) or version not in _VERSIONS:
        remedy = 'write "schemaVersion": 2'
        problem, severity = "schemaVersion must be 1 or 2", Severity.ERROR
        if "schemaVersion" not in value:  # as the first files had it
            problem, severity = "schemaVersion is missing, and 1 is assumed", Severity.WARNING
        yield _frame_finding(file, "/schemaVersion", "schema-version", problem, remedy, severity)
    if not isinstance(value.get("sidecars", {}), dict):
        remedy = 'write "sidecars": {"some.id": {"command": "…", "permissions": {}}}'
        yield _frame_finding(file, "/sidecars", "schema", "sidecars must be an object", remedy)
    if file.source is Source.PROJECT:
        yield from _too_many(value, file)
    for key in value.keys() - set(_TOP_KEYS):
        near = nearest(key, _TOP_KEYS, count=1)
        remedy = f"did you mean {near[0]}?" if near else "remove it"
        pointer = pointer_join("", key)
        yield _frame_finding(
            file, pointer, "unknown-key", f"{key} is not a known key", remedy, Severity.WARNING
        )


def _too_many(value: dict[str, Json], file: SourceText) -> Iterator[Diagnostic]:
    """Yield why a project's file is too large as a whole: it is read before anybody has trusted it."""
    sidecars = _sidecars(value)
    if len(sidecars) > MOST_ENTRIES:
        problem = f"has {len(sidecars):,} entries, and a project's file may have {MOST_ENTRIES:,}"
        yield whole_file(file.file, "too-many", problem, _SPLIT)
        return
    lists = [raw.get("tools") for raw in sidecars.values() if isinstance(raw, dict)]
    tools = sum(len(tools) for tools in lists if isinstance(tools, list))
    if tools > MOST_TOOLS:
        problem = f"declares {tools:,} tools, and a project's file may declare {MOST_TOOLS:,}"
        yield whole_file(file.file, "too-many", problem, _SPLIT)


def _sidecars(value: Json) -> dict[str, Any]:
    sidecars = value.get("sidecars") if isinstance(value, dict) else None
    return sidecars if isinstance(sidecars, dict) else {}


def _frame_finding(
    file: SourceText,
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
        position=file.nearest_position(pointer),
    )


def _read_plain(text: str) -> tuple[PlainDocument | None, _EntryJson]:
    """Return the document of a text that is plain JSONC, and the JSON of its entries.

    There is no JSON where a key may be written twice, which a full scan has to find.
    """
    plain = read_plain(text)
    if plain is None:
        return None, {}
    # Every key of plain JSONC appears in the text as `":`. Where the value has as many keys as the text has
    # of these, the decoder did not drop a duplicate.
    sidecars = _sidecars(plain.value)
    frame = {key: item for key, item in plain.value.items() if key != "sidecars"}
    try:
        encoded = {sidecar: sorted_json(raw) for sidecar, raw in sidecars.items()}
        keys = _key_count(sorted_json(frame)) + sum(map(_key_count, encoded.values()))
    except UnicodeEncodeError:  # half of a surrogate pair, which the parser of JSON5 refuses
        return None, {}
    whole = keys + len(sidecars) + ("sidecars" in plain.value) == plain.keys
    return plain, encoded if whole else {}


def _key_count(encoded: bytes) -> int:
    return encoded.count(b'":') - encoded.count(b'\\":')


def _indexed_spans(file: SourceText, sidecars: dict[str, Any]) -> dict[str, Span]:
    """Return the spans of the entries from the full index."""
    places: dict[str, Span] = {}
    for sidecar in sidecars:
        pointer = pointer_join("/sidecars", sidecar)
        key, value = file.index.key(pointer), file.index.value(pointer)
        places[sidecar] = Span(key.start, value.end) if key and value else Span(0, 0)
    return places


def _owner(found: Diagnostic, file: SourceText, sidecars: dict[str, Any]) -> str | None:
    """Return the sidecar to whose entry a finding belongs; None where it belongs to the file."""
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


def _entry_findings(found: list[Diagnostic], sidecar: str) -> list[Diagnostic]:
    """Return the findings with the id of the entry, for the entry itself."""
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


def _source_entries(
    text: str, shown: str, places: dict[str, Span], encoded: _EntryJson
) -> Iterator[EntrySource]:
    """Yield the place and the text of each entry, in the order of the file."""
    line, last = 1, 0
    for sidecar, (start, end) in places.items():
        # The parser keeps the last of two equal ids, but at the place of the first: so the order may go back.
        if start < last:
            line, last = 1, 0
        line += text.count("\n", last, start)
        last = start
        position = Position(file=shown, line=line, column=start - text.rfind("\n", 0, start))
        yield EntrySource(sidecar, position, text[start:end], encoded.get(sidecar))
