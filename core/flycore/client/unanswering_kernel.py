"""The emergency stop of a root whose kernel does not answer: its process is ended, and the next kernel
starts stopped."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import anyio

from flycore.approval.callers import identify_peer
from flycore.kernel.crash_recovery import earlier_sessions, end_leftover_processes
from flycore.kernel.lock import RootLock
from flycore.kernel.lock import living_holder as living_holder
from flycore.kernel.panic_file import PanicRecord, write_panic
from flycore.kernel.panic_file import read_panic as read_panic
from flycore.model.enums import KernelRole
from flycore.model.errors import RootBusy
from flycore.registry.paths import RootPaths
from flysafe.command_process import command_pid
from flysafe.procfs import Process, ancestors, read_process, send_signal

TERM_SECONDS = 2.0
KILL_SECONDS = 10.0


def stop_next_kernel(places: RootPaths) -> str:
    """Write the file while another process holds the root and does not answer.

    Calls of that process go on; a kernel that starts later takes none. Return the `by` of the file. Raises
    OSError.
    """
    by = str(identify_peer(command_pid(), "cli"))
    write_panic(places.state_dir, PanicRecord(at=time.time(), by=by))
    return by


async def end_kernel(places: RootPaths) -> bool:
    """End the kernel that holds the root and does not answer, and what it started. Return whether it is gone.

    It gets TERM and two seconds, then KILL. The next kernel starts stopped, because the file was written
    first. Raises OSError if the file cannot be written.
    """
    stop_next_kernel(places)
    holder = living_holder(places)
    process = read_process(holder.pid) if holder is not None else None
    if process is None:
        return living_holder(places) is None
    if process.pid in (command_pid(), *ancestors(command_pid())):
        return False
    if not await _end_process(process):
        return False
    # Its calls ran on without it. A kernel that took the root meanwhile ends them itself, before it starts.
    with suppress(RootBusy), RootLock.acquire(places, KernelRole.HEADLESS):
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
