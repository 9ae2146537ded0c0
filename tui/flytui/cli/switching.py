"""Switching an entry on or off from the command line: the same edit as the console's, and no trust with it,
because nobody proves that a person ran it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flytui.cli.output import emit, note, say
from flytui.cli.unknown import EXIT_UNKNOWN

if TYPE_CHECKING:
    from flycore.model.sidecar import Registry
    from flycore.registry.places import Places
    from flytui.cli.documents import SwitchDocument
    from flytui.cli.invocation import Invocation

EXIT_REFUSED = 5


def switch(told: Invocation, sidecar: str, enabled: bool, reason: str) -> int:
    """Edit the file that declares the entry; 3 for one there is not, 5 where the file cannot be edited."""
    places = told.places()
    document, code = _switched(places, sidecar, enabled, reason)
    if told.as_json:
        emit(document)
        return code
    (say if code == 0 else note)(document.message)
    if document.waits:
        note("what would run now has to be trusted first: flytui trust, or T in the console")
    return code


def _switched(places: Places, sidecar: str, enabled: bool, reason: str) -> tuple[SwitchDocument, int]:
    from flycore.registry.edits import switch_entry
    from flytui.cli.documents import SwitchDocument

    registry = _registry(places)
    entry = registry.entry(sidecar)
    if entry is None:
        return _without(registry, sidecar, enabled)
    file, word = entry.position.file, "on" if enabled else "off"
    if entry.enabled is enabled and (enabled or entry.disabled_reason == reason):
        outcome, message = "unchanged", f"{sidecar} is {word} already"
    else:
        made = switch_entry(places, entry.source, sidecar, enabled, reason, file)
        if made.why_not:
            refused = SwitchDocument(
                sidecar=sidecar, file=file, enabled=entry.enabled, outcome="refused", message=made.why_not
            )
            return refused, EXIT_REFUSED
        outcome, message = "switched", f"{sidecar} is {word}: {file}"
    document = SwitchDocument(
        sidecar=sidecar,
        file=file,
        enabled=enabled,
        outcome=outcome,
        message=message,
        waits=enabled and _waits(places, sidecar),
    )
    return document, 0


def _registry(places: Places) -> Registry:
    from flycore.catalog.known import KNOWN
    from flycore.registry.load import load_registry

    return load_registry(places, known=frozenset(KNOWN), environ=os.environ)


def _without(registry: Registry, sidecar: str, enabled: bool) -> tuple[SwitchDocument, int]:
    """There is no such entry, or a file that may have it cannot be used."""
    from flycore.model.diagnostics import Severity
    from flytui.cli.documents import SwitchDocument

    broken = next((found for found in registry.diagnostics if found.severity is Severity.ERROR), None)
    if broken is not None:
        message = f"mend the file first: {broken.position or ''} {broken.message}"
        outcome, code = "refused", EXIT_REFUSED
    else:
        message = f"the registry has no entry {sidecar}: flytui catalog --all lists them"
        outcome, code = "unknown", EXIT_UNKNOWN
    told = SwitchDocument(sidecar=sidecar, file="", enabled=not enabled, outcome=outcome, message=message)
    return told, code


def _waits(places: Places, sidecar: str) -> bool:
    from flytui.cli.pending import read_pending

    return any(item.sidecar == sidecar for item in read_pending(places).items)
