"""The roots of this user that need a person: those with a kernel that runs, and those with tickets that wait.

The state folder of a root is named by a hash of the root's path. So the path is read from what the kernel
wrote there, and believed only where it has that hash.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from flycore.approval.tickets import load_tickets
from flycore.kernel.lock import living_holder
from flycore.model.enums import RequestState
from flycore.registry.paths import RootPaths, find_paths, root_key, roots_folder


def active_roots(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of these roots, in the order of the paths. A root whose folder is gone is left out."""
    folders = _state_folders(environ)
    found = {root for at in folders for root in _named_roots(at, environ) if _is_root_of(root, at.name)}
    return tuple(sorted(found))


def running_kernels(environ: Mapping[str, str]) -> tuple[int, ...]:
    """Return the process ids of the kernels that hold a root of this user."""
    holders = (living_holder(_places(folder, environ)) for folder in _state_folders(environ))
    return tuple(holder.pid for holder in holders if holder is not None)


def _state_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    folder = roots_folder(environ)
    try:
        return tuple(folder / key for key in os.listdir(folder))
    except OSError:
        return ()


def _is_root_of(root: str, key: str) -> bool:
    """Whether the path is that of the root with that key, and a folder."""
    # A record that names another root must not lead there.
    return os.path.isabs(root) and "\0" not in root and root_key(Path(root)) == key and os.path.isdir(root)


def _named_roots(state_dir: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """The path that the running kernel has written to the folder, and those of the tickets that wait."""
    # The lock is found by the state folder alone.
    places = _places(state_dir, environ)
    holder = living_holder(places)
    if holder is not None:
        yield holder.app_root
    now = time.time()
    for ticket in load_tickets(state_dir):
        if ticket.ask.state is RequestState.WAITING and ticket.until > now:
            yield ticket.ask.request.app_root


def _places(state_dir: Path, environ: Mapping[str, str]) -> RootPaths:
    return find_paths("/", None, environ, Path("/"))._replace(state_dir=state_dir)
