"""The emergency stop of a root without a kernel: a file that stops every kernel until a person removes it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import NamedTuple

import anyio

from flycore.approval.callers import identify_peer
from flycore.audit.events import PANIC, PANIC_RELEASED, panic, panic_released
from flycore.kernel.crash_recovery import earlier_sessions, end_leftover_processes
from flycore.kernel.panic_file import PanicRecord, clear_panic, write_panic
from flycore.kernel.panic_file import read_panic as read_file
from flycore.model.approval import Outcome
from flycore.model.enums import KernelRole
from flycore.model.errors import AuditUnwritable, RootBusy
from flycore.offline.root import LASTING_ROLES, HeldRoot, living_holder, take_root
from flycore.registry.paths import RootPaths
from flysafe.procfs import Process, ancestors, read_process, send_signal

KERNEL_ROLES = (*LASTING_ROLES, KernelRole.PROVISIONAL)
TERM_SECONDS = 2.0
KILL_SECONDS = 10.0


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


async def end_kernel(places: RootPaths) -> bool:
    """End the kernel that holds the root and does not answer, and what it started. Return whether it is gone.

    It gets TERM and two seconds, then KILL. The next kernel starts stopped, because the file was written
    first. Raises OSError if the file cannot be written.
    """
    stop_next_kernel(places)
    holder = living_holder(places)
    process = read_process(holder.pid) if holder is not None and holder.role in KERNEL_ROLES else None
    if process is None:
        return living_holder(places) is None
    if process.pid in (os.getpid(), *ancestors(os.getpid())):
        return False
    if not await _end_process(process):
        return False
    # Its calls ran on without it. A kernel that took the root meanwhile ends them itself, before it starts.
    with suppress(RootBusy), take_root(places, KernelRole.PANIC):
        return (await end_leftover_processes(earlier_sessions(places.state_dir))).still_running == 0
    return True


async def _end_process(process: Process) -> bool:
    """End a process that is not a child of this one; return whether it has ended."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        for number, patience in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
            # CONT as well: a stopped process handles TERM only once it goes on.
            send_signal(process, number, signal.SIGCONT)
            with anyio.move_on_after(patience):
                await anyio.wait_readable(descriptor)
                return True
        return False
    finally:
        os.close(descriptor)


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
