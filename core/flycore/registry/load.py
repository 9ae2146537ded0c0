"""Loads the registry: reads the files of the project and of the user, and merges them into one value.

Nothing here raises an exception for the contents of a file. A fault in an entry makes this entry invalid, and
a file that does not parse gives one diagnostic.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.enums import Source
from flycore.model.json import Json, digest, indented_json, pointer_join
from flycore.model.sidecar import AppliedBundle, Registry, SidecarEntry
from flycore.registry.bundles import AppliedBundles, read_applied
from flycore.registry.entry import entry_digest, sorted_json
from flycore.registry.names import LONGEST_ID
from flycore.registry.parse_registry import parse_registry
from flycore.registry.paths import BUNDLES_FILE, LEGACY_REGISTRY_FILE, REGISTRY_FILE, RootPaths
from flycore.registry.read_file import read_text
from flycore.registry.source_text import key_position

RULE = "tool-conflict"
LEFT_OUT = "bundle-entry"
"""The rule of the warning that an entry of a bundle is left out."""
_ID_DIGITS = 12
"""Hexadecimal digits of a file's path in an id that would not be unique without them."""


def mark_conflicts(entries: tuple[SidecarEntry, ...]) -> tuple[SidecarEntry, ...]:
    """Return the entries with a warning at each claim of a tool that an earlier entry has already.

    Earlier warnings of this kind are replaced.
    """
    # An entry that is invalid or disabled keeps its tools: what a person wrote first has the tool, and shows
    # why it is not available. Another entry must not take its place unnoticed.
    winners: dict[str, SidecarEntry] = {}
    marked: list[SidecarEntry] = []
    for entry in entries:
        lost: list[Diagnostic] = []
        for claim in entry.tools:
            winner = winners.setdefault(claim.name, entry)
            if winner is not entry:
                lost.append(_warning(entry, claim.name, winner))
        kept = tuple(problem for problem in entry.problems if problem.rule != RULE)
        if lost or len(kept) != len(entry.problems):
            entry = msgspec.structs.replace(entry, problems=(*kept, *lost))
        marked.append(entry)
    return tuple(marked)


def _warning(entry: SidecarEntry, tool: str, winner: SidecarEntry) -> Diagnostic:
    where = winner.position.file
    where = where if winner.source is Source.EXECUTABLE else f"{where}:{winner.position.line}"
    apart = (
        f"give {tool} another name in one of the two"
        if entry.source.discovered
        else f"remove {tool} from one of the two"
    )
    return Diagnostic(
        severity=Severity.WARNING,
        rule=RULE,
        message=f"{tool} is offered by {winner.id} ({where}), which comes first",
        remedy=apart,
        pointer="" if entry.source.discovered else f"{pointer_join('/sidecars', entry.id)}/tools",
        position=key_position(entry, "tools"),
        sidecar=entry.id,
    )


class _RegistryLayer(msgspec.Struct, frozen=True):
    """The contents of one file. `entries` is None where the file does not parse."""

    source: Source
    path: str
    data: bytes
    entries: tuple[SidecarEntry, ...] | None
    diagnostics: tuple[Diagnostic, ...]


def load_registry(
    places: RootPaths, *, known: frozenset[str], environ: Mapping[str, str], previous: Registry | None = None
) -> Registry:
    """Read all registry files and return the registry. `known` holds the names of the known capabilities.

    Where a file cannot be read or does not parse, its entries of `previous`, the last good registry, stay,
    and a diagnostic says so; without `previous` there are none. Positions show project files relative to the
    app root, and the user's file with `~` where it is below `environ["HOME"]`.
    """
    own = (_project(places, known), _user(places, known, environ))
    applied = read_applied(places.config_dir)
    layers = [layer for layer in own if layer is not None] + _bundles(applied, places, known)
    diagnostics = tuple(found for layer in layers for found in _add_file_findings(layer, previous))
    entries, taken = _merged(layers, previous)
    # A bundle never stands in for an entry that is written in the project or by the user, and says so.
    diagnostics += tuple(_left_out(entry) for entry in taken if entry.source is Source.BUNDLE)
    replaced = tuple(entry for entry in taken if entry.source is not Source.BUNDLE)
    app_root = str(places.app_root)
    entries = tuple(entry.with_origin(app_root) for entry in entries)
    replaced = tuple(entry.with_origin(app_root) for entry in replaced)
    return Registry(
        app_root=app_root,
        config_dir=str(places.config_dir),
        data_dir=str(places.data_dir),
        workspace=str(places.workspace),
        entries=mark_conflicts(entries),
        replaced=replaced,
        bundles=_applied(applied, previous),
        diagnostics=diagnostics,
        files=tuple(layer.path for layer in layers),
        digest=_digest(layers),
    )


def add_discovered(
    registry: Registry, entries: Iterable[SidecarEntry], diagnostics: Iterable[Diagnostic] = ()
) -> Registry:
    """Return the registry with entries that were made from files outside of it, behind its own.

    An entry whose id is taken gets another one, and a digest by `entry_digest` with it. Of two that claim one
    tool, the first keeps it.
    """
    taken = {entry.id for entry in (*registry.entries, *registry.replaced)}
    added: list[SidecarEntry] = []
    for entry in entries:
        named = _with_free_id(entry, taken)
        taken.add(named.id)
        added.append(named.with_origin(registry.app_root))
    found = tuple(diagnostics)
    if not added and not found:
        return registry
    files: list[Json] = [[entry.id, entry.digest, entry.file] for entry in added]
    return msgspec.structs.replace(
        registry,
        entries=mark_conflicts((*registry.entries, *added)),
        diagnostics=(*registry.diagnostics, *found),
        digest=digest([registry.digest, files]),
    )


