"""P7: a scan of 200 unchanged executables, against 200 calls of `os.stat`; and 200 questions for a schema,
two at a time, of tools written in C, against a loop that starts the same programs with `posix_spawn`.

The scan is what a running kernel does again and again to notice a file that was dropped or replaced. The
questions are those of a first start, by the runner alone; the sandbox has its own goal, P2.
"""

from __future__ import annotations

import os
import selectors
import shutil
import tempfile
from pathlib import Path

import anyio
from calls import ENVIRONMENT, compiled
from common import Compared, Row, compare

from flycore.discovery.executables import read_executables, watched_executables
from flycore.discovery.tool_schema import read_schema
from flycore.registry.paths import RootPaths, find_paths
from flycore.runners.one_shot import ProcessJsonJob, ask_schema

TOOLS = 200
AT_ONCE = 2
ROUNDS = {"quick": 5, "full": 25}
COLD_ROUNDS = {"quick": 2, "full": 7}
SCHEMA_C = r"""
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static const char schema[] =
        "{\"name\": \"bench\", \"description\": \"A tool.\", \"parameters\": "
        "{\"text\": {\"type\": \"string\", \"description\": \"a text\", \"required\": true}}}\n";
    if (argc < 2 || strcmp(argv[1], "--schema") != 0) return 1;
    return write(1, schema, sizeof schema - 1) == (ssize_t)(sizeof schema - 1) ? 0 : 1;
}
"""


def run(size: str) -> list[Row]:
    """Measure the warm scan, and the cold questions."""
    with tempfile.TemporaryDirectory() as base:
        places, environ, files = _root(Path(base))
        if len(read_executables(places, environ, (), lambda name: False)[0]) != TOOLS:
            raise RuntimeError("the scan does not find the tools")
        _settle(places, environ)
        warm = compare(lambda: watched_executables(places, environ), lambda: _stat(files), ROUNDS[size])
        cold = compare(lambda: anyio.run(_ask_all, files), lambda: _spawn_all(files), COLD_ROUNDS[size])
    return [
        _row(f"warm scan of {TOOLS}", warm, 4.0, "≤ 4 × os.stat"),
        _row(f"{TOOLS} schemas of C tools, {AT_ONCE} at once", cold, 1.25, "≤ 1.25 × posix_spawn"),
    ]


def _row(name: str, figures: Compared, most: float, target: str) -> Row:
    note = f"reference {figures.reference * 1e3:.2f} ms"
    met = figures.ratio <= most
    return Row("P7", name, figures.value * 1e3, "ms", figures.ratio, target, met, note, figures.spread)


def _root(base: Path) -> tuple[RootPaths, dict[str, str], list[str]]:
    """Make a root with the tools in its folder."""
    home, root = base / "home", base / "root"
    folder = root / "tools" / "bin"
    home.mkdir()
    folder.mkdir(parents=True)
    program = compiled("schema", SCHEMA_C)
    for number in range(TOOLS):
        shutil.copy(program, folder / f"tool-{number:03}")
    environ = {"HOME": str(home)}
    files = sorted(str(path) for path in folder.iterdir())
    return find_paths(str(root), None, environ, root), environ, files


def _settle(places: RootPaths, environ: dict[str, str]) -> None:
    """Scan until the files are old enough that one more change would have another time stamp."""
    before = None
    while (found := watched_executables(places, environ)) is not before:
        before = found


def _stat(files: list[str]) -> None:
    for file in files:
        os.stat(file)


async def _ask_all(files: list[str]) -> None:
    """Ask all tools as the kernel does, without the sandbox."""
    left = iter(files)

    async def ask() -> None:
        for file in left:
            job = ProcessJsonJob(
                argv=(file,),
                env=ENVIRONMENT,
                cwd="/",
                call_id="bench",
                tool="bench",
                input={},
                project_dir="/",
            )
            output = await ask_schema(job)
            if output.why_not or not read_schema(output.stdout).tools:
                raise RuntimeError(f"{file} {output.why_not}")

    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(ask)


def _spawn_all(files: list[str]) -> None:
    """Start the same programs, two at a time, read what they print, and wait for them."""
    left = iter(files)
    selector = selectors.DefaultSelector()

    def start() -> None:
        file = next(left, None)
        if file is None:
            return
        reader, writer = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, writer, 1)]
        pid = os.posix_spawn(file, [file, "--schema"], ENVIRONMENT, file_actions=actions)
        os.close(writer)
        selector.register(reader, selectors.EVENT_READ, [pid, b""])

    for _ in range(AT_ONCE):
        start()
    while selector.get_map():
        for key, _ in selector.select():
            data = os.read(key.fd, 65_536)
            key.data[1] += data
            if data:
                continue
            selector.unregister(key.fd)
            os.close(key.fd)
            if os.waitpid(key.data[0], 0)[1] or not key.data[1]:
                raise RuntimeError("a tool failed")
            start()
