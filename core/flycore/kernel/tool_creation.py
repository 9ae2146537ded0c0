"""The creation of a tool by an agent: its definition is checked, and waits in a folder of flytui's own for a
person's review. Nothing of it runs before."""

from __future__ import annotations

import re
from typing import NamedTuple

from flycore.audit import events as audit_events
from flycore.catalog.registry_capability import excess_of_created
from flycore.discovery.manifests import CREATED
from flycore.kernel.load_state import is_reserved
from flycore.model.approval import Outcome
from flycore.model.diagnostics import Severity
from flycore.model.json import JsonObject
from flycore.model.sidecar import SidecarEntry
from flycore.pipeline.context import Files
from flycore.registry.created_tools import (
    MOST_CREATED,
    as_created,
    created_limits,
    created_names,
    definition_text,
    write_created,
)
from flycore.registry.manifest import parse_manifest
from flycore.registry.paths import MANIFEST_FILE, RootPaths

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_SAID = 20
"""How many faults of a definition an answer names."""
_Lines = tuple[tuple[str, JsonObject], ...]


class CreatedTool(NamedTuple):
    """Whether the tool was made, and the log lines about it."""

    outcome: Outcome
    lines: _Lines = ()


def create_tool(
    places: RootPaths, files: Files, name: str, definition: JsonObject | str, creator: str
) -> CreatedTool:
    """Check a definition and keep it for review. `creator` is the key of the calling agent, and `files` are
    those of the root as they are now. Raises nothing for the content of a definition."""
    if _NAME.fullmatch(name) is None:
        return _refused("a name has 1 to 64 of A-Z a-z 0-9 . _ - and begins with a letter or a digit")
    known = created_names(places)
    if why := _taken(files, name, known):
        return _refused(why)
    try:
        text = definition_text(definition)
    except (ValueError, RecursionError) as broken:
        return _refused(str(broken))
    shown = f"{CREATED}/{name}/{MANIFEST_FILE}"
    file = str(places.created_dir / name / MANIFEST_FILE)
    read = parse_manifest(text, shown, folder=name, file=file, is_reserved=is_reserved)
    if not read.valid:
        return _refused(_faults(read))
    entry = as_created(read, creator)
    limits = created_limits(files.settings.max_permissions, files.project_limits)
    excess = excess_of_created(entry.permissions, limits)
    if excess:
        listed = ", ".join(excess)
        return _refused(f"it declares more than security.max_permissions allows a tool of an agent: {listed}")
    try:
        write_created(places, name, text, creator)
    except OSError as error:
        return _refused(f"it could not be written: {error.strerror or error}")
    fields = audit_events.tool_created(entry, changed=name in known)
    return CreatedTool(Outcome(accepted=True), ((audit_events.TOOL_CREATED, fields),))


def _taken(files: Files, name: str, known: frozenset[str]) -> str:
    """Return why no tool of that name can be made; empty where one can."""
    owners = (entry for entry in files.registry.entries if not entry.creator)
    owner = next((entry for entry in owners if name == entry.id or name in entry.tool_names), None)
    if owner is not None or is_reserved(name):
        return f"{name} is a tool already, which no agent can replace"
    if name not in known and len(known) >= MOST_CREATED:
        return f"agents have made {MOST_CREATED} tools here already, which is the most"
    return ""


def _faults(entry: SidecarEntry) -> str:
    errors = [problem for problem in entry.problems if problem.severity is Severity.ERROR]
    said = [f"{problem.message} [{problem.rule}]: {problem.remedy}" for problem in errors[:MOST_SAID]]
    more = [f"and {len(errors) - MOST_SAID} more"] if len(errors) > MOST_SAID else []
    return "\n".join(("its definition has faults:", *said, *more))


def _refused(why: str) -> CreatedTool:
    return CreatedTool(Outcome(accepted=False, why_not=why))
