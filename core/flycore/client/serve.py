"""Opens the kernel of a root in this process and serves it on its socket."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

from flycore.client.client import POLL_SECONDS, connect_root
from flycore.kernel.compose import open_kernel
from flycore.kernel.kernel import Kernel
from flycore.kernel.lock import LockHolder, RootLock, read_holder, reserve_for_console
from flycore.model.enums import KernelRole
from flycore.model.errors import (
    ConnectionLost,
    KernelUnreachable,
    OtherVersion,
    ProtocolError,
    RootBusy,
    single_exception,
)
from flycore.registry.paths import RootPaths
from flycore.server.handed_over import ConsoleListener
from flycore.server.unix import serve_unix
from flysafe.own_process import raise_descriptor_limit
from flysafe.process_memory import return_large_blocks

ASK_SECONDS = 0.8
"""How long a kernel may take to hear that it is to yield the root. It is asked again each second."""
SWITCH_SECONDS = 0.001
"""How long a worker thread may keep the interpreter while the event loop waits for it; Python's own value is
five times as much."""
WaitCallback = Callable[[int, float, str, str], None]
"""Called again and again with the pid, the start (Unix time) and the role of the kernel that holds the root,
and with the names of the tools that it still runs, separated by commas.

The pid is 0 if the holder is not known."""


@asynccontextmanager
async def open_served_kernel(
    places: RootPaths,
    *,
    on_wait: WaitCallback = lambda pid, since, role, calls: None,
    end_calls: Callable[[], bool] = lambda: False,
    role: KernelRole = KernelRole.HEADLESS,
    on_demand: bool = False,
    variables: Mapping[str, str] | None = None,
    consoles: socket.socket | None = None,
) -> AsyncIterator[Kernel]:
    """Open the kernel of `flytui serve`; or, with the role CONSOLE, the one beside a console. Consoles come
    through `consoles`, a connection from its supervisor that this block closes. `variables` are those of the
    command that started a kernel on demand, which are not in the environment of this process.

    Waits for the last call of a kernel on demand that holds the root, and ends its calls once `end_calls`
    returns True; such a kernel itself does not wait.
    Raises RootBusy if another kernel holds the root.
    """
    raise_descriptor_limit()
    with single_exception():
        async with AsyncExitStack() as stack:
            # A turn of the event loop gives up the interpreter at each system call, and asks for it again.
            stack.callback(sys.setswitchinterval, sys.getswitchinterval())
            sys.setswitchinterval(SWITCH_SECONDS)
            listener = None
            if consoles is not None:
                listener = stack.enter_context(ConsoleListener(fileno=consoles.detach()))
            if on_demand:
                holder = stack.enter_context(RootLock.acquire(places, role, on_demand=True))
            else:
                # While this is reserved no kernel on demand starts, so that the wait has an end.
                with reserve_for_console(places):
                    holder = await _take_root(places, role, stack, on_wait, end_calls)
            return_large_blocks()  # each console gets the whole catalog in one message
            kernel = await stack.enter_async_context(open_kernel(places, holder, declared=variables))
            await stack.enter_async_context(serve_unix(kernel, places.socket, listener))
            # Modules and the first state stay: no later collection looks through them, which holds up the
            # event loop for 50 ms each time.
            gc.freeze()
            stack.callback(gc.unfreeze)
            yield kernel


async def _take_root(
    places: RootPaths,
    role: KernelRole,
    stack: AsyncExitStack,
    on_wait: WaitCallback,
    end_calls: Callable[[], bool],
) -> LockHolder:
    """Take the lock of the root until `stack` closes, as soon as a kernel on demand released it."""
    tries = 0
    while True:
        try:
            return stack.enter_context(RootLock.acquire(places, role))
        except RootBusy as busy:
            if busy.role is not KernelRole.UNKNOWN and not busy.on_demand:
                raise
            # A holder that hangs would take much longer, and the person is told within a second for whom
            # they wait.
            calls = ""
            with anyio.move_on_after(ASK_SECONDS):
                calls = await _ask_to_yield(places, end=end_calls())
            # A holder that has just locked the root has no record yet, so only a second look without one
            # means that the holder is not known.
            if busy.pid or tries:
                on_wait(busy.pid, busy.since, busy.role, calls)
            tries += 1
            await _wait_for_release(places, 1.0)


async def _ask_to_yield(places: RootPaths, *, end: bool) -> str:
    """Ask the kernel to give way, and with `end` to end its calls. Return the tools that it still runs."""
    try:
        async with connect_root(places, viewer=True) as client:
            await client.ask_for("kernel.yield")
            running = [call for call in await client.activity() if call.result is None]
            for call in running if end else ():
                await client.cancel(call.call_id)
            return ", ".join(call.tool for call in running)
    except (KernelUnreachable, ConnectionLost, ProtocolError, OtherVersion):
        return ""


async def _wait_for_release(places: RootPaths, seconds: float) -> None:
    """Wait until no process is recorded as holder of the root, for at most that many seconds."""
    # The first pause comes before the first look, so that the loop of the caller never spins.
    for _ in range(round(seconds / POLL_SECONDS)):
        await anyio.sleep(POLL_SECONDS)
        if read_holder(places) is None:
            return
