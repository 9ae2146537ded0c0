"""Opens the console: the supervisor with the programs of its two processes, which import what they need."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from flytui.supervisor.children import ConsoleEnds, KernelEnds
from flytui.supervisor.supervisor import Programs, supervise


class ConsolePlace(NamedTuple):
    """Where a console opens, as the person said it."""

    root: str | None = None
    workspace: str | None = None
    environ: Mapping[str, str] | None = None
    """The environment of both processes; None for that of this process."""
    title: str = ""
    """The name in the header; empty for the path of the root."""


def open_console(root: str | None, workspace: str | None) -> int:
    """Open the console of that root on this terminal, and return when the person has left."""
    return open_at(ConsolePlace(root, workspace))


def open_at(place: ConsolePlace, companion: Callable[[], int] | None = None) -> int:
    """Open the console of that place, with a program that runs beside its kernel."""

    def enter() -> None:
        if place.environ is not None:
            os.environ.clear()
            os.environ.update(place.environ)

    def console(ends: ConsoleEnds, notice: str) -> int:
        enter()
        from flytui.cli.console_process import run_console_process

        return run_console_process(place, ends, notice)

    def kernel(ends: KernelEnds) -> int:
        enter()
        from flytui.cli.kernel_process import run_kernel_process

        return run_kernel_process(place, ends)

    def state_folder() -> str:
        # Only a report needs the paths of the root, so they are not imported before.
        from pathlib import Path

        from flycore.registry.paths import find_paths

        environ = os.environ if place.environ is None else place.environ
        return str(find_paths(place.root, place.workspace, environ, Path.cwd()).state_dir)

    return supervise(Programs(console, kernel, state_folder, companion))
