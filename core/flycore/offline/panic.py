"""The emergency stop of a root without a kernel: a file that stops every kernel until a person removes it."""

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
    """The result of stopping everything."""

    already: bool
    """Whether everything was already stopped."""
    unrecorded: str = ""
    """Why the log did not take the line; empty if it did."""


def read_panic(places: RootPaths) -> PanicRecord | None:
    """Read since when the root is stopped, and by whom; None if it is not.

    A file that cannot be read counts as stopped.
    """
    return read_file(places.state_dir)


def stop_everything(root: HeldRoot) -> StopResult:
    """Stop the root. Raises OSError if the file cannot be written."""
    if read_panic(root.places) is not None:
        return StopResult(already=True)
    by = stop_next_kernel(root.places)
    # After the file: when the log cannot be written, everything is stopped all the same.
    try:
        root.record(PANIC, panic(by, calls=0, requests=0, leases=0))
    except AuditUnwritable as error:
        return StopResult(already=False, unrecorded=error.cause)
    return StopResult(already=False)


def stop_next_kernel(places: RootPaths) -> str:
    """Write the file while another process holds the root and does not answer.

    Calls of that process go on; a kernel that starts later takes none. Return the `by` of the file. Raises
    OSError.
    """
    by = str(identify_peer(os.getpid(), "cli"))
    write_panic(places.state_dir, PanicRecord(at=time.time(), by=by))
    return by


def release_everything(root: HeldRoot, shown: PanicRecord) -> Outcome:
    """Let calls run again, if the file is still the one the person was shown.

    Raises AuditUnwritable or OSError; then everything stays stopped.
    """
    if read_panic(root.places) != shown:
        return Outcome(accepted=False, why_not="everything was stopped again in the meantime")
    # Before the file goes: a release that the log does not have must not happen.
    root.record(PANIC_RELEASED, panic_released("flytui panic --release"))
    clear_panic(root.places.state_dir)
    return Outcome(accepted=True)
