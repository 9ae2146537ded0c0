"""P1: a call of the echo sidecar at level `enforced`, one at a time, against bare `bwrap`.

Everything is on: trust, policy (a rule of the user), both schemas, the resolving and sealing of the program,
quota, the artifact folder, the sandbox, deadline, bounded output, and the lines of the log. Only `fsync` does
nothing, because it would measure the disk.

The caller in C starts `bwrap` with the words of a call of the kernel, except that it names paths if the
kernel hands over open descriptors, and has them on the command line. The processor time of the kernel's
process, without bwrap and the sidecar, is compared with that of C and its child for a bare `posix_spawn`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

import anyio
from calls import BUILD, CALLS, ENVIRONMENT, ROUNDS, Figures, c_caller, echo_program, measure_calls, row
from common import Row
from kernels import calling, no_sync, root, running

from flycore.registry.paths import RootPaths
from flycore.runners.one_shot import ProcessJsonJob, request_line
from flycore.sandbox import bubblewrap, launch
from flycore.sandbox.confinement import Confinement, SystemLayout

TOOL = "bench.echo"
FILTER, STATUS = 9, 10
"""The descriptors that the caller in C opens."""


def run(size: str) -> list[Row]:
    """Measure both rows; `size` is `quick` or `full`."""
    with tempfile.TemporaryDirectory() as base, no_sync():
        return anyio.run(_rows, *echo_root(Path(base)), size)


async def _rows(places: RootPaths, environ: dict[str, str], size: str) -> list[Row]:
    calls = CALLS[size]
    bwrap = await bare_bwrap(places, environ, calls)
    spawn = c_caller(echo_program(), echo_request(places), calls)
    rounds = [
        (bwrap(1), spawn(1), await measure_kernel(places, environ, calls, 1)) for _ in range(ROUNDS[size])
    ]
    p50 = [(ours.p50, ours.p50 / confined.p50) for confined, _, ours in rounds]
    cpu = [(ours.cpu, ours.cpu / plain.cpu) for _, plain, ours in rounds]
    return [
        row("p50 of a call", "µs", p50, "≤ 1.2 × bwrap", "", most=1.2, goal="P1"),
        row("the kernel's own cpu", "µs", cpu, "≤ 1.5 × posix_spawn", "", most=1.5, goal="P1"),
    ]


async def measure_kernel(
    places: RootPaths, environ: dict[str, str], calls: int, width: int, tool: str = TOOL
) -> Figures:
    """Make the calls through the whole kernel, `width` at once."""
    async with running(places, environ) as kernel:
        return await measure_calls(calling(kernel, tool), calls, width)


def echo_root(base: Path, decision: str = "allow") -> tuple[RootPaths, dict[str, str]]:
    """An app root with a sidecar that is the echo program, and the environment of its kernel."""
    places, environ = root(base, {TOOL: echo_program()}, decision)
    registry = Path(places.app_root) / "tools" / "external.tools.jsonc"
    document = json.loads(registry.read_text())
    document["sidecars"][TOOL]["tools"][0]["inputSchema"]["additionalProperties"] = False
    registry.write_text(json.dumps(document))
    return places, environ


def echo_request(places: RootPaths) -> bytes:
    """The request as the kernel writes it, for the other candidates."""
    job = ProcessJsonJob(
        argv=(str(echo_program()),),
        env=ENVIRONMENT,
        cwd="/",
        call_id="bench",
        tool=TOOL,
        input={"path": "README.md"},
        project_dir=str(places.app_root),
        artifact_dir=str(places.artifacts_dir / "bench"),
    )
    return request_line(job)


async def bare_bwrap(places: RootPaths, environ: dict[str, str], calls: int) -> Callable[[int], Figures]:
    """The caller in C of a bwrap that confines the echo program as the kernel does."""
    words, program = await _command(places, environ)
    BUILD.mkdir(exist_ok=True)
    filter_file = BUILD / "seccomp"
    filter_file.write_bytes(program)
    request = echo_request(places)
    return c_caller(Path(bubblewrap.PROGRAM), request, calls, filter_file=filter_file, words=words)


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
