"""P9: the console on projects of 100 and of 1,000 tools, in a pseudo-terminal, as a person sees it.

It measures the time from exec to usable rows, which are those that the last kernel kept, against a minimal
Textual application; the time until the kernel has confirmed them; and the time from a key to the frame that
answers it with 1,000 tools, against the same console on 100.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from common import Row, spread

ROUNDS = {"quick": 2, "full": 7}
KEYS = {"quick": 10, "full": 60}
PATIENCE_S = 30.0
SMALL, LARGE = 100, 1_000
MOST_START, MOST_KEY = 1.7, 1.2
EACH = 100
"""Tools of one sidecar."""
MINIMAL = """
from textual.app import App
from textual.widgets import Static
class Minimal(App):
    def compose(self):
        yield Static("READY")
Minimal().run()
"""
DOWN, SLASH, BACKSPACE, ESCAPE = b"\x1b[B", b"/", b"\x7f", b"\x1b"
CURSOR = "▌".encode()
"""Drawn at the row under the cursor: a frame in which it moved holds it."""
WORD = b"tool0"


class Terminal:
    """A program in a pseudo-terminal of 120 by 40 cells."""

    def __init__(self, argv: list[str], environ: dict[str, str]) -> None:
        self.leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        """The end of the terminal that draws and types."""
        self.begun = time.perf_counter()
        self._process = subprocess.Popen(
            argv, env=environ, stdin=follower, stdout=follower, stderr=follower, start_new_session=True
        )
        os.close(follower)

    def until(self, *texts: bytes) -> float:
        """The seconds from the last `send`, or the start, until the screen received one of these texts."""
        seen = b""
        while not any(text in seen for text in texts):
            ready, _, _ = select.select([self.leader], [], [], PATIENCE_S)
            if not ready:
                raise RuntimeError(f"never drawn: {texts!r}; last {seen[-400:]!r}")
            seen += os.read(self.leader, 1 << 16)
        return time.perf_counter() - self.begun

    def send(self, keys: bytes) -> None:
        """Press keys."""
        self.begun = time.perf_counter()
        os.write(self.leader, keys)

    def settle(self, quiet: float = 0.2) -> None:
        """Read until no output came for that time, which must be below a second: ages are redrawn then."""
        while select.select([self.leader], [], [], quiet)[0]:
            os.read(self.leader, 1 << 16)

    @property
    def pid(self) -> int:
        """The program's process."""
        return self._process.pid

    def end(self) -> None:
        """Kill the program, and wait until its descendants have ended by themselves."""
        processes = list(process_tree(self._process.pid))
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self.leader)
        until = time.monotonic() + PATIENCE_S
        while any(map(_runs, processes[1:])) and time.monotonic() < until:
            time.sleep(0.01)


def process_tree(pid: int) -> Iterator[int]:
    """The process and all its descendants: of a console what draws, the kernel, and their helpers."""
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            yield from process_tree(int(child))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def run(size: str) -> list[Row]:
    """Measure the ratios of the goals."""
    with project(LARGE) as large, project(SMALL) as small:
        for environ in (large, small):
            _keep(environ)
        starts: dict[int, list[tuple[float, float, float]]] = {SMALL: [], LARGE: []}
        for _ in range(ROUNDS[size]):
            starts[SMALL].append(_starts(small))
            starts[LARGE].append(_starts(large))
        large_keys: list[tuple[float, float]] = []
        small_keys: list[tuple[float, float]] = []
        with _settled(large) as many, _settled(small) as few:
            for _ in range(KEYS[size]):
                large_keys.append(_keys(many))
                small_keys.append(_keys(few))
    rows = [_start_row(tools, found) for tools, found in starts.items()]
    for at, name in enumerate(("key to frame", "filter key to frame")):
        many_s, few_s = median([pair[at] for pair in large_keys]), median([pair[at] for pair in small_keys])
        ratio, title, target = many_s / few_s, f"{name}, {LARGE:,} tools", f"≤ {MOST_KEY} × {SMALL} tools"
        note = f"{SMALL} tools {few_s * 1e3:.1f} ms"
        rows.append(Row("P9", title, many_s * 1e3, "ms", ratio, target, ratio <= MOST_KEY, note))
    return rows


