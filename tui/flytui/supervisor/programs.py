"""Opens the console: the supervisor with the programs of its processes, which import what they need."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from flytui.supervisor.children import ConsoleEnds, KernelEnds
from flytui.supervisor.supervisor import KernelProgram, Programs, supervise


class ConsolePlace(NamedTuple):
    """Where a console opens one of its roots, as the person said it."""

    root: str | None = None
    workspace: str | None = None
    environ: Mapping[str, str] | None = None
    """The environment of console and kernel; None for that of this process."""
    title: str = ""
    """The name in the header; empty for the path of the root."""


def open_console(roots: Sequence[str], workspace: str | None) -> int:
    """Open the console of these roots on this terminal, and return when the person has left. Without a root
    it is that of the current folder."""
    return open_at([ConsolePlace(root, workspace) for root in roots] or [ConsolePlace(None, workspace)])


def open_at(places: Sequence[ConsolePlace], companion: Callable[[], int] | None = None) -> int:
    """Open the console of these places, with a program that runs beside the first kernel. All places have the
    same environment."""
    environ = places[0].environ

    def enter() -> None:
        if environ is not None:
            os.environ.clear()
            os.environ.update(environ)

    def console(ends: ConsoleEnds, notice: str) -> int:
        enter()
        from flytui.cli.console_process import run_console_process

        return run_console_process(places, ends, notice)

    def kernel_of(place: ConsolePlace) -> KernelProgram:
        def kernel(ends: KernelEnds) -> int:
            enter()
            from flytui.cli.kernel_process import run_kernel_process

            return run_kernel_process(place, ends)

        def state_folder() -> str:
            # Only a report needs the paths of the root, so they are not imported before.
            from pathlib import Path

            from flycore.registry.paths import find_paths

            found = os.environ if environ is None else environ
            return str(find_paths(place.root, place.workspace, found, Path.cwd()).state_dir)

        return KernelProgram(kernel, state_folder)

    return supervise(Programs(console, tuple(map(kernel_of, places)), companion))
