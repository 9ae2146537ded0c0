"""Edits of registry files: add an entry, enable or disable an entry, and the text of the starter registry.

Each edit changes the text in one place. The new text is parsed and compared with the expected value before it
replaces the file. Where anything is in doubt the edit is refused, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from flycore.model.enums import Source
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.model.sidecar import SidecarEntry
from flycore.registry.jsonc.edit import (
    Change,
    edited,
    insert_last,
    insert_last_lines,
    remove,
    set_members,
    spelled,
)
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.jsonc.spans import scan
from flycore.registry.parse_registry import parse_registry
from flycore.registry.paths import LEGACY_REGISTRY_FILE, REGISTRY_FILE, RootPaths
from flycore.registry.read_file import MAX_FILE_BYTES, read_text
from flysafe.atomic import create_beneath, replace_beneath

MOST_REASON = 1_000
"""Most characters of the reason for a disabled entry."""
SWITCH_KEYS = ("enabled", "disabledReason")
SIDECARS = "/sidecars"


class EntryEdit(NamedTuple):
    """The new text of the file, or the reason why there is none."""

    text: str = ""
    why_not: str = ""


def without_switch(raw: JsonObject) -> JsonObject:
    """Return an entry without `SWITCH_KEYS`. An entry stays trusted while this part is the same."""
    return {key: value for key, value in raw.items() if key not in SWITCH_KEYS}


def first_registry(sidecar: str, entry: JsonObject) -> str:
    """Return the text of a registry that has only this entry."""
    return f"{spelled({'schemaVersion': 2, 'sidecars': {sidecar: entry}}, '')}\n"


def add_to_text(
    text: str, sidecar: str, entry: JsonObject, shown: str, *, lines: Sequence[str] = ()
) -> EntryEdit:
    """Return the text with this entry as the last one. `shown` is the file's name in reasons.

    `lines` are the entry as somebody wrote it, its key and comments included; else it is spelled here.
    """
    value, problem = parse_jsonc(text, shown)
    if problem is not None:
        return EntryEdit(why_not=f"correct the file first: {problem.position} {problem.message}")
    sidecars = value.get("sidecars", {}) if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(sidecars, dict):
        return EntryEdit(why_not=f"correct the file first: {shown} is not a registry")
    if sidecar in sidecars:
        return EntryEdit(why_not=f"{shown} already has an entry {sidecar}")
    index = scan(text)
    if index.duplicates:
        line, _ = index.position(index.duplicates[0].second.start)
        return EntryEdit(why_not=f"correct the file first: {shown}:{line} has a key that is written twice")
    if "sidecars" in value and lines:
        # After a blank line: the last comment of the file is not about the new entry.
        changes = insert_last_lines(index, SIDECARS, ("", *lines))
    elif "sidecars" in value:
        changes = insert_last(index, SIDECARS, entry, key=sidecar)
    else:
        changes = insert_last(index, "", {sidecar: entry}, key="sidecars")
    wanted: JsonObject = {**value, "sidecars": {**sidecars, sidecar: entry}}
    return _outcome(edited(text, changes, wanted), shown)


def switch_in_text(text: str, sidecar: str, enabled: bool, reason: str, shown: str) -> EntryEdit:
    """Return the text with this entry enabled or disabled; only `enabled` and `disabledReason` change.

    The file keeps `reason` only where the entry is disabled. `shown` is the file's name in reasons.
    """
    if len(reason) > MOST_REASON:
        return EntryEdit(why_not=f"the reason is longer than {MOST_REASON} characters")
    entry = _entry_in(text, sidecar, shown)
    if isinstance(entry, EntryEdit):
        return entry
    kept = "" if enabled else reason
    if entry.get("enabled", True) is enabled and entry.get("disabledReason", "") == kept:
        return EntryEdit(why_not=f"{sidecar} is {'enabled' if enabled else 'disabled'} already")
    members: dict[str, Json] = {"enabled": enabled}
    if kept or "disabledReason" in entry:
        members["disabledReason"] = kept
    return _with_members(text, sidecar, members, shown, behind="enabled")


def permit_in_text(text: str, sidecar: str, before: JsonObject, after: JsonObject, shown: str) -> EntryEdit:
    """Return the text with the `permissions` that the entry has in `after`; nothing else in it changes.

    The edit is refused where the entry is not `before`. `shown` is the file's name in reasons.
    """
    entry = _entry_in(text, sidecar, shown)
    if isinstance(entry, EntryEdit):
        return entry
    if entry != before:
        return EntryEdit(why_not=f"{sidecar} has changed since it was shown")
    return _with_members(text, sidecar, {"permissions": after["permissions"]}, shown, behind="tools")


def put_in_text(text: str, sidecar: str, entry: JsonObject, shown: str) -> EntryEdit:
    """Return the text in which the sidecar's entry has this value: members that differ are written, others
    and all comments stay. Where there is no entry, it is added as the last one."""
    value, problem = parse_jsonc(text, shown)
    sidecars = value.get("sidecars") if problem is None and isinstance(value, dict) else None
    if not isinstance(sidecars, dict) or sidecar not in sidecars:
        return add_to_text(text, sidecar, entry, shown)
    before = _entry_in(text, sidecar, shown)
    if isinstance(before, EntryEdit):
        return before
    for key in [key for key in before if key not in entry]:
        before = {name: item for name, item in before.items() if name != key}
        wanted: JsonObject = (
            {**value, "sidecars": {**sidecars, sidecar: before}} if isinstance(value, dict) else {}
        )
        pointer = pointer_join(pointer_join(SIDECARS, sidecar), key)
        made = _outcome(edited(text, remove(scan(text), pointer), wanted), shown)
        if made.why_not:
            return made
        text = made.text
    members = {key: item for key, item in entry.items() if key not in before or before[key] != item}
    return _with_members(text, sidecar, members, shown, behind="tools") if members else EntryEdit(text=text)


def put_text_in_text(text: str, sidecar: str, entry: str, shown: str) -> EntryEdit:
    """Return the text in which the sidecar's entry is spelled as in `entry`, with its comments. Where there
    is no entry, it is added as the last one."""
    wanted_entry, problem = parse_jsonc(entry, shown)
    value, fault = parse_jsonc(text, shown)
    if problem is not None or not isinstance(wanted_entry, dict):
        return EntryEdit(why_not=f"the earlier entry {sidecar} cannot be read")
    sidecars = value.get("sidecars") if fault is None and isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(sidecars, dict) or sidecar not in sidecars:
        return add_to_text(text, sidecar, wanted_entry, shown)
    span = scan(text).value(pointer_join(SIDECARS, sidecar))
    if span is None:
        return _outcome(None, shown)
    wanted: JsonObject = {**value, "sidecars": {**sidecars, sidecar: wanted_entry}}
    return _outcome(edited(text, (Change(span, entry),), wanted), shown)


def remove_from_text(text: str, sidecar: str, shown: str) -> EntryEdit:
    """Return the text without the sidecar's entry; the same text where it has none."""
    value, problem = parse_jsonc(text, shown)
    if problem is not None:
        return EntryEdit(why_not=f"correct the file first: {problem.position} {problem.message}")
    sidecars = value.get("sidecars") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(sidecars, dict) or sidecar not in sidecars:
        return EntryEdit(text=text)
    wanted: JsonObject = {
        **value,
        "sidecars": {name: item for name, item in sidecars.items() if name != sidecar},
    }
    changes = remove(scan(text), pointer_join(SIDECARS, sidecar))
    return _outcome(edited(text, changes, wanted), shown)


