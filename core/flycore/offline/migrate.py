"""Carries over what another system left in a project: a plan first, then the files that a person has seen.

The plan starts nothing and writes nothing. Files of the other system are never changed, values that look like
secrets are not copied, and nothing that is written is trusted. A second migration finds all of it present.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from flycore.catalog.builtin import KNOWN
from flycore.catalog.proposed_entries import with_permissions
from flycore.discovery.other_systems.model import Migration, OtherSystem, texts_of
from flycore.discovery.other_systems.table import MIGRATED
from flycore.discovery.scan import SearchRoots, search_roots
from flycore.discovery.secret_detection import secret_value
from flycore.model.diagnostics import Severity
from flycore.model.enums import Source
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.model.migration import MigratedFile, MigrationLine, Verdict
from flycore.registry.edits import EntryEdit, add_to_text, first_registry
from flycore.registry.jsonc.edit import edited, insert_last, spelled
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.jsonc.spans import scan
from flycore.registry.parse_registry import parse_registry
from flycore.registry.paths import (
    MANIFEST_FILE,
    MANIFESTS_DIR,
    REGISTRY_FILE,
    TOOLS_CONFIG_FILE,
    RootPaths,
)
from flycore.registry.read_file import read_text
from flysafe.atomic import create_beneath, replace_beneath

SYSTEM_NAMES = tuple(system.name for system in MIGRATED)
SEARCH_PATHS = "/externalTools/searchPaths"
_SECRET = "a value looks like a secret, which is not copied"  # noqa: S105 - a sentence


class MigrationPlan(NamedTuple):
    """What would be done: a line for each thing that was found, and the files that would change."""

    lines: tuple[MigrationLine, ...]
    files: tuple[MigratedFile, ...]


class MigrationResult(NamedTuple):
    """The files that were written, and why the next one was not; empty where all were."""

    written: tuple[str, ...]
    why_not: str = ""


def plan_migration(
    places: RootPaths, environ: Mapping[str, str], names: tuple[str, ...] = SYSTEM_NAMES
) -> MigrationPlan:
    """Return the plan for the systems of these names. Raises nothing for the contents of a file."""
    roots = search_roots(places, environ)
    target = _Targets(places)
    collected = [_collected(system, roots, places) for system in MIGRATED]
    for found in collected:
        if found.system in names:
            target.add(found)
    for found in collected:
        # A registry that takes the place of Flyflor's older one must have the entries of that one.
        if found.needs_registry and found.system not in names and target.writes_registry:
            target.add(found)
    return MigrationPlan(tuple(target.lines), tuple(target.changes()))


def _collected(system: OtherSystem, roots: SearchRoots, places: RootPaths) -> Migration:
    home = roots.home.path if roots.home is not None else None
    into = Migration(places.app_root, home, system.name, frozenset(KNOWN))
    system.migrate(roots, into)
    return into


class _Targets:
    """The texts of the files that would be written, and the lines about what goes into them."""

    def __init__(self, places: RootPaths) -> None:
        self._root = places.app_root
        self.lines: list[MigrationLine] = []
        self._before: dict[str, str | None] = {}
        self._after: dict[str, str] = {}

    def add(self, found: Migration) -> None:
        """Add what one system contributes."""
        self.lines += found.lines
        for path, line in found.search_paths:
            self._config(SEARCH_PATHS, path, line)
        for pointer, value, line in found.settings:
            self._config(pointer, value, line)
        for sidecar, entry, line in found.entries:
            self._entry(sidecar, entry, line)
        for sidecar, keys, line in found.additions:
            self._addition(sidecar, keys, line)
        for name, text, line in found.manifests:
            self._manifest(name, text, line)

    @property
    def writes_registry(self) -> bool:
        """Whether the registry gets another text."""
        return REGISTRY_FILE in self._after

    def changes(self) -> Iterator[MigratedFile]:
        """Yield the files that differ, each with its difference."""
        for path, after in self._after.items():
            before = self._before[path]
            if after != before:
                lines = difflib.unified_diff(
                    (before or "").splitlines(),
                    after.splitlines(),
                    path if before is not None else "/dev/null",
                    path,
                    lineterm="",
                )
                yield MigratedFile(path=path, before=before, after=after, difference=tuple(lines))

    def _now(self, path: str) -> str | None:
        """Return the text of a target file as it would be; None where there is none, or it cannot be read."""
        if path not in self._before:
            self._before[path] = read_text(self._root, path, path)[0]
        return self._after.get(path, self._before[path])

    def _unreadable(self, path: str) -> str:
        problem = read_text(self._root, path, path)[2]
        return problem.message if problem is not None else ""

    def _say(self, line: MigrationLine, verdict: Verdict | None = None, text: str = "") -> None:
        """Add the line, with another verdict and text where the target decides so."""
        if verdict is not None:
            kept = line.target if verdict is Verdict.PRESENT else ""
            line = msgspec.structs.replace(line, verdict=verdict, text=text, target=kept)
        self.lines.append(line)

    def _config(self, pointer: str, value: Json, line: MigrationLine) -> None:
        text = self._now(TOOLS_CONFIG_FILE)
        why_not = self._unreadable(TOOLS_CONFIG_FILE)
        if why_not or _holds_secret(value):
            self._say(line, Verdict.CANNOT, why_not or _SECRET)
            return
        made = with_setting(text, pointer, value)
        if made.why_not:
            self._say(line, Verdict.CANNOT, made.why_not)
        elif made.text == text:
            self._say(line, Verdict.PRESENT)
        else:
            self._after[TOOLS_CONFIG_FILE] = made.text
            self._say(line)

    def _entry(self, sidecar: str, entry: JsonObject, line: MigrationLine) -> None:
        text = self._now(REGISTRY_FILE)
        entry = with_permissions(entry)
        why_not = self._unreadable(REGISTRY_FILE) or (_SECRET if _holds_secret(entry) else "")
        why_not = why_not or _entry_fault(sidecar, entry)
        line = msgspec.structs.replace(line, target=REGISTRY_FILE)
        if why_not:
            self._say(line, Verdict.CANNOT, why_not)
            return
        present = _entry_of(text, sidecar)
        if present is not None:
            verdict = Verdict.PRESENT if _same_program(present, entry) else Verdict.CANNOT
            other = f"{REGISTRY_FILE} already has another entry {sidecar}"
            self._say(line, verdict, "" if verdict is Verdict.PRESENT else other)
            return
        made = (
            EntryEdit(text=first_registry(sidecar, entry))
            if text is None
            else add_to_text(text, sidecar, entry, REGISTRY_FILE)
        )
        if made.why_not:
            self._say(line, Verdict.CANNOT, made.why_not)
            return
        self._after[REGISTRY_FILE] = made.text
        self._say(line)

    def _addition(self, sidecar: str, keys: JsonObject, line: MigrationLine) -> None:
        """Add keys to an entry that the registry has."""
        text = self._now(REGISTRY_FILE) or ""
        entry = _entry_of(text, sidecar)
        wanted = with_permissions({**(entry or {}), **keys})
        fault = _entry_fault(sidecar, wanted)
        made = "" if fault else with_keys(text, sidecar, wanted)
        if not made:
            self._say(line, Verdict.CANNOT, fault or f"{REGISTRY_FILE} cannot be edited: correct it first")
            return
        self._after[REGISTRY_FILE] = made
        self._say(line)

    def _manifest(self, name: str, text: str, line: MigrationLine) -> None:
        path = f"{MANIFESTS_DIR}/{name}/{MANIFEST_FILE}"
        now = self._now(path)
        why_not = self._unreadable(path)
        secret = next((number for number, row in enumerate(text.splitlines(), 1) if secret_value(row)), 0)
        if why_not or secret:
            where = f"line {secret} of it looks like a secret, which is not copied"
            self._say(line, Verdict.CANNOT, why_not or where)
        elif now is None:
            self._after[path] = text
            self._say(line)
        else:
            same = now == text
            other = f"{path} already has another text"
            self._say(line, Verdict.PRESENT if same else Verdict.CANNOT, "" if same else other)


def _holds_secret(value: Json) -> bool:
    return any(secret_value(text) for _, _, text in texts_of(value, "", ""))


def _entry_fault(sidecar: str, entry: JsonObject) -> str:
    """Return why a registry does not accept the entry; empty where it does."""
    text = first_registry(sidecar, entry)
    entries, found = parse_registry(text, REGISTRY_FILE, Source.PROJECT, frozenset(KNOWN))
    problems = [*found, *(problem for one in entries or () for problem in one.problems)]
    fault = next((problem for problem in problems if problem.severity is Severity.ERROR), None)
    return f"a registry does not accept it: {fault.message}" if fault is not None else ""


def _entry_of(text: str | None, sidecar: str) -> JsonObject | None:
    value = parse_jsonc(text, "")[0] if text is not None else None
    sidecars = value.get("sidecars") if isinstance(value, dict) else None
    entry = sidecars.get(sidecar) if isinstance(sidecars, dict) else None
    return (
        entry
        if isinstance(entry, dict)
        else {}
        if isinstance(sidecars, dict) and sidecar in sidecars
        else None
    )


def _same_program(present: JsonObject, wanted: JsonObject) -> bool:
    """Return whether both entries start the same. A person may have changed the rest since."""
    return all(present.get(key) == wanted.get(key) for key in ("command", "args", "kind"))


def with_keys(text: str, sidecar: str, wanted: JsonObject) -> str:
    """Return the text of a registry in which an entry has the keys of `wanted` that it lacks; empty where it
    cannot be edited without another change."""
    value, problem = parse_jsonc(text, REGISTRY_FILE)
    if problem is not None or not isinstance(value, dict) or scan(text).duplicates:
        return ""
    entry, sidecars = _entry_of(text, sidecar) or {}, value["sidecars"]
    pointer = pointer_join("/sidecars", sidecar)
    for key in wanted.keys() - entry.keys():
        entry = {**entry, key: wanted[key]}
        sidecars = {**sidecars, sidecar: entry} if isinstance(sidecars, dict) else sidecars
        changes = insert_last(scan(text), pointer, wanted[key], key=key, one_line=100)
        made = edited(text, changes, {**value, "sidecars": sidecars})
        if made is None:
            return ""
        text = made
    return text


def with_setting(text: str | None, pointer: str, value: Json) -> EntryEdit:
    """Return the text of `tools/config.jsonc` with this setting. A list gets the value as its last item.

    A setting that the file has already is never changed. Comments and everything else stay.
    """
    steps = pointer.split("/")[1:]
    is_list = pointer == SEARCH_PATHS
    wanted: Json = [value] if is_list else value
    if text is None:
        return EntryEdit(text=f"{spelled(_with({}, steps, wanted), '')}\n")
    now, problem = parse_jsonc(text, TOOLS_CONFIG_FILE)
    if problem is not None or not isinstance(now, dict):
        where = f"{problem.position} {problem.message}" if problem is not None else "it is not an object"
        return EntryEdit(why_not=f"correct {TOOLS_CONFIG_FILE} first: {where}")
    index = scan(text)
    if index.duplicates:
        return EntryEdit(why_not=f"correct {TOOLS_CONFIG_FILE} first: a key is written twice")
    node: Json = now
    at = ""
    for number, step in enumerate(steps):
        if not isinstance(node, dict):
            return EntryEdit(why_not=f"{TOOLS_CONFIG_FILE}: {at[1:].replace('/', '.')} is not an object")
        if step not in node:
            rest = _with({}, steps[number + 1 :], wanted) if steps[number + 1 :] else wanted
            changes = insert_last(index, at, rest, key=step, one_line=100)
            return _setting_edit(edited(text, changes, _with(now, steps, wanted)))
        node, at = node[step], pointer_join(at, step)
    if not is_list:
        same = spelled(node) == spelled(value)
        return EntryEdit(text=text) if same else EntryEdit(why_not=f"{TOOLS_CONFIG_FILE} has another value")
    if not isinstance(node, list):
        return EntryEdit(why_not=f"{TOOLS_CONFIG_FILE}: searchPaths is not a list")
    if value in node:
        return EntryEdit(text=text)
    changes = insert_last(index, at, value, one_line=100)
    return _setting_edit(edited(text, changes, _with(now, steps, [*node, value])))


def _setting_edit(text: str | None) -> EntryEdit:
    if text is None:
        return EntryEdit(why_not=f"{TOOLS_CONFIG_FILE} cannot be edited without changing something else")
    return EntryEdit(text=text)


def _with(value: JsonObject, steps: list[str], wanted: Json) -> JsonObject:
    """Return the object with a member below it set."""
    first, *rest = steps
    below = value.get(first)
    inner: Json = _with(below if isinstance(below, dict) else {}, rest, wanted) if rest else wanted
    return {**value, first: inner}


def apply_migration(places: RootPaths, plan: MigrationPlan) -> MigrationResult:
    """Write the files of the plan, one after the other.

    It stops at the first that cannot be written, or that is not as it was when the plan was made.
    """
    written: list[str] = []
    for file in plan.files:
        try:
            _write(places, file)
        except OSError as error:
            why_not = f"{file.path} cannot be written: {error.strerror or error}"
            return MigrationResult(tuple(written), why_not)
        written.append(file.path)
    return MigrationResult(tuple(written))


def _write(places: RootPaths, file: MigratedFile) -> None:
    after = file.after.encode("utf-8")
    if file.before is None:
        create_beneath(places.app_root, file.path, after)
        return
    # A byte order mark is no part of the text. The file with one is replaced by one with it.
    text, data, _ = read_text(places.app_root, file.path, file.path)
    mark = data[: len(data) - len(file.before.encode("utf-8"))] if text == file.before else b""
    replace_beneath(places.app_root, file.path, mark + file.before.encode("utf-8"), mark + after)
