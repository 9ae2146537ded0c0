"""Holding an app root for a command that changes its files by itself, while no kernel for good runs there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flycore.client.socket import SocketClient
    from flycore.kernel.lock import Holder
    from flycore.model.errors import RootBusy
    from flycore.registry.places import Places

LONGEST_WAIT_SECONDS = 30.0
"""For the calls of a provisional kernel that has been asked to yield."""
LONGEST_COMMAND_SECONDS = 5.0
"""For another command to end."""
SAID_AFTER_SECONDS = 1.0
LOOK_AGAIN_SECONDS = 0.1


@contextmanager
def held_root(places: Places, role: str) -> Iterator[Holder]:
    """Hold the root while the block runs.

    A provisional kernel, as `flytui mcp` and `flytui call` have one, is asked to yield as by a console; its
    clients find the next kernel when the block has ended. Raises RootBusy where a console or `flytui serve`
    holds the root, and where another has not left it after LONGEST_WAIT_SECONDS, or is a command and has not
    after LONGEST_COMMAND_SECONDS.
    """
    from flycore.kernel.lock import next_in_line

    with ExitStack() as stack:
        with next_in_line(places):
            holder = _taken(places, role, stack)
        yield holder


def _taken(places: Places, role: str, stack: ExitStack) -> Holder:
    from flycore.kernel.lock import FOR_GOOD, RootLock
    from flycore.model.enums import KernelRole
    from flycore.model.errors import OtherVersion, ProtocolError, RootBusy
    from flytui.cli.reading import ask_running

    began, said = time.monotonic(), False
    while True:
        try:
            return stack.enter_context(RootLock.acquire(places, KernelRole(role)))
        except RootBusy as busy:
            waited = time.monotonic() - began
            provisional = busy.role == KernelRole.PROVISIONAL
            longest = LONGEST_WAIT_SECONDS if provisional else LONGEST_COMMAND_SECONDS
            if busy.role in FOR_GOOD or waited >= longest:
                raise
            if waited >= SAID_AFTER_SECONDS and not said:
                said = _say_who(busy)
        with suppress(ProtocolError, OtherVersion):  # who does not understand it is waited for all the same
            ask_running(places, _yield)
        time.sleep(LOOK_AGAIN_SECONDS)


async def _yield(client: SocketClient) -> bool:
    await client.ask_for("kernel.yield")
    return True


def _say_who(busy: RootBusy) -> bool:
    from flytui.cli.output import note

    note(f"waits until pid {busy.pid} ({busy.role}) has ended what it runs" if busy.pid else "waits")
    return True