def _start_row(tools: int, found: list[tuple[float, float, float]]) -> Row:
    minimal, usable, confirmed = (median(column) for column in zip(*found, strict=True))
    ratios = [drawn / bare for bare, drawn, _ in found]
    note = f"minimal Textual app {minimal * 1e3:.0f} ms; confirmed {confirmed / minimal:.2f} ×"
    ratio = median(ratios)
    name, goal = f"exec to usable rows, {tools:,} tools", f"≤ {MOST_START} × a minimal Textual app"
    return Row("P9", name, usable * 1e3, "ms", ratio, goal, ratio <= MOST_START, note, spread(ratios))


def _keep(environ: dict[str, str]) -> None:
    """Have a kernel keep its catalog, as one does that ran before."""
    console = Terminal([sys.executable, "-m", "flytui", "--root", environ["BENCH_ROOT"]], environ)
    roots = Path(environ["XDG_STATE_HOME"]) / "flytui" / "roots"
    until = time.monotonic() + PATIENCE_S
    try:
        console.until(b"tool000")
        while not any(roots.glob("*/catalog.jsonl")) and time.monotonic() < until:
            console.settle()
    finally:
        console.end()


def _starts(environ: dict[str, str]) -> tuple[float, float, float]:
    """The time to a minimal application's first frame, then to the console's first one with tools, and to
    that in which the kernel has confirmed them."""
    minimal = _minimal(environ)
    console = Terminal([sys.executable, "-m", "flytui", "--root", environ["BENCH_ROOT"]], environ)
    try:
        return minimal, console.until(b"tool000"), console.until(b"policy ok")
    finally:
        console.end()


def _minimal(environ: dict[str, str]) -> float:
    bare = Terminal([sys.executable, "-c", MINIMAL], environ)
    try:
        return bare.until(b"READY")
    finally:
        bare.end()


def _keys(console: Terminal) -> tuple[float, float]:
    """The time of a step down, then of one more letter in the open filter line. Earlier output is skipped."""
    console.settle()
    console.send(DOWN)
    step = console.until(CURSOR)
    console.settle()
    console.send(SLASH + WORD[:-1])
    console.settle()
    console.send(WORD[-1:])
    letter = console.until(b"match")
    console.settle()
    console.send(ESCAPE)
    console.settle()
    return step, letter


@contextmanager
def _settled(environ: dict[str, str]) -> Iterator[Terminal]:
    """A console whose kernel has confirmed its tools, and that has scrolled through them once."""
    console = Terminal([sys.executable, "-m", "flytui", "--root", environ["BENCH_ROOT"]], environ)
    try:
        # Until then the rows are those of the kept catalog, and the catalog is still to be read.
        console.until(b"policy ok")
        console.settle(0.9)
        _keys(console)
        yield console
    finally:
        console.end()


@contextmanager
def project(tools: int) -> Iterator[dict[str, str]]:
    """The environment of a person whose registry has so many tools, 100 in each sidecar."""
    with tempfile.TemporaryDirectory(prefix="flytui-bench-") as folder:
        home = Path(folder)
        (home / "root" / "tools").mkdir(parents=True)
        (home / "run").mkdir(mode=0o700)
        sidecars = {f"bench.s{at:03}": _sidecar(at) for at in range(tools // EACH)}
        text = json.dumps({"schemaVersion": 2, "sidecars": sidecars}, indent=1)
        registry = home / "config" / "flytui" / "tools" / "external.tools.jsonc"
        registry.parent.mkdir(parents=True)
        registry.write_text(text)
        (home / "root" / "tools" / "external.tools.jsonc").write_text('{"schemaVersion": 2, "sidecars": {}}')
        yield {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "BENCH_ROOT": str(home / "root"),
        }


def _sidecar(number: int) -> dict[str, object]:
    """A sidecar whose program exists, with a hundred tools."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return {
        "command": "true",
        "probe": {"mode": "off"},
        "tools": [
            {"name": f"bench{number:02}.tool{at:05}", "description": "Finds things.", "inputSchema": schema}
            for at in range(number * EACH, (number + 1) * EACH)
        ],
    }
