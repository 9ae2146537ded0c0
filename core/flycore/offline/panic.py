"""Panic without a kernel: the file that stops every kernel of a root until a person releases it."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from flycore.approval.callers import identify_peer
from flycore.audit.events import PANIC, PANIC_RELEASED, panic, panic_released
from flycore.kernel.panic import PanicRecord, clear_panic, write_panic
from flycore.kernel.panic import read_panic as read_file
from flycore.model.approval import Outcome
from flycore.model.errors import AuditUnwritable
from flycore.offline.root import HeldRoot
from flycore.registry.paths import RootPaths


class StopResult(NamedTuple):
    """What stopping everything came to."""

    already: bool
    """Whether everything was stopped before."""
    unrecorded: str = ""
    """Why the log does not take the line; empty where it has."""


def read_panic(places: RootPaths) -> PanicRecord | None:
    """Since when everything on the root is stopped, and by whom; None where it is not. A file that cannot be
    read counts as stopped."""
    return read_file(places.state_dir)


def stop_everything(root: HeldRoot) -> StopResult:
    """Stop the root. A log that cannot be written keeps nothing from stopping. Raises OSError."""
    if read_panic(root.places) is not None:
        return StopResult(already=True)
    by = stop_next_kernel(root.places)
    try:
        root.record(PANIC, panic(by, calls=0, requests=0, leases=0))
    except AuditUnwritable as error:
        return StopResult(already=False, unrecorded=error.cause)
    return StopResult(already=False)


def stop_next_kernel(places: RootPaths) -> str:
    """Write the file while another process holds the root and does not answer: what it runs goes on, and no
    kernel that starts after it takes a call. Returns who stopped it, as the file says. Raises OSError."""
    by = str(identify_peer(os.getpid(), "cli"))
    write_panic(places.state_dir, PanicRecord(at=time.time(), by=by))
    return by


def release_everything(root: HeldRoot, shown: PanicRecord) -> Outcome:
    """Let calls run again, where the file still says what the person was shown. Raises AuditUnwritable and
    OSError, and then everything stays stopped."""
    if read_panic(root.places) != shown:
        return Outcome(accepted=False, why_not="it was stopped anew meanwhile")
    root.record(PANIC_RELEASED, panic_released("flytui panic --release"))
    clear_panic(root.places.state_dir)
    return Outcome(accepted=True)
