"""P7: a scan of 200 unchanged executables, against 200 calls of `os.stat`.

The scan is what a running kernel does again and again to notice a file that was dropped or replaced.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from calls import echo_program
from common import Row, compare

from flycore.discovery.executables import read_executables, watched_executables
from flycore.registry.paths import RootPaths, find_paths

TOOLS = 200
ROUNDS = {"quick": 5, "full": 25}


def run(size: str) -> list[Row]:
    """Measure the scan of files that did not change."""
    with tempfile.TemporaryDirectory() as base:
        places, environ, files = _root(Path(base))
        if len(read_executables(places, environ, (), lambda name: False)[0]) != TOOLS:
            raise RuntimeError("the scan does not find the tools")
        _settle(places, environ)
        warm = compare(lambda: watched_executables(places, environ), lambda: _stat(files), ROUNDS[size])
    note, milliseconds = f"os.stat {warm.reference * 1e3:.2f} ms", warm.value * 1e3
    name, met = f"warm scan of {TOOLS}", warm.ratio <= 4
    return [Row("P7", name, milliseconds, "ms", warm.ratio, "≤ 4 × os.stat", met, note, warm.spread)]


def _root(base: Path) -> tuple[RootPaths, dict[str, str], list[str]]:
    """Make a root with the tools in its folder."""
    home, root = base / "home", base / "root"
    folder = root / "tools" / "bin"
    home.mkdir()
    folder.mkdir(parents=True)
    program = echo_program()
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
