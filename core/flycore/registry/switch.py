"""Switching one entry of a registry on or off in its text: nothing but `enabled` and `disabledReason` of
that entry changes.

The edit is made, read back and compared with what it has to say; only then does it replace the file.
Whatever is in doubt is refused, and nothing is written.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from flycore.model.enums import Source
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.registry.files import MAX_FILE_BYTES, read_text
from flycore.registry.jsonc import parse_jsonc
from flycore.registry.places import LEGACY_REGISTRY_FILE, REGISTRY_FILE, Places
from flycore.registry.spans import Span, SpanIndex, scan
from flysafe.replace import replace_beneath

MOST_REASON = 1_000
"""Characters of a reason."""
SWITCH_KEYS = ("enabled", "disabledReason")
_OPENING = re.compile(r"[ \t]*(?://[^\r\n]*)?(\r?\n)")
"""What may stand between an entry's brace and the end of its line."""


class Switched(NamedTuple):
    """What came of it: the new text, or why there is none."""

    text: str = ""
    why_not: str = ""


def otherwise(raw: JsonObject) -> JsonObject:
    """An entry's value without its switch: what has to stay equal for a trust to go on."""
    return {key: value for key, value in raw.items() if key not in SWITCH_KEYS}


def switched(text: str, sidecar: str, enabled: bool, reason: str, shown: str) -> Switched:
    """The text with that entry switched. `reason` is kept in the file only of one that is switched off;
    `shown` names the file in refusals."""
    if len(reason) > MOST_REASON:
        return Switched(why_not=f"the reason is longer than {MOST_REASON} characters")
    value, problem = parse_jsonc(text, shown)
    if problem is not None:
        return Switched(why_not=f"mend the file first: {problem.position} {problem.message}")
    entry = _entry(value, sidecar)
    index = scan(text)
    pointer = pointer_join("/sidecars", sidecar)
    if entry is None:
        span = index.value(pointer)
        line, column = index.position(span.start if span else 0)
        what = "is no object" if span else "does not stand in this file"
        return Switched(why_not=f"{shown}:{line}:{column}: {sidecar} {what}")
    said = "" if enabled else reason
    if entry.get("enabled", True) is enabled and entry.get("disabledReason", "") == said:
        return Switched(why_not=f"{sidecar} is switched {'on' if enabled else 'off'} already")
    changes: dict[str, Json] = {"enabled": enabled}
    if said or "disabledReason" in entry:
        changes["disabledReason"] = said
    new = _edited(text, index, pointer, entry, changes)
    wanted = {**entry, **changes}
    after, broken = parse_jsonc(new, shown)
    if broken is not None or not _only(value, after, sidecar, wanted):
        return Switched(why_not=f"{shown} cannot be edited without changing something else: edit it by hand")
    return Switched(text=new)


def switch_entry(
    places: Places, source: Source, sidecar: str, enabled: bool, reason: str, shown: str
) -> Switched:
    """Do the same in the file that declares the entry. Refused where it cannot be read or written, or is
    changed meanwhile. Never raises for any of these."""
    anchor = places.config_dir if source is Source.USER else places.app_root
    relative = REGISTRY_FILE
    text, data, problem = read_text(anchor, relative, shown)
    if text is None and problem is None and source is Source.PROJECT:
        relative = LEGACY_REGISTRY_FILE
        text, data, problem = read_text(anchor, relative, shown)
    if text is None or problem is not None:
        return Switched(why_not=problem.message if problem else f"{shown} is not there any more")
    made = switched(text, sidecar, enabled, reason, shown)
    if made.why_not:
        return made
    mark = data[: len(data) - len(text.encode("utf-8"))]  # a byte order mark stays
    new = mark + made.text.encode("utf-8")
    if len(new) > MAX_FILE_BYTES:
        return Switched(why_not=f"{shown} would be too large to be read again")
    try:
        replace_beneath(anchor, relative, data, new)
    except OSError as error:
        return Switched(why_not=f"{shown} cannot be written: {error.strerror or error}")
    return made


def _entry(value: Json, sidecar: str) -> JsonObject | None:
    sidecars = value.get("sidecars") if isinstance(value, dict) else None
    entry = sidecars.get(sidecar) if isinstance(sidecars, dict) else None
    return entry if isinstance(entry, dict) else None


def _only(before: Json, after: Json, sidecar: str, wanted: JsonObject) -> bool:
    """Whether `after` is `before` with that entry as wanted."""
    if not isinstance(before, dict) or not isinstance(before["sidecars"], dict):
        return False
    return after == {**before, "sidecars": {**before["sidecars"], sidecar: wanted}}


def _edited(text: str, index: SpanIndex, pointer: str, entry: JsonObject, changes: dict[str, Json]) -> str:
    """Replace values that are there; put what is missing behind `enabled`, else first into the entry."""
    edits: list[tuple[Span, str]] = []
    missing: list[str] = []
    for key, value in changes.items():
        span = index.value(pointer_join(pointer, key))
        if key in entry and span is not None:
            edits.append((span, _spelled(value)))
        else:
            missing.append(f'"{key}": {_spelled(value)}')
    switch = index.value(pointer_join(pointer, "enabled"))
    if missing and "enabled" in entry and switch is not None:
        edits.append((Span(switch.end, switch.end), "".join(f", {member}" for member in missing)))
    elif missing:
        edits.append(_first(text, index, pointer, entry, ", ".join(missing)))
    for span, new in sorted(edits, reverse=True):
        text = text[: span.start] + new + text[span.end :]
    return text


def _first(text: str, index: SpanIndex, pointer: str, entry: JsonObject, members: str) -> tuple[Span, str]:
    """The place behind the entry's brace: a line of its own where the other members have theirs, so that
    comments stay with what they are about."""
    brace = index.values[pointer].start + 1
    starts = [span.start for key in entry if (span := index.key(pointer_join(pointer, key))) is not None]
    if not starts:
        return Span(brace, brace), members
    first = min(starts)
    opening = _OPENING.match(text, brace, first)
    indent = text[text.rfind("\n", 0, first) + 1 : first]
    if opening is None or indent.strip(" \t"):
        return Span(first, first), f"{members}, "
    return Span(opening.end(), opening.end()), f"{indent}{members},{opening.group(1)}"


def _spelled(value: Json) -> str:
    """JSON; in ASCII where it holds what could not be seen."""
    readable = not isinstance(value, str) or value.isprintable()
    return json.dumps(value, ensure_ascii=not readable)
