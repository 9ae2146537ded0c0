"""The difference between a call as it was approved and as it would run now, for log and card."""

from __future__ import annotations

from flycore.model.approval import Preview
from flycore.model.base import Value
from flycore.model.catalog import Capability
from flycore.model.json import MASK, Json, JsonObject, digest
from flycore.model.json_diff import json_difference
from flycore.model.program import Seal
from flycore.pipeline.prepare import Prepared

DIGEST_SHOWN = 8
"""How many characters of a digest are shown for a value that a mask hides."""


class SubjectDiff(Value, frozen=True, kw_only=True):
    """What differs: `names` for a sentence, `lines` for the card, `- /pointer: before` and `+ /pointer:
    after`."""

    names: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def diff_subjects(before: Prepared, after: Prepared) -> SubjectDiff:
    """Everything that differs in what the two would run, for whom and under which rules. Where subjects or
    risks differ there is at least one line. Secrets that either call injects are masked."""
    old, new = _document(before), _document(after)
    things = [name for name in old if json_difference(old[name], new[name])]
    lines: list[str] = []
    for name in things:
        was, is_now = ({name: after.masks.json(before.masks.json(look[name]))} for look in (old, new))
        # Two values that differ only within a secret look the same once it is masked: digests show the
        # change.
        shown = json_difference(was, is_now)
        lines += shown or json_difference({name: _hidden(old[name])}, {name: _hidden(new[name])})
    return SubjectDiff(names=tuple(things), lines=tuple(lines))


def _document(prepared: Prepared) -> JsonObject:
    """The parts of the subject, written out in full where the subject has only digests."""
    subject = prepared.subject
    delegates: JsonObject = {
        item.name: {"argv": list(item.argv), **_seal(item.seal)} for item in prepared.delegates
    }
    rules: list[Json] = [
        {"decision": rule.decision.value, "tool": rule.tool, "because": rule.because, "where": rule.where}
        for rule in prepared.verdict.rules
    ]
    return {
        "caller": subject.caller,
        "tool": subject.tool,
        "input": subject.input,
        "program": _seal(prepared.seal),
        "delegates": delegates,
        "entry": prepared.target.entry.raw,
        "definition": _definition(prepared.target.capability),
        "level": subject.level.value,
        "environment": list(subject.env_names),
        "policy": {"rules": rules, "version": subject.policy},
        "window": _window(subject.preview),
        "page": _page(subject.preview),
        "file": _file(subject.preview),
        "risk": prepared.risk.value,
    }


def _definition(capability: Capability) -> Json:
    """The definition of the tool by its MCP server; None for any other tool."""
    if not capability.definition:
        return None
    return {
        "name": capability.upstream,
        "description": capability.description,
        "inputSchema": capability.input_schema,
        "outputSchema": capability.output_schema,
        "sha256": capability.definition,
    }


def _window(preview: Preview | None) -> Json:
    if preview is None or preview.of_page or preview.file:
        return None
    if preview.unchecked:
        return {"unchecked": True}
    return {
        "id": preview.window_id,
        "title": preview.title,
        "pid": preview.pid,
        "over_id": preview.over_id,
        "over": preview.over,
    }


def _page(preview: Preview | None) -> Json:
    if preview is None or not preview.of_page:
        return None
    if preview.unseen:
        return {"unseen": preview.unseen}
    return {
        "url": preview.url,
        "tab": preview.tab,
        "ref": preview.ref,
        "role": preview.role,
        "name": preview.name,
    }


def _file(preview: Preview | None) -> Json:
    if preview is None or not preview.file:
        return None
    more: JsonObject = {"more": dict(preview.more_files)} if preview.more_files else {}
    return {"path": preview.file, "sha256": preview.file_digest, "unread": preview.unread, **more}


def _seal(seal: Seal) -> JsonObject:
    return {"path": seal.program, "seal": seal.kind.value, "sha256": seal.digest}


def _hidden(value: Json) -> Json:
    """The beginning of the value's digest, shown instead of a value that is masked."""
    return f"{MASK} (sha256 {digest(value)[:DIGEST_SHOWN]})"
