"""The effective entries of the registry: for an entry that changed since it was trusted, its trusted value.

A changed entry waits for a person, and its last trusted value stays in force. An entry that was removed,
switched off or made invalid in the file is so at once, as that takes rights away only. An entry of a project
that may not run replaces nothing of the user's own registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from flycore.approval.trust_store import TrustStore
from flycore.catalog.builtin import KNOWN
from flycore.kernel.load_state import resolve_programs
from flycore.kernel.replaced_entries import settle_entries
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.enums import Source
from flycore.model.json_diff import json_difference
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.pipeline.context import Files, RootEnvironment
from flycore.registry.entry import restore_entry
from flycore.registry.load import mark_conflicts

RULE = "changed-entry"

T = TypeVar("T")


def effective_files(environment: RootEnvironment, files: Files, trust: TrustStore) -> Files:
    """Return the files with the entries in force, and which of them may run: changed entries are replaced by
    their last trusted values, with the programs of those."""
    earlier = {
        entry.id: value
        for entry in files.registry.entries
        if (value := _last_trusted(entry, trust, files.registry.app_root)) is not None
    }
    registry = files.registry
    if earlier:
        entries = mark_conflicts(tuple(earlier.get(entry.id, entry) for entry in registry.entries))
        registry = msgspec.structs.replace(registry, entries=entries)
    running = frozenset(
        entry.id
        for entry in registry.entries
        if entry.source is Source.PROJECT and entry.valid and entry.enabled and trust.is_trusted(entry)
    )
    registry = _trusted_first(settle_entries(registry, running), trust)
    shadowed = {entry.id for entry in files.registry.replaced}
    restored = {entry.id: entry for entry in registry.entries if entry.id in shadowed - running}
    other = {**earlier, **restored}
    programs, delegates = resolve_programs(environment, registry, tuple(other.values()))
    return msgspec.structs.replace(
        files,
        registry=registry,
        programs={**_without(files.programs, other), **programs},
        delegates={**_without(files.delegates, other), **delegates},
        trusted=trust.trusted_ids(registry),
        changed={
            entry.id: json_difference(earlier[entry.id].raw, entry.raw)
            for entry in files.registry.entries
            if entry.id in earlier
        },
    )


def _trusted_first(registry: Registry, trust: TrustStore) -> Registry:
    """Return the registry with the discovered entries that may run before those that may not."""
    # A file that came with a clone must not take a tool from one that is trusted before it is trusted itself.
    found = tuple(entry for entry in registry.entries if entry.source.discovered)
    ordered = sorted(found, key=lambda entry: not trust.is_trusted(entry))
    if tuple(ordered) == found:
        return registry
    declared = (entry for entry in registry.entries if not entry.source.discovered)
    return msgspec.structs.replace(registry, entries=mark_conflicts((*declared, *ordered)))


def entry_to_switch(
    environment: RootEnvironment, files: Files, trust: TrustStore, sidecar: str, enabled: bool
) -> SidecarEntry | None:
    """Return the entry of that id that a person means who switches it on or off; None if there is none.

    It is the one in force, which may be the user's own while the project has one, too. Where that one is
    switched so already, it is the project's.
    """
    declared = files.registry.entry(sidecar)
    shown = effective_files(environment, files, trust).registry.entry(sidecar)
    return declared if shown is None or shown.source is Source.PROJECT or shown.enabled is enabled else shown


def _without(found: Mapping[str, T], sidecars: Mapping[str, SidecarEntry]) -> dict[str, T]:
    return {sidecar: item for sidecar, item in found.items() if sidecar not in sidecars}


def _last_trusted(entry: SidecarEntry, trust: TrustStore, app_root: str) -> SidecarEntry | None:
    """Return the trusted value that stays in force; None if the value of the file counts."""
    # A discovered file is what is there now: the value that was trusted cannot run without the file's bytes.
    if entry.users_own or entry.source.discovered:
        return None
    if not entry.valid or not entry.enabled or trust.is_trusted(entry):
        return None
    last = trust.last_trusted(entry.id)
    if last is None or last.raw is None:
        return None
    value = restore_entry(entry, last.raw, frozenset(KNOWN))
    if value.digest != last.digest or not value.valid or not value.enabled:
        return None
    noted = msgspec.structs.replace(value, problems=(*value.problems, _changed_entry_note(entry)))
    return noted.with_origin(app_root)


def _changed_entry_note(entry: SidecarEntry) -> Diagnostic:
    return Diagnostic(
        severity=Severity.WARNING,
        rule=RULE,
        message=f"{entry.id} has changed: the last trusted value is in force, the new one waits for trust",
        remedy="flytui trust, or T in the console, shows the difference and lets you decide",
        pointer=f"/sidecars/{entry.id}",
        position=entry.position,
        sidecar=entry.id,
    )
