"""Adding one entry to the project's registry in its text: every comment and every other byte stays.

The edit is made, read back and compared with what it has to say; only then does it replace the file.
Whatever is in doubt is refused, and nothing is written.
"""

from __future__ import annotations

import json
import re

from flycore.model.json import Json, JsonObject, pointer_join
from flycore.registry.files import MAX_FILE_BYTES, read_text
from flycore.registry.jsonc import parse_jsonc
from flycore.registry.places import LEGACY_REGISTRY_FILE, REGISTRY_FILE, Places
from flycore.registry.spans import Span, SpanIndex, scan
from flycore.registry.switch import Switched
from flysafe.replace import create_beneath, replace_beneath

SIDECARS = "/sidecars"
_STEP = "  "
_TRIVIA = re.compile(r"[\s\ufeff]++|//[^\n\r\u2028\u2029]*+|/\*(?:[^*]++|\*(?!/))*+\*/")


def first_registry(sidecar: str, entry: JsonObject) -> str:
    """The text of a registry with nothing but that entry."""
    return f"{spelled({'schemaVersion': 2, 'sidecars': {sidecar: entry}}, '')}\n"


def added(text: str, sidecar: str, entry: JsonObject, shown: str) -> Switched:
    """The text with that entry as the last one. `shown` names the file in refusals."""
    value, problem = parse_jsonc(text, shown)
    if problem is not None:
        return Switched(why_not=f"mend the file first: {problem.position} {problem.message}")
    sidecars = value.get("sidecars", {}) if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(sidecars, dict):
        return Switched(why_not=f"mend the file first: {shown} is no registry")
    if sidecar in sidecars:
        return Switched(why_not=f"{shown} has an entry {sidecar} already")
    index = scan(text)
    if index.duplicates:
        line, _ = index.position(index.duplicates[0].second.start)
        return Switched(why_not=f"mend the file first: {shown}:{line} has a key that is written twice")
    if "sidecars" in value:
        new = _with_member(text, index, SIDECARS, sidecars, sidecar, entry)
    else:
        new = _with_member(text, index, "", value, "sidecars", {sidecar: entry})
    after, broken = parse_jsonc(new, shown)
    if broken is not None or after != {**value, "sidecars": {**sidecars, sidecar: entry}}:
        return Switched(why_not=f"{shown} cannot be edited without changing something else: edit it by hand")
    return Switched(text=new)


def add_entry(places: Places, sidecar: str, entry: JsonObject) -> Switched:
    """Do the same in the project's file, the older one where only that is there; where there is none, it is
    made. Refused where it cannot be read or written, or is changed meanwhile. Never raises for any of these.
    """
    for relative in (REGISTRY_FILE, LEGACY_REGISTRY_FILE):
        text, data, problem = read_text(places.app_root, relative, relative)
        if problem is not None:
            return Switched(why_not=problem.message)
        if text is None:
            continue
        made = added(text, sidecar, entry, relative)
        mark = data[: len(data) - len(text.encode("utf-8"))]  # a byte order mark stays
        new = mark + made.text.encode("utf-8")
        if made.why_not:
            return made
        if len(new) > MAX_FILE_BYTES:
            return Switched(why_not=f"{relative} would be too large to be read again")
        try:
            replace_beneath(places.app_root, relative, data, new)
        except OSError as error:
            return Switched(why_not=f"{relative} cannot be written: {error.strerror or error}")
        return made
    fresh = first_registry(sidecar, entry)
    try:
        create_beneath(places.app_root, REGISTRY_FILE, fresh.encode("utf-8"))
    except OSError as error:
        return Switched(why_not=f"{REGISTRY_FILE} cannot be written: {error.strerror or error}")
    return Switched(text=fresh)


def spelled(value: Json, indent: str) -> str:
    """JSON over several lines, all but the first indented; in ASCII where it holds what cannot be seen."""
    readable = json.dumps(value, ensure_ascii=False, indent=2)
    visible = all(character.isprintable() or character == "\n" for character in readable)
    text = readable if visible else json.dumps(value, indent=2)
    return text.replace("\n", f"\n{indent}")


def _with_member(
    text: str, index: SpanIndex, pointer: str, members: JsonObject, key: str, value: Json
) -> str:
    """One more member behind the last one and the comments about that."""
    whole = index.values[pointer]
    close = whole.end - 1
    line = "\r\n" if "\r\n" in text else "\n"
    outer = _indent(text, whole.start)
    keys = [span for name in members if (span := index.key(pointer_join(pointer, name))) is not None]
    first = min(keys, default=None)
    inner = _indent(text, first.start) if first is not None and _alone(text, first) else outer + _STEP
    member = f"{line}{inner}{json.dumps(key)}: {spelled(value, inner)}".replace("\r\n", "\n")
    member = member.replace("\n", line)
    end = len(text[whole.start : close].rstrip()) + whole.start
    tail = text[end:close]
    closing = tail if "\n" in tail else f"{tail}{line}{outer}"
    values = [span.end for name in members if (span := index.value(pointer_join(pointer, name))) is not None]
    last = max(values, default=None)
    if last is None:
        return text[:end] + member + closing + text[close:]
    comma = "" if "," in _TRIVIA.sub("", text[last:close]) else ","
    return text[:last] + comma + text[last:end] + member + closing + text[close:]


def _indent(text: str, offset: int) -> str:
    """The white space that the line of that character begins with."""
    start = text.rfind("\n", 0, offset) + 1
    return text[start : start + len(text[start:]) - len(text[start:].lstrip(" \t"))]


def _alone(text: str, key: Span) -> bool:
    """Whether a key begins its line."""
    return not text[text.rfind("\n", 0, key.start) + 1 : key.start].strip()
