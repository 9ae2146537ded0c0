"""Reads kits: descriptions of a client, or of a bundle of capabilities, in a file `kits.jsonc`.

A kit is only shown. Nothing in it is run, and the bindings and permissions that it names are not granted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from flycore.discovery.diagnostics import (
    MOST_NAME,
    MOST_VERSION,
    DiagnosticList,
    described_file,
    parsed,
    shorten,
)
from flycore.discovery.search_folder import SearchFolder
from flycore.model.described import Binding, Described, DescribedState, Origin, SourceKind
from flycore.model.diagnostics import nearest
from flycore.model.events import EventClass
from flycore.model.json import Json, JsonObject, indented_json, pointer_join
from flycore.registry.bundles import read_applied
from flycore.registry.source_text import SourceText

BUILTIN_FILE = "kits.jsonc"
PROJECT_FILES = ("tools/kits/kits.jsonc", ".flyflor/kits/kits.jsonc")
"""Files of the project. Of two kits with one id, that of the first file is used."""
USER_FILE = "kits/kits.jsonc"
"""File below the config folder of the person."""
TYPES = ("cli", "tui", "gateway", "capability")
KEYS = ("id", "kind", "name", "version", "permissions", "capabilityBindings", "eventSubscriptions")
MOST_BYTES = 256 * 1024
MOST_KITS = 256
MOST_WORDS = 200
"""Most permissions, or bindings, of one kit."""
_RUNS = ("command", "args", "exec", "entrypoint", "run", "script", "env")
_VERSIONS = (1,)
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_PERMISSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/*-]{0,63}")
_BINDING = re.compile(r"\*|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(?:\.\*)?")


def read_kits(project: SearchFolder, config: SearchFolder) -> list[Described]:
    """Return all kits: those of flytui, of the project, of the person, of applied bundles. The first with an
    id is used."""
    found = list(builtin_kits())
    for anchor, relative in (*((project, file) for file in PROJECT_FILES), (config, USER_FILE)):
        found += _kits_of(anchor, relative)
    for bundle in read_applied(config.path).bundles:
        part = bundle.part("kits")
        if part is not None:
            found += parse_kits(indented_json(part), bundle.shown, Origin.BUNDLE)
    return found


@cache
def builtin_kits() -> tuple[Described, ...]:
    """Return the kits of flytui: its clients, and its bundles of capabilities."""
    text = Path(__file__).with_name(BUILTIN_FILE).read_text(encoding="utf-8")
    return tuple(parse_kits(text, "", Origin.BUILTIN))


def parse_kits(text: str, shown: str, origin: Origin) -> list[Described]:
    """Return the kits of one file in its order. For a file with an error, return one faulty item."""
    value, file, problems = parsed(text, shown)
    frame = DiagnosticList(file)
    frame.found.extend(problems)
    if not any(problem.rule == "syntax" for problem in problems):
        _check_frame(value, frame)
    if frame.broken or not isinstance(value, dict):
        return [described_file(SourceKind.KIT, shown, origin, frame.found)]
    listed = value.get("kits", [])
    items = listed if isinstance(listed, list) else []
    kits = [_kit(item, at, file, origin) for at, item in enumerate(items[:MOST_KITS])]
    if len(items) > MOST_KITS:
        frame.warn("/kits", "too-many", f"only the first {MOST_KITS} kits are read", "list fewer")
    return [*kits, described_file(SourceKind.KIT, shown, origin, frame.found)] if frame.found else kits


def _kits_of(anchor: SearchFolder, relative: str) -> list[Described]:
    read = anchor.whole(relative, MOST_BYTES)
    if read.problem is not None:
        return [described_file(SourceKind.KIT, anchor.shown(relative), anchor.origin, [read.problem])]
    if read.text is None:
        return []
    return parse_kits(read.text, anchor.shown(relative), anchor.origin)


def _check_frame(value: Json, faults: DiagnosticList) -> None:
    if not isinstance(value, dict):
        faults.add("", "schema", "must be an object", 'write {"schemaVersion": 1, "kits": []}')
        return
    if isinstance(value.get("schemaVersion"), bool) or value.get("schemaVersion") not in _VERSIONS:
        faults.add("/schemaVersion", "schema-version", "schemaVersion must be 1", 'write "schemaVersion": 1')
    if not isinstance(value.get("kits", []), list):
        faults.add("/kits", "schema", "kits must be an array", 'write "kits": [{"id": "…"}]')
    for key in value.keys() - {"$schema", "schemaVersion", "kits"}:
        _unknown(key, ("schemaVersion", "kits"), pointer_join("", key), faults)


def _kit(item: Json, at: int, file: SourceText, origin: Origin) -> Described:
    pointer = pointer_join("/kits", at)
    raw: JsonObject = item if isinstance(item, dict) else {}
    kit_id = raw.get("id")
    name = kit_id if isinstance(kit_id, str) and kit_id else f"kits[{at}]"
    faults = DiagnosticList(file, shorten(name, MOST_NAME))
    if not isinstance(item, dict):
        faults.add(pointer, "schema", "must be an object", 'write {"id": "…", "kind": "capability", …}')
    else:
        _check_keys(raw, pointer, faults)
    words = _words(raw, "permissions", pointer, faults, _is_permission)
    bindings = _words(raw, "capabilityBindings", pointer, faults, _is_binding)
    events = _words(raw, "eventSubscriptions", pointer, faults, _is_event)
    return Described(
        kind=SourceKind.KIT,
        id=shorten(name, MOST_NAME),
        name=_text(raw, "name", MOST_NAME) or shorten(name, MOST_NAME),
        source=origin,
        path=file.file,
        version=_text(raw, "version", MOST_VERSION),
        type=_text(raw, "kind", MOST_NAME),
        permissions=words,
        bindings=tuple(Binding(name=word) for word in bindings),
        subscriptions=events,
        state=DescribedState.FAULTY if faults.broken else DescribedState.LISTED,
        reasons=tuple(faults.found),
    )


def _check_keys(raw: JsonObject, pointer: str, faults: DiagnosticList) -> None:
    for key, most in (("id", 64), ("kind", MOST_NAME), ("name", MOST_NAME), ("version", MOST_VERSION)):
        value = raw.get(key)
        below = pointer_join(pointer, key)
        if value is None:
            faults.add(pointer, "missing-key", f"{key} is missing", f'write "{key}": "…"')
        elif not isinstance(value, str) or not value.strip() or len(value) > most:
            faults.add(below, "schema", f"{key} must be a text of 1 to {most} characters", "shorten it")
    kit_id, kind = raw.get("id"), raw.get("kind")
    if isinstance(kit_id, str) and 0 < len(kit_id) <= 64 and _ID.fullmatch(kit_id) is None:
        remedy = "write 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit"
        faults.add(pointer_join(pointer, "id"), "kit-id", "not a valid id of a kit", remedy)
    if isinstance(kind, str) and kind and kind not in TYPES:
        remedy = f"write one of {', '.join(TYPES)}"
        faults.add(pointer_join(pointer, "kind"), "kit-kind", f"there is no kind {shorten(kind, 40)}", remedy)
    for key in raw.keys() - set(KEYS):
        _unknown(key, KEYS, pointer_join(pointer, key), faults)


def _unknown(key: str, known: Iterable[str], pointer: str, faults: DiagnosticList) -> None:
    if key in _RUNS:
        remedy = "remove it: a kit runs nothing; declare programs in tools/external.tools.jsonc"
        faults.add(pointer, "kit-runs", f"{key} is not allowed in a kit", remedy)
        return
    near = nearest(key, known, count=1)
    remedy = f"did you mean {near[0]}?" if near else f"remove it: the known keys are {', '.join(known)}"
    faults.warn(pointer, "unknown-key", f"{shorten(key, MOST_NAME)} is not a known key", remedy)


def _words(
    raw: JsonObject, key: str, pointer: str, faults: DiagnosticList, fault: Callable[[str], str]
) -> tuple[str, ...]:
    """Return the valid words of an array. `fault` returns the remedy for an invalid one, else nothing."""
    value = raw.get(key, [])
    below = pointer_join(pointer, key)
    if not isinstance(value, list) or len(value) > MOST_WORDS:
        faults.add(below, "schema", f"{key} must be an array of at most {MOST_WORDS} texts", "write []")
        return ()
    good: list[str] = []
    for at, word in enumerate(value):
        remedy = fault(word) if isinstance(word, str) else "write a text"
        if not remedy and isinstance(word, str):
            good.append(word)
            continue
        shown = shorten(word, 40) if isinstance(word, str) else "this value"
        faults.add(pointer_join(below, at), "schema", f"{key}: {shown} is not valid", remedy)
    return tuple(dict.fromkeys(good))


def _is_permission(word: str) -> str:
    return "" if _PERMISSION.fullmatch(word) else "write a word of up to 64 letters, digits and . _ : / * -"


def _is_binding(word: str) -> str:
    fits = len(word) <= 64 and _BINDING.fullmatch(word)
    return "" if fits else "write the name of a capability, family.* or *"


def _is_event(word: str) -> str:
    known = [cls.value for cls in EventClass]
    if word in known:
        return ""
    near = nearest(word, known, count=1)
    return f"did you mean {near[0]}?" if near else f"write one of {', '.join(known)}"


def _text(raw: JsonObject, key: str, most: int) -> str:
    value = raw.get(key)
    return shorten(value, most) if isinstance(value, str) else ""