def entry_text(text: str, sidecar: str) -> str | None:
    """Return the sidecar's entry as the text spells it, with its comments; None where there is none."""
    span = scan(text).value(pointer_join(SIDECARS, sidecar))
    return None if span is None else text[span.start : span.end]


def _entry_in(text: str, sidecar: str, shown: str) -> JsonObject | EntryEdit:
    """The entry as the text has it, or why it cannot be edited."""
    value, problem = parse_jsonc(text, shown)
    if problem is not None:
        return EntryEdit(why_not=f"correct the file first: {problem.position} {problem.message}")
    sidecars = value.get("sidecars") if isinstance(value, dict) else None
    entry = sidecars.get(sidecar) if isinstance(sidecars, dict) else None
    if isinstance(entry, dict):
        return entry
    index = scan(text)
    span = index.value(pointer_join(SIDECARS, sidecar))
    line, column = index.position(span.start if span else 0)
    what = "is not an object" if span else "is not in this file"
    return EntryEdit(why_not=f"{shown}:{line}:{column}: {sidecar} {what}")


def _with_members(
    text: str, sidecar: str, members: Mapping[str, Json], shown: str, *, behind: str
) -> EntryEdit:
    """The text in which the entry has these members."""
    index = scan(text)
    changes = set_members(index, pointer_join(SIDECARS, sidecar), members, behind=behind)
    value, _ = parse_jsonc(text, shown)
    sidecars = value.get("sidecars") if isinstance(value, dict) else None
    entry = sidecars.get(sidecar) if isinstance(sidecars, dict) else None
    if not isinstance(value, dict) or not isinstance(sidecars, dict) or not isinstance(entry, dict):
        return _outcome(None, shown)
    wanted: JsonObject = {**value, "sidecars": {**sidecars, sidecar: {**entry, **members}}}
    return _outcome(edited(text, changes, wanted), shown)


