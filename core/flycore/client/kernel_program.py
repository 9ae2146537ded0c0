"""The program of a kernel on demand. It owns the root, decides nothing, and leaves when nobody uses it.

It reads a `StartOrder` from its standard input and writes a `StartReport` to its standard output. Then it has
neither: no program that reads the output of a command waits for the kernel.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flycore.client.kernel_start import StartOrder, StartReport
    from flycore.registry.paths import RootPaths

LOG_FILE = "kernel.log"
"""File of the state folder for the traceback of a kernel that ended by a defect."""
FAILED = 70
PRIVATE = 0o600


def main() -> int:
    """Run the kernel and return the exit status."""
    written = sys.stdin.buffer.read()
    reports = Reports(os.dup(1))
    # The command waits only for this process. Its child has no parent, so that whoever ends the command with
    # its children does not end the kernel.
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    import gc

    gc.disable()  # nothing that is imported before the kernel is open is garbage
    import msgspec

    from flycore.client.kernel_start import StartOrder

    order = msgspec.msgpack.decode(written, type=StartOrder)
    try:
        _run(order, reports)
    except Exception:  # noqa: BLE001 - the edge of the process: nobody reads its standard error
        _write_log(order.places)
        return FAILED
    return 0


def _run(order: StartOrder, reports: Reports) -> None:
    """Serve until nobody uses the kernel, a console wants the root, or a signal comes."""
    import anyio

    from flycore.client.kernel_start import StartReport
    from flycore.model.errors import FlyError, RootBusy, single_exception

    try:
        with single_exception():
            anyio.run(_serve, order, reports)
    except RootBusy:
        reports.send(StartReport())
    except FlyError as error:
        if not reports.send(StartReport(failed=str(error))):
            raise
    except OSError as error:
        sentence = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        if not reports.send(StartReport(failed=sentence)):
            raise


async def _serve(order: StartOrder, reports: Reports) -> None:
    import gc
    import signal

    import anyio

    from flycore.client.kernel_start import StartReport
    from flycore.client.serve import open_served_kernel

    async with anyio.create_task_group() as group:

        async def end_on_signal() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
                async for _ in signals:
                    group.cancel_scope.cancel()

        group.start_soon(end_on_signal)
        async with open_served_kernel(order.places, on_demand=True, variables=order.environ) as kernel:
            gc.enable()
            reports.send(StartReport(ready=True))

            async def leave_when_unused() -> None:
                await kernel.wait_until_unused()
                kernel.yield_root()

            group.start_soon(leave_when_unused)
            await kernel.yielded.wait()
            await kernel.wait_until_idle()
        group.cancel_scope.cancel()


class Reports:
    """The way to the command that waits for the kernel. It takes one report."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, report: StartReport) -> bool:
        """Send the report, and return whether it is the first one."""
        import msgspec

        descriptor, self._descriptor = self._descriptor, -1
        # Once it is closed, its number may be that of another file, such as the audit log.
        if descriptor < 0:
            return False
        with suppress(OSError):  # the command may be gone
            os.write(descriptor, msgspec.json.encode(report))
        os.close(descriptor)
        return True


def _write_log(places: RootPaths) -> None:
    import traceback

    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with suppress(OSError):
        log = os.open(places.state_dir / LOG_FILE, flags, PRIVATE)
        with os.fdopen(log, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(traceback.format_exc())


if __name__ == "__main__":
    sys.exit(main())
