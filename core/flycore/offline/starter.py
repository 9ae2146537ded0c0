"""The starter registry, as `flytui init` writes it. As every edit of a registry by a command, it trusts
nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from flycore.registry.paths import RootPaths
from flycore.registry.starter import StarterEdit as StarterEdit
from flycore.registry.starter import plan_starter as plan_starter
from flycore.registry.starter import registry_of, starter_pieces
from flycore.registry.starter import write_plan as write_plan


def starter_names() -> tuple[str, ...]:
    """Return the ids of all entries of the starter registry."""
    return tuple(piece.id for piece in starter_pieces(Path("/"), {}))


def starter_registry(places: RootPaths, environ: Mapping[str, str], sidecars: Collection[str]) -> str:
    """Return the text of a registry with these entries alone, for this machine."""
    pieces = starter_pieces(places.app_root, environ)
    return registry_of(piece for piece in pieces if piece.id in sidecars)
