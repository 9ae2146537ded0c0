"""The lock of an app root for a command, which permits it to append to the audit log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import msgspec

from flycore.audit.log import AuditLog
from flycore.kernel.lock import LASTING_ROLES as LASTING_ROLES
from flycore.kernel.lock import RootLock, reserve_for_console
from flycore.kernel.lock import kernel_socket as kernel_socket
from flycore.kernel.lock import living_holder as living_holder
from flycore.model.enums import KernelRole
from flycore.model.errors import RootBusy
from flycore.model.json import JsonObject
from flycore.offline.audit_log import anchor_file, audit_folder
from flycore.registry.paths import RootPaths

LONGEST_WAIT_SECONDS = 30.0
"""The longest wait for a provisional kernel that was asked to yield, so that its calls can end."""
LONGEST_COMMAND_SECONDS = 5.0
"""The longest wait for another command to end."""
REPORT_AFTER_SECONDS = 1.0
"""The wait after which the person gets a message."""
RETRY_SECONDS = 0.1


class HeldRoot(msgspec.Struct, frozen=True):
    """An app root whose lock this process holds. Only `hold_root` and `take_root` make one."""

    places: RootPaths

    def record(self, event: str, fields: JsonObject) -> None:
        """Append one line to the audit log and sync it to disk. Raises AuditUnwritable."""
        # Opened for one line: the log recovers and locks as in a kernel, and is free again for the next one.
        log = AuditLog.open(
            audit_folder(self.places), anchor_file(self.places), clock=time.time, monotonic=time.monotonic
        )
        try:
            log.append(event, fields, sync=True)
        finally:
            log.close()


@contextmanager
def take_root(places: RootPaths, role: KernelRole) -> Iterator[HeldRoot]:
    """Hold the root while the block runs. Raises RootBusy at once if another process holds it."""
    with RootLock.acquire(places, role):
        yield HeldRoot(places)


@contextmanager
def hold_root(
    places: RootPaths,
    role: KernelRole,
    *,
    ask_to_yield: Callable[[], None],
    on_wait: Callable[[RootBusy], None],
) -> Iterator[HeldRoot]:
    """Wait until a provisional kernel or another command has left the root, and hold it while the block runs.

    `ask_to_yield` asks a provisional kernel to leave, as a console does; its clients find the next kernel
    when the block has ended. `on_wait` is called once, after REPORT_AFTER_SECONDS. Raises RootBusy at once if
    a console or `flytui serve` holds the root, else after LONGEST_WAIT_SECONDS for a provisional kernel and
    LONGEST_COMMAND_SECONDS for a command.
    """
    # The reservation ends with the wait, not with the block: it only keeps new provisional kernels out while
    # this process tries to lock the root.
    with ExitStack() as stack:
        with reserve_for_console(places):
            root = _wait_for_root(places, role, stack, ask_to_yield, on_wait)
        yield root


def _wait_for_root(
    places: RootPaths,
    role: KernelRole,
    stack: ExitStack,
    ask_to_yield: Callable[[], None],
    on_wait: Callable[[RootBusy], None],
) -> HeldRoot:
    began, reported = time.monotonic(), False
    while True:
        try:
            return stack.enter_context(take_root(places, role))
        except RootBusy as busy:
            waited = time.monotonic() - began
            longest = LONGEST_WAIT_SECONDS if busy.role is KernelRole.PROVISIONAL else LONGEST_COMMAND_SECONDS
            if busy.role in LASTING_ROLES or waited >= longest:
                raise
            if waited >= REPORT_AFTER_SECONDS and not reported:
                on_wait(busy)
                reported = True
        ask_to_yield()  # each time: the root may have gone to another provisional kernel meanwhile
        time.sleep(RETRY_SECONDS)
