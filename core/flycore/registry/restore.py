"""An entry made again from a value that was kept: the last one a person trusted."""

from __future__ import annotations

import msgspec

from flycore.model.diagnostics import Diagnostic
from flycore.model.json import JsonObject, canonical_json
from flycore.model.sidecar import SidecarEntry
from flycore.registry.entry import EntrySource, parse_entry
from flycore.registry.located import EntryFindings, SourceText


def restore_entry(now: SidecarEntry, raw: JsonObject, known: frozenset[str]) -> SidecarEntry:
    """The entry that `raw` is, in the place of `now`, the value that stands in the file. It is checked as
    if it were read from there; its digest is taken anew. `known` names the known capabilities.

    Positions of its problems are those of `now`: the value itself stands in no file any more.
    """
    text = canonical_json({"sidecars": {now.id: raw}})
    findings = EntryFindings(SourceText(text, now.position.file, now.source), now.id)
    entry = parse_entry(raw, findings, known, EntrySource(now.id, now.position, ""))
    problems = tuple(_with_position(problem, now) for problem in entry.problems)
    return msgspec.structs.replace(entry, problems=problems)


def _with_position(problem: Diagnostic, now: SidecarEntry) -> Diagnostic:
    return msgspec.structs.replace(problem, position=now.position)
