"""Actions on packages in a process of its own, into whose system calls strace brings kills and errors.

A driver has imported everything and forks a process for each action. strace attaches to it before it begins,
so that the calls it counts are those of the action alone.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flycore.model.enums import PackageScope
from flycore.packages.area import PackageArea
from kits.programs import needs

TESTS = Path(__file__).resolve().parents[1]
PATIENCE = 60.0
CHANGING = (
    *("openat", "openat2", "write", "pwrite64", "mkdir", "mkdirat", "rename", "renameat", "renameat2"),
    *("fsync", "fdatasync", "unlink", "unlinkat", "rmdir", "fchmod", "fchmodat", "chmod", "ftruncate"),
    *("link", "linkat"),
)
"""The system calls that can change a file system. A kill between two of them is a kill at the second."""
DRIVER = """
import json, os, sys
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from kits.package_faults import act, area_of
for words in json.loads(sys.argv[2]):
    act(*words)
for line in sys.stdin:
    go_read, go_write = os.pipe()
    said_read, said_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go_write)
        os.read(go_read, 1)
        try:
            said = act(*json.loads(line))
        except BaseException as error:
            said = f"raised {error!r}"
        try:
            os.write(said_write, said.encode())
        finally:
            os._exit(0)
    os.close(said_write)
    print(pid, flush=True)
    sys.stdin.readline()
    os.write(go_write, b"x")
    os.waitpid(pid, 0)
    print(json.dumps(os.read(said_read, 65536).decode()), flush=True)
    for fd in (go_read, go_write, said_read):
        os.close(fd)
"""


def area_of(base: Path) -> PackageArea:
    """Return the area of a copy of a template: everything lies below `base`, the records as well."""
    return PackageArea(
        scope=PackageScope.PROJECT,
        base=base / "root",
        folder="tools/packages",
        registry_anchor=base / "root",
        registry="tools/external.tools.jsonc",
        records=base / "records",
    )


def act(action: str, base: str, source: str) -> str:
    """Carry out one action on the package in shell, and return how it ended: a value of PackageResult, and
    why behind a line break."""
    from flycore.packages import actions

    area = area_of(Path(base))
    if action == "stage":
        end = actions.stage(area, Path(source), 1.0)
    elif action == "apply":
        view = actions.find(area, "greet-shell")
        shown = view.review.digest if view is not None and view.review is not None else ""
        end = actions.apply(area, "greet-shell", shown)
    else:
        end = {"rollback": actions.roll_back, "remove": actions.remove}[action](area, "greet-shell")
    return f"{end.outcome.result.value}\n{end.outcome.message}"


@dataclass
class Driver:
    """The driver's process. Use it in a `with` block."""

    rehearsal: list[list[str]]
    """Actions that it carries out first, so that nothing is imported later."""

    def __enter__(self) -> Driver:
        needs("strace")
        paths = json.dumps([str(TESTS), *sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, paths, json.dumps(self.rehearsal)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError):
            self._process.communicate(timeout=PATIENCE)

    def calls(self, words: list[str], log: Path) -> dict[str, int]:
        """Carry out an action, and return how often it made each system call of CHANGING."""
        self.run(words, "", log)
        found: dict[str, int] = {}
        for line in log.read_text(errors="replace").splitlines():
            match = re.match(r"(?:\d+ +)?([a-z0-9_]+)\(", line)
            if match:
                found[match[1]] = found.get(match[1], 0) + 1
        return found

    def run(self, words: list[str], inject: str, log: Path) -> str:
        """Carry out an action with a fault, in strace's words; return how it ended, or an empty text where
        it was killed."""
        self._say(json.dumps(words))
        pid = int(self._line())
        faults = ["-e", f"inject={inject}"] if inject else []
        strace = subprocess.Popen(
            ["strace", "-p", str(pid), "-o", str(log), "-e", f"trace={','.join(CHANGING)}", *faults],
            stderr=subprocess.PIPE,
        )
        assert strace.stderr is not None
        ready, _, _ = select.select([strace.stderr], [], [], PATIENCE)
        line = strace.stderr.readline() if ready else b""
        assert b"attached" in line, line
        self._say("go")
        said: Any = json.loads(self._line())
        strace.communicate(timeout=PATIENCE)
        return str(said)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the driver has ended"
        return line