def _with_free_id(entry: SidecarEntry, taken: Collection[str]) -> SidecarEntry:
    """Return the entry, under another id where its own is taken."""
    if entry.id not in taken:
        return entry
    # The id follows from the file alone, so that it is the same at the next start, and trust in it holds.
    end = "-" + hashlib.sha256(os.fsencode(entry.file)).hexdigest()[:_ID_DIGITS]
    free = entry.id[: LONGEST_ID - len(end)] + end
    return msgspec.structs.replace(entry, id=free, digest=entry_digest(free, sorted_json(entry.raw)))


def _project(places: RootPaths, known: frozenset[str]) -> _RegistryLayer | None:
    for relative in (REGISTRY_FILE, LEGACY_REGISTRY_FILE):
        layer = _read(places.app_root, relative, relative, Source.PROJECT, known)
        if layer is not None:
            return layer
    return None


def _user(places: RootPaths, known: frozenset[str], environ: Mapping[str, str]) -> _RegistryLayer | None:
    path = str(places.config_dir / REGISTRY_FILE)
    home = environ.get("HOME", "").rstrip("/")
    shown = f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path
    return _read(places.config_dir, REGISTRY_FILE, shown, Source.USER, known)


def _applied(applied: AppliedBundles, previous: Registry | None) -> tuple[AppliedBundle, ...]:
    """Return what names the applied bundles; those of the last good state where their file cannot be used."""
    if applied.problem is not None:
        return previous.bundles if previous is not None else ()
    return tuple(
        AppliedBundle(name=bundle.name, number=bundle.number, digest=bundle.digest, key=bundle.key)
        for bundle in applied.bundles
    )


def _bundles(applied: AppliedBundles, places: RootPaths, known: frozenset[str]) -> list[_RegistryLayer]:
    """Return one layer for each applied bundle with entries, or one for the file if it cannot be used."""
    path = str(places.config_dir / BUNDLES_FILE)
    if applied.problem is not None:
        return [_RegistryLayer(Source.BUNDLE, path, applied.data, None, (applied.problem,))]
    found: list[_RegistryLayer] = []
    for bundle in applied.bundles:
        part = bundle.part("registry")
        if part is not None:
            text = indented_json(part)
            entries, diagnostics = parse_registry(text, bundle.shown, Source.BUNDLE, known)
            found.append(_RegistryLayer(Source.BUNDLE, path, text.encode(), entries, diagnostics))
    return found


def _read(
    anchor: Path, relative: str, shown: str, source: Source, known: frozenset[str]
) -> _RegistryLayer | None:
    text, data, problem = read_text(anchor, relative, shown)
    path = os.path.join(anchor, relative)
    if text is None:
        return _RegistryLayer(source, path, data, None, (problem,)) if problem is not None else None
    entries, diagnostics = parse_registry(text, shown, source, known)
    return _RegistryLayer(source, path, data, entries, diagnostics)


def _add_file_findings(layer: _RegistryLayer, previous: Registry | None) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a file. Where it cannot be used they say what is in force instead."""
    if layer.entries is not None:
        return layer.diagnostics
    kept = _kept_entries(layer, previous)
    in_force = "its last good state stays in force" if kept else "none of its entries is in force"
    return tuple(
        msgspec.structs.replace(found, message=f"{found.message}; {in_force}")
        if found.severity is Severity.ERROR
        else found
        for found in layer.diagnostics
    )


def _kept_entries(layer: _RegistryLayer, previous: Registry | None) -> tuple[SidecarEntry, ...]:
    """Return the entries of the last good registry that stay in force while the file cannot be used."""
    kept = (*previous.entries, *previous.replaced) if previous is not None else ()
    return tuple(entry for entry in kept if entry.source is layer.source)


def in_file_order(entries: tuple[SidecarEntry, ...]) -> tuple[SidecarEntry, ...]:
    """Return entries of one file in the order of the file."""
    return tuple(sorted(entries, key=lambda entry: (entry.position.line, entry.position.column)))


def _merged(
    layers: list[_RegistryLayer], previous: Registry | None
) -> tuple[tuple[SidecarEntry, ...], tuple[SidecarEntry, ...]]:
    """Return the project's entries, then those of the user and of bundles whose ids no layer before has; and
    the others."""
    merged: dict[str, SidecarEntry] = {}
    taken: list[SidecarEntry] = []
    for layer in layers:
        entries = layer.entries
        if entries is None:
            entries = in_file_order(_kept_entries(layer, previous))
        taken += [entry for entry in entries if merged.setdefault(entry.id, entry) is not entry]
    return tuple(merged.values()), tuple(taken)


def _left_out(entry: SidecarEntry) -> Diagnostic:
    return Diagnostic(
        severity=Severity.WARNING,
        rule=LEFT_OUT,
        message=f"the bundle's entry {entry.id} is left out, because the project, you or an earlier bundle"
        " has an entry of that id",
        remedy=f"give the other {entry.id} another id, or remove it, if you want the bundle's",
        pointer=pointer_join("/sidecars", entry.id),
        position=entry.position,
        sidecar=entry.id,
    )


def _digest(layers: list[_RegistryLayer]) -> str:
    """Return a digest of the names and bytes of the files."""
    hashes = [(layer.path, hashlib.sha256(layer.data).hexdigest()) for layer in layers]
    return hashlib.sha256(msgspec.json.encode(hashes)).hexdigest()