def add_entry(places: RootPaths, sidecar: str, entry: JsonObject) -> EntryEdit:
    """Add an entry to the project's registry, which is created where there is none.

    The file under the older name is edited where only that exists. The edit is refused where the file cannot
    be read or written, or changed in the meantime; nothing is raised.
    """
    relative, text, data, why_not = read_for_edit(places)
    if why_not:
        return EntryEdit(why_not=why_not)
    if text is not None:
        made = add_to_text(text, sidecar, entry, relative)
        return write_edited(places.app_root, relative, relative, text, data, made)
    fresh = first_registry(sidecar, entry)
    try:
        create_beneath(places.app_root, REGISTRY_FILE, fresh.encode("utf-8"))
    except OSError as error:
        return EntryEdit(why_not=f"{REGISTRY_FILE} cannot be written: {error.strerror or error}")
    return EntryEdit(text=fresh)


class RegistryFile(NamedTuple):
    """The project's registry file as it is read before an edit."""

    relative: str
    """Its path, relative to the app root; that of a new file where there is none."""
    text: str | None
    """None where there is no file."""
    data: bytes = b""
    why_not: str = ""
    """Why the file cannot be read; empty otherwise."""


def read_for_edit(places: RootPaths) -> RegistryFile:
    """Read the project's registry; the file under the older name where only that exists."""
    for relative in (REGISTRY_FILE, LEGACY_REGISTRY_FILE):
        text, data, problem = read_text(places.app_root, relative, relative)
        if problem is not None:
            return RegistryFile(relative, None, why_not=problem.message)
        if text is not None:
            return RegistryFile(relative, text, data)
    return RegistryFile(REGISTRY_FILE, None)


def switch_entry(
    places: RootPaths, source: Source, sidecar: str, enabled: bool, reason: str, shown: str
) -> EntryEdit:
    """Enable or disable an entry in the file that declares it.

    The edit is refused where the file cannot be read or written, or changed in the meantime; nothing is
    raised.
    """
    return _edit_file(
        places, source, shown, lambda text: switch_in_text(text, sidecar, enabled, reason, shown)
    )


def permit_entry(places: RootPaths, entry: SidecarEntry, after: JsonObject) -> EntryEdit:
    """Give the entry the `permissions` that it has in `after`, in the file that declares it.

    The edit is refused as that of `switch_entry`, and where the file has another entry by now.
    """
    shown = entry.position.file
    return _edit_file(
        places, entry.source, shown, lambda text: permit_in_text(text, entry.id, entry.raw, after, shown)
    )


def _edit_file(places: RootPaths, source: Source, shown: str, edit: Callable[[str], EntryEdit]) -> EntryEdit:
    """Edit the registry file of that source."""
    if source is Source.BUNDLE:
        why = f"the entry is part of the {shown}, which is signed"
        return EntryEdit(why_not=f"{why}: write an entry of that id into your own registry")
    if source.discovered:
        why = f"{shown} is no registry: move the file to another folder, or change it yourself"
        return EntryEdit(why_not=why)
    anchor = places.config_dir if source is Source.USER else places.app_root
    relative = REGISTRY_FILE
    text, data, problem = read_text(anchor, relative, shown)
    if text is None and problem is None and source is Source.PROJECT:
        relative = LEGACY_REGISTRY_FILE
        text, data, problem = read_text(anchor, relative, shown)
    if text is None or problem is not None:
        return EntryEdit(why_not=problem.message if problem else f"{shown} no longer exists")
    return write_edited(anchor, relative, shown, text, data, edit(text))


def _outcome(text: str | None, shown: str) -> EntryEdit:
    if text is None:
        return EntryEdit(why_not=f"{shown} cannot be edited without changing something else: edit it by hand")
    return EntryEdit(text=text)


def write_edited(
    anchor: Path, relative: str, shown: str, text: str, data: bytes, made: EntryEdit
) -> EntryEdit:
    """Write the edited text, if there is one, and return it. The file must still have the bytes `data`."""
    if made.why_not:
        return made
    mark = data[: len(data) - len(text.encode("utf-8"))]  # a byte order mark stays
    new = mark + made.text.encode("utf-8")
    if len(new) > MAX_FILE_BYTES:
        return EntryEdit(why_not=f"{shown} would become too large to be read")
    try:
        replace_beneath(anchor, relative, data, new)
    except OSError as error:
        return EntryEdit(why_not=f"{shown} cannot be written: {error.strerror or error}")
    return made


STARTER_FILE = "starter.jsonc"


@cache
def starter_text() -> str:
    """Return the text of the starter registry, which the package contains."""
    return Path(__file__).with_name(STARTER_FILE).read_text(encoding="utf-8")


def starter_entries(known: frozenset[str]) -> tuple[SidecarEntry, ...]:
    """Return the entries of the starter registry. `known` holds the names of the known capabilities."""
    entries, _ = parse_registry(starter_text(), REGISTRY_FILE, Source.PROJECT, known)
    return entries or ()
