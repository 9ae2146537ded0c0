"""The registry files of a root, which people write and commands edit as well.

An edit needs neither the root's lock nor a line in the log. It is the same as an edit in the person's editor,
which a running kernel notices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flycore.approval.trust_store import TrustStore
from flycore.catalog.builtin import KNOWN
from flycore.kernel.effective_entries import entry_to_switch
from flycore.kernel.load_state import find_environment, read_files
from flycore.model.diagnostics import Severity
from flycore.model.sidecar import Registry
from flycore.registry.edits import switch_entry
from flycore.registry.load import load_registry
from flycore.registry.paths import RootPaths
from flycore.registry.published_schemas import published_schema as published_schema
from flycore.registry.published_schemas import write_schemas as write_schemas


class EnableResult(NamedTuple):
    """The result of switching an entry on or off."""

    file: str
    """The file that declares the entry; empty if none does."""
    enabled: bool
    """The state in the file now; for an entry that was not found, the opposite of the one requested."""
    outcome: str
    """`switched`, `unchanged`, `refused` or `unknown`."""
    message: str


def read_registry(places: RootPaths, environ: Mapping[str, str]) -> Registry:
    """Read the registry from its files. Starts no process and writes nothing."""
    return load_registry(places, known=frozenset(KNOWN), environ=environ)


def set_enabled(
    places: RootPaths, environ: Mapping[str, str], sidecar: str, enabled: bool, reason: str
) -> EnableResult:
    """Switch the entry on or off in the file that declares it. Trust in the entry does not change."""
    # The console does renew trust after a switch. Here nothing shows that a person ran the command.
    environment = find_environment(places, environ)
    files = read_files(environment, None)
    entry = entry_to_switch(environment, files, TrustStore(places.trust_file), sidecar, enabled)
    if entry is None:
        return _missing_entry(read_registry(places, environ), sidecar, enabled)
    file, word = entry.position.file, "on" if enabled else "off"
    if entry.enabled is enabled and (enabled or entry.disabled_reason == reason):
        return EnableResult(file, enabled, "unchanged", f"{sidecar} is already {word}")
    edited = switch_entry(places, entry.source, sidecar, enabled, reason, file)
    if edited.why_not:
        return EnableResult(file, entry.enabled, "refused", edited.why_not)
    return EnableResult(file, enabled, "switched", f"{sidecar} is {word}: {file}")


def _missing_entry(registry: Registry, sidecar: str, enabled: bool) -> EnableResult:
    """The result for an entry that is not found: it does not exist, or its file cannot be read."""
    broken = next((found for found in registry.diagnostics if found.severity is Severity.ERROR), None)
    if broken is not None:
        message = f"fix the file first: {broken.position or ''} {broken.message}"
        return EnableResult("", not enabled, "refused", message)
    message = f"the registry has no entry {sidecar}: flytui catalog --all lists them"
    return EnableResult("", not enabled, "unknown", message)
