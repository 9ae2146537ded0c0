"""The tools that files describe by themselves, as layers of entries behind those of the registry.

Such a file grants nothing: its entries go through trust, policy, approval and sandbox as those of a registry
do. Finding them starts no program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from flycore.discovery.executables import read_executables, watched_executables
from flycore.discovery.manifests import read_manifests, watched_manifests
from flycore.model.diagnostics import Diagnostic
from flycore.model.sidecar import SidecarEntry
from flycore.registry.paths import RootPaths
from flycore.registry.stamps import Stamp

IsReserved = Callable[[str], bool]
"""Returns whether a tool's name belongs to a tool of the kernel or to a known capability."""


class ToolLayer(NamedTuple):
    """The entries of one kind of file, the ones that win first, and what is wrong with files as a whole."""

    entries: tuple[SidecarEntry, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def read_tool_layers(
    places: RootPaths, environ: Mapping[str, str], is_reserved: IsReserved, run: Collection[str]
) -> Iterator[ToolLayer]:
    """Yield the layers in the order in which they win. Raises nothing for the contents of a file.

    `run` holds the real paths of the programs that the registry runs.
    """
    yield ToolLayer(*read_manifests(places, is_reserved))
    yield ToolLayer(*read_executables(places, environ, run, is_reserved))


def watched_tools(places: RootPaths, environ: Mapping[str, str]) -> tuple[tuple[Path, Stamp], ...]:
    """Return every file and folder that `read_tool_layers` depends on, with its stamp as it is now."""
    return (*watched_manifests(places), *watched_executables(places, environ))
