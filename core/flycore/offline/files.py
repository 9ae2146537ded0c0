"""The files of a root that people write: the registry, which commands also edit, and the settings.

An edit takes neither the root's lock nor a line in the log: it is the person's own, as with an editor, and a
kernel that runs notices it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flycore.catalog.builtin import KNOWN
from flycore.model.diagnostics import Severity
from flycore.model.sidecar import Registry
from flycore.registry.edits import starter_text as starter_text
from flycore.registry.edits import switch_entry
from flycore.registry.edits import write_starter as write_starter
from flycore.registry.load import load_registry
from flycore.registry.paths import RootPaths
from flycore.registry.settings import ReadSettings as ReadSettings
from flycore.registry.settings import read_settings as read_settings


class EnableResult(NamedTuple):
    """What became of switching an entry on or off."""

    file: str
    """That declares the entry; empty where none does."""
    enabled: bool
    """As the file has it now; of an entry that was not found, the opposite of what was asked."""
    outcome: str
    """`switched`, `unchanged`, `refused` or `unknown`."""
    message: str


def read_registry(places: RootPaths, environ: Mapping[str, str]) -> Registry:
    """The registry as the files have it. Starts nothing, writes nothing."""
    return load_registry(places, known=frozenset(KNOWN), environ=environ)


def set_enabled(
    places: RootPaths, environ: Mapping[str, str], sidecar: str, enabled: bool, reason: str
) -> EnableResult:
    """Switch the entry on or off in the file that declares it. No trust comes with it, because nobody proves
    that a person ran the command."""
    registry = read_registry(places, environ)
    entry = registry.entry(sidecar)
    if entry is None:
        return _missing_entry(registry, sidecar, enabled)
    file, word = entry.position.file, "on" if enabled else "off"
    if entry.enabled is enabled and (enabled or entry.disabled_reason == reason):
        return EnableResult(file, enabled, "unchanged", f"{sidecar} is {word} already")
    made = switch_entry(places, entry.source, sidecar, enabled, reason, file)
    if made.why_not:
        return EnableResult(file, entry.enabled, "refused", made.why_not)
    return EnableResult(file, enabled, "switched", f"{sidecar} is {word}: {file}")


def _missing_entry(registry: Registry, sidecar: str, enabled: bool) -> EnableResult:
    """There is no such entry, or a file that may have it cannot be used."""
    broken = next((found for found in registry.diagnostics if found.severity is Severity.ERROR), None)
    if broken is not None:
        message = f"mend the file first: {broken.position or ''} {broken.message}"
        return EnableResult("", not enabled, "refused", message)
    message = f"the registry has no entry {sidecar}: flytui catalog --all lists them"
    return EnableResult("", not enabled, "unknown", message)
