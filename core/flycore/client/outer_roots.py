"""Finds the root that lies around another one and is open in a console or in `flytui serve`, and asks it.

A folder within a project may have a registry of its own, as a submodule has. A program that starts there
works on that inner root, beside the console that a person watches.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import anyio
import msgspec

from flycore.client.client import connect_root
from flycore.kernel.lock import read_holder
from flycore.model.enums import RootPermission
from flycore.model.errors import FlyError
from flycore.registry.paths import LEGACY_REGISTRY_FILE, REGISTRY_FILE, RootPaths, find_paths
from flysafe.procfs import read_process

ANSWER_SECONDS = 3.0
"""How long the kernel of the outer root may take to answer."""


def open_outer_root(places: RootPaths, environ: Mapping[str, str]) -> RootPaths | None:
    """Return the nearest folder around the root that is a root itself and open; None where there is none."""
    for folder in places.app_root.parents:
        if not any(os.path.lexists(folder / name) for name in (REGISTRY_FILE, LEGACY_REGISTRY_FILE)):
            continue
        outer = find_paths(str(folder), None, environ, folder)
        holder = read_holder(outer)
        if holder is None or holder.on_demand:
            continue
        # A killed kernel leaves its record, and its pid may belong to another process now.
        process = read_process(holder.pid)
        if process is not None and process.started == holder.started:
            return outer
    return None


async def ask_outer_root(outer: RootPaths, root: Path) -> RootPermission:
    """Return what the person of the outer root says about programs that work on `root`. A kernel that does
    not answer in time, or not as it should, has said nothing. Never raises for what a kernel does."""
    # A fault of the outer kernel must not end calls to the inner one, which asks by a policy of its own.
    with anyio.move_on_after(ANSWER_SECONDS):
        try:
            async with connect_root(outer) as client:
                return await client.nested_root(str(root))
        except (FlyError, OSError, msgspec.MsgspecError, KeyError, UnicodeError):
            pass
    return RootPermission.UNDECIDED
