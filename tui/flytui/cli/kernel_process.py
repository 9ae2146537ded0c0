"""The kernel's process beside a console: what `flytui serve` runs, for as long as its supervisor wants it."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from flycore.model.enums import KernelRole
from flycore.model.errors import RootBusy
from flycore.registry.paths import RootPaths, find_paths
from flytui.cli.commands.serve import show_codes
from flytui.cli.interrupts import SignalInterrupt, run_async
from flytui.cli.root_command import explain
from flytui.cli.serve_log import open_serve_log
from flytui.supervisor.children import CRASHED, END_CALLS, SERVE, KernelEnds
from flytui.supervisor.crash_report import KERNEL_REPORT, report_text, traceback_text, write_report
from flytui.supervisor.programs import ConsolePlace

if TYPE_CHECKING:
    from flycore.kernel.kernel import Kernel


def run_kernel_process(place: ConsolePlace, ends: KernelEnds) -> int:
    """Run the kernel until the supervisor, or a signal, ends it. Return the exit status of the process."""
    # Nothing that is imported before the kernel is open is garbage.
    gc.disable()
    places = find_paths(place.root, place.workspace, os.environ, Path.cwd())
    process = KernelProcess(places, ends)
    try:
        return explain(process.run, process.report_failure)
    except Exception as error:  # noqa: BLE001 - the edge of the process: the supervisor starts the next kernel
        text = report_text("The kernel of flytui died of a defect", traceback_text(error))
        process.report(f"report {write_report(str(places.state_dir), KERNEL_REPORT, text)}")
        return CRASHED


class KernelProcess:
    """A kernel, the orders of its supervisor, and the reports to it."""

    def __init__(self, places: RootPaths, ends: KernelEnds) -> None:
        self._places = places
        self._ends = ends
        self._ends_calls = False
        """Whether the person wants the calls ended of the kernel that has the root."""
        self._serves = False
        """Whether the kernel goes on without its supervisor."""

    def report(self, line: str) -> None:
        """Send a line to the supervisor."""
        with suppress(OSError):
            os.write(self._ends.reports, line.encode("utf-8", "replace").replace(b"\n", b" ") + b"\n")

    def report_failure(self, sentence: str, code: int) -> int:
        """Report why no kernel can run here, and return the exit status of the whole command."""
        self.report(f"failed {code} {sentence}")
        return code

    def run(self) -> int:
        """Run the kernel to its end. Raises what opening it raises, but RootBusy is reported."""
        try:
            run_async(self._run)
        except RootBusy as busy:
            self.report(f"busy {busy.pid} {busy.since} {busy.role}")
        except SignalInterrupt:
            self.report("left")
            raise
        return 0

    async def _run(self) -> None:
        # The kernel, which only this process and `flytui serve` import.
        from flycore.client.serve import open_served_kernel

        def on_wait(pid: int, since: float, role: str, calls: str) -> None:
            self.report(f"waiting {pid} {since} {role} {calls}")

        left_alone = anyio.Event()
        async with anyio.create_task_group() as group:

            async def follow() -> None:
                while order := await self._order():
                    if END_CALLS in order.split():
                        self._ends_calls = True
                    if SERVE in order.split():
                        left_alone.set()
                if not self._serves:
                    group.cancel_scope.cancel()

            group.start_soon(follow)
            opening = open_served_kernel(
                self._places,
                on_wait=on_wait,
                end_calls=lambda: self._ends_calls,
                role=KernelRole.CONSOLE,
                consoles=self._ends.consoles,
            )
            async with opening as kernel:
                gc.enable()  # what was imported and built was frozen once the kernel was open
                self.report("ready")
                await left_alone.wait()
                await self._serve(kernel)

    async def _order(self) -> str:
        """Wait for the next line of the supervisor; empty when it wants the kernel to end, or is gone."""
        await anyio.wait_readable(self._ends.orders)
        return os.read(self._ends.orders, 4096).decode("ascii", "replace").strip()

    async def _serve(self, kernel: Kernel) -> None:
        """Go on as `flytui serve`, until a signal ends it. The codes of consoles that ask go into the log."""
        with open_serve_log(self._places) as write:
            kernel.serve_alone()
            self._serves = True
            self.report("serving")
            await show_codes(kernel, write)
