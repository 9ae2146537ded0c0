"""The registry a project starts from: shipped in the package, and written where there is none."""

from __future__ import annotations

import os
from functools import cache
from importlib import resources

from flycore.model.enums import Source
from flycore.model.sidecar import SidecarEntry
from flycore.registry.document import parse_registry
from flycore.registry.places import LEGACY_REGISTRY_FILE, REGISTRY_FILE, RootPaths
from flysafe.replace import create_beneath

STARTER_FILE = "starter.jsonc"


@cache
def starter_text() -> str:
    """The file as it is written."""
    return resources.files("flycore.registry").joinpath(STARTER_FILE).read_text(encoding="utf-8")


def starter_entries(known: frozenset[str]) -> tuple[SidecarEntry, ...]:
    """What it declares. `known` names the known capabilities."""
    entries, _ = parse_registry(starter_text(), REGISTRY_FILE, Source.PROJECT, known)
    return entries or ()


def write_starter(places: RootPaths) -> str:
    """Write it as the project's registry. What is there, in either place, is left alone; the sentence says
    why nothing was written."""
    for relative in (REGISTRY_FILE, LEGACY_REGISTRY_FILE):
        if os.path.lexists(places.app_root / relative):
            return f"{relative} is there already and stays as it is"
    try:
        create_beneath(places.app_root, REGISTRY_FILE, starter_text().encode("utf-8"))
    except FileExistsError:
        return f"{REGISTRY_FILE} is there already and stays as it is"
    except OSError as error:
        return f"{REGISTRY_FILE} cannot be written: {error.strerror or error}"
    return ""
