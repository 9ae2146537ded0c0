"""The state of a root without a kernel: what waits for trust, whether it is stopped, and who holds it."""

from __future__ import annotations

import os

import msgspec

from flycore.approval.trust_store import TrustStore
from flycore.kernel.load_state import find_environment, read_files
from flycore.kernel.lock import living_holder
from flycore.kernel.panic_file import read_panic
from flycore.registry.paths import RootPaths


class RootStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a root without a kernel."""

    waiting_trust: int
    """Entries that wait for trust."""
    panic: bool
    """Whether everything is stopped until a person releases it."""
    held_by: int | None
    """The process that holds the root; None where there is none."""


def read_status(places: RootPaths) -> RootStatus:
    """Read the files of the root. Starts no process and writes nothing."""
    holder = living_holder(places)
    return RootStatus(
        waiting_trust=count_waiting(places),
        panic=read_panic(places.state_dir) is not None,
        held_by=holder.pid if holder is not None else None,
    )


def count_waiting(places: RootPaths) -> int:
    """Return how many entries of the root wait for trust, as its files are now."""
    files = read_files(find_environment(places, dict(os.environ)), None)
    return sum(map(TrustStore(places.trust_file).waits, files.registry.entries))
