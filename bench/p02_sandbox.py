"""P2: a call at level `enforced` against the bare `bwrap` with the same arguments, started by C.

The arguments are those of a call of the kernel, except that C names paths where the kernel hands over open
descriptors, and has them on the command line.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from unittest import mock

import anyio
from calls import BUILD, CALLS, ROUNDS, Figures, c_caller, echo_program, measure_calls, row
from common import Row
from kernels import calling, no_sync, running
from p01_kernel import TOOL, echo_job, echo_root

from flycore.model.enums import Level
from flycore.registry.paths import RootPaths
from flycore.runners.one_shot import request_line
from flycore.sandbox import bubblewrap, launch
from flycore.sandbox.confinement import Confinement, SystemLayout
from flycore.sandbox.detection import check_level

NOTE = "the whole kernel, level enforced"
FILTER, STATUS = 9, 10
"""The descriptors that the caller in C opens."""


def run(size: str) -> list[Row]:
    """Measure all rows; `size` is `quick` or `full`."""
    check = check_level(Level.ENFORCED)
    if not check.works:
        return [Row("P2", "a call", 0, "µs", 0, "≤ 1.15 × bwrap", met=False, note=check.reason)]
    with tempfile.TemporaryDirectory() as base, no_sync():
        confined = echo_root(Path(base) / "confined", permissions={})
        return anyio.run(_rows, *confined, size)


async def _rows(places: RootPaths, environ: dict[str, str], size: str) -> list[Row]:
    calls, rounds = CALLS[size], ROUNDS[size]
    ours = partial(_measure, places, environ, calls)
    words, program = await _command(places, environ)
    BUILD.mkdir(exist_ok=True)
    filter_file = BUILD / "seccomp"
    filter_file.write_bytes(program)
    request = request_line(echo_job(echo_program(), places))
    bare = c_caller(Path(bubblewrap.PROGRAM), request, calls, filter_file=filter_file, words=words)
    alone = [(bare(1), await ours(1)) for _ in range(rounds)]
    many = [(bare(8), await ours(8)) for _ in range(rounds)]
    # No row for processor time: bwrap does not wait for its child, so C would not see what that one used.
    p50 = [(kernel.p50, kernel.p50 / c.p50) for c, kernel in alone]
    rates = [(kernel.rate, kernel.rate / c.rate) for c, kernel in many]
    return [
        row("p50 of a call", "µs", p50, "≤ 1.15 × bwrap", NOTE, most=1.15, goal="P2"),
        row("8 in flight", "calls/s", rates, "–", NOTE, goal="P2"),
    ]


async def _measure(places: RootPaths, environ: dict[str, str], calls: int, width: int) -> Figures:
    async with running(places, environ) as kernel:
        return await measure_calls(calling(kernel, TOOL), calls, width)


async def _command(places: RootPaths, environ: dict[str, str]) -> tuple[tuple[str, ...], bytes]:
    """The words of a bwrap that confines as a call of the kernel does, and the filter of system calls."""
    taken: list[tuple[Confinement, SystemLayout, Mapping[str, str]]] = []
    argv: list[tuple[str, ...]] = []
    filters: list[bytes] = []
    arguments = bubblewrap.arguments

    def record_arguments(
        confinement: Confinement,
        layout: SystemLayout,
        environment: Mapping[str, str],
        descriptors: bubblewrap.Descriptors,
        **options: bool,
    ) -> tuple[str, ...]:
        taken.append((confinement, layout, environment))
        return arguments(confinement, layout, environment, descriptors, **options)

    class Recorded(launch.Launch):
        def __init__(self, **fields: object) -> None:
            super().__init__(**fields)  # type: ignore[arg-type]  # the fields of a launch, as they came
            argv.append(self.argv)
            filters.append(self.filter)

    with (
        mock.patch.object(bubblewrap, "arguments", record_arguments),
        mock.patch.object(launch, "Launch", Recorded),
    ):
        async with running(places, environ) as kernel:
            await calling(kernel, TOOL)()
    return _words(*taken[-1], argv[-1][argv[-1].index("--") :]), filters[-1]


def _words(
    confinement: Confinement, layout: SystemLayout, environment: Mapping[str, str], command: tuple[str, ...]
) -> tuple[str, ...]:
    """The words of the bwrap, with a path for each mount."""
    for mount in confinement.mounts:
        if mount.writable:
            Path(mount.path).mkdir(parents=True, exist_ok=True)  # the call's own folder ended with the call
    sources = {str(number): mount.source or mount.path for number, mount in enumerate(confinement.mounts)}
    numbers = {mount.path: number for number, mount in enumerate(confinement.mounts)}
    descriptors = bubblewrap.Descriptors(mounts=numbers, seccomp=FILTER, status=STATUS)
    words = bubblewrap.arguments(confinement, layout, environment, descriptors, bind_by_descriptor=False)
    named = (
        sources[word.removeprefix("/proc/self/fd/")] if word.startswith("/proc/self/fd/") else word
        for word in words
    )
    return (bubblewrap.PROGRAM, *named, *command)
