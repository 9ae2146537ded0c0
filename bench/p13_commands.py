"""P13: any command beside a running kernel, from exec to exit, against an interpreter that does nothing.

`flytui call` of a warm tool that answers at once, with the tool's own time taken off; `flytui hook` with a
command that only reads; and one of each kind of the others. A forked process does the work, so the processor
time in the note is that of the stub alone.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import anyio
from common import Row, spread
from kernels import PATIENCE_S, no_sync, root, running
from p04_staying import PROGRAM

from flycore.registry.paths import RootPaths
from flytui.forked.address import forker_socket

TOOL = "bench.stays"
ROUNDS = {"quick": 5, "full": 31}
BARE = (sys.executable, "-I", "-c", "pass")
FLYTUI = (str(Path(sys.executable).parent / "flytui"),)
SERVE = "import os\nos.fsync = lambda descriptor: None\nfrom flytui.cli.main import main\nmain()\n"
COMMANDS = {
    "flytui hook, a command that only reads": ("hook", "claude-code"),
    "flytui call": ("call", TOOL, '{"path": "README.md"}', "--json"),
    "flytui call, key=value": ("call", TOOL, "path=README.md", "--json"),
    "flytui status": ("status",),
    "flytui status --json": ("status", "--json"),
    "flytui catalog": ("catalog",),
    "flytui catalog --json": ("catalog", "--json"),
    "flytui why": ("why", TOOL),
    "flytui why --json": ("why", TOOL, "--json"),
    "flytui --help": ("--help",),
    "flytui call --help": ("call", "--help"),
    "flytui activity": ("activity",),
    "flytui approvals": ("approvals",),
    "flytui audit tail": ("audit", "tail"),
    "flytui config show": ("config", "show"),
    "flytui doctor": ("doctor",),
    "flytui grants": ("grants",),
    "flytui inspect": ("inspect", TOOL),
    "flytui lint": ("lint",),
    "flytui metrics": ("metrics",),
    "flytui policy check": ("policy", "check"),
    "flytui tools list": ("tools", "list"),
    "flytui trust --print-digest": ("trust", "--print-digest"),
}
COMPLETIONS = {
    "a completion": {"COMP_WORDS": "flytui cal", "COMP_CWORD": "1"},
    "a completion of a tool's name": {"COMP_WORDS": "flytui call be", "COMP_CWORD": "2"},
}


def run(size: str) -> list[Row]:
    """Measure all rows; `size` is `quick` or `full`."""
    with tempfile.TemporaryDirectory() as base, no_sync():
        places, environ = root(Path(base), {TOOL: program(Path(base))}, kind="process-json-persistent")
        anyio.run(trust, places, environ)
        event = Path(base) / "event.json"
        event.write_text(json.dumps(_event(places)))
        commands = Commands(places, environ, event)
        with _served(places, environ):
            commands.run((*FLYTUI, "status"))  # in its own process, which starts the forker
            await_forker(environ)
            return _rows(commands, {**COMMANDS, **dict.fromkeys(COMPLETIONS, ())}, ROUNDS[size])


def await_forker(environ: dict[str, str]) -> None:
    """Wait until the forker serves."""
    path, until = forker_socket(environ), time.monotonic() + PATIENCE_S
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as tried:
            if tried.connect_ex(path) == 0:
                return
        if time.monotonic() > until:
            raise RuntimeError("no forker serves")
        time.sleep(0.01)


async def trust(places: RootPaths, environ: dict[str, str]) -> None:
    """Trust everything in the root, with a kernel that ends at once."""
    async with running(places, environ):
        pass


def program(base: Path) -> Path:
    """Write the program that stays and answers at once, and return its path."""
    path = base / "stays.py"
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    return path


def _event(places: RootPaths) -> dict[str, object]:
    return {
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "cwd": str(places.app_root),
    }


@contextmanager
def _served(places: RootPaths, environ: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, "--root", str(places.app_root), "serve"],
        env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        if not process.stdout.readline():
            raise RuntimeError("the kernel did not start")
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        process.stdout.close()


class Commands:
    """Runs commands on the root, each as a process of its own."""

    def __init__(self, places: RootPaths, environ: dict[str, str], event: Path) -> None:
        self._places, self._environ, self._event = places, environ, event

    def run(self, argv: tuple[str, ...], environ: dict[str, str] | None = None) -> tuple[float, float]:
        """Run it, and return its wall time and its processor time in seconds, without the tool's own time."""
        with self._event.open("rb") as event:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            begun = time.perf_counter()
            done = subprocess.run(
                argv, env={**self._environ, **(environ or {})}, cwd=self._places.app_root, stdin=event,
                capture_output=True, check=False,
            )  # fmt: skip
            wall = time.perf_counter() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if done.returncode:
            raise RuntimeError(f"{argv}: {done.stdout.decode()}{done.stderr.decode()}")
        own = json.loads(done.stdout)["durationMs"] / 1000 if {"call", TOOL} <= set(argv) else 0.0
        return wall - own, cpu


def _rows(commands: Commands, measured: dict[str, tuple[str, ...]], rounds: int) -> list[Row]:
    figures: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in measured}
    for round_ in range(rounds + 1):  # the first one warms up
        for name, words in measured.items():
            completing = COMPLETIONS.get(name)
            environ = None if completing is None else {"_FLYTUI_COMPLETE": "bash_complete", **completing}
            bare = commands.run(BARE)
            ran = commands.run((*FLYTUI, *words), environ)
            if round_:
                figures[name].append((*ran, ran[0] / bare[0], ran[1] / bare[1]))
    return [_row(name, found) for name, found in figures.items()]


def _row(name: str, figures: list[tuple[float, float, float, float]]) -> Row:
    walls, _, ratios, cpu_ratios = zip(*figures, strict=True)
    most = 4.0 if name.startswith("flytui hook") else 5.0
    return Row(
        goal="P13",
        name=name,
        value=median(walls) * 1000,
        unit="ms",
        ratio=median(ratios),
        target=f"≤ {most:.0f} × a bare interpreter",
        met=median(ratios) <= most,
        note=f"processor time {median(cpu_ratios):.1f} ×; {os.getloadavg()[0]:.0f} processes ready",
        spread=spread(ratios),
    )
