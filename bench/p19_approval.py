"""P19: the time from an agent's call to its card on the console, and from the key that approves it to the
start of the program.

The console runs in a pseudo-terminal. Its card opens by itself, because no key was pressed for some seconds,
and is compared with a frame of the same console after a key of its own. The start of the
program, which says when it runs, is compared with a whole run of bare `bwrap` with the same words.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
from calls import CALLS, compiled, row
from common import Row
from kernels import no_sync, root, trust
from p01_call import bare_bwrap, echo_root
from p09_console import CURSOR, DOWN, Terminal

TOOL = "bench.asked"
ROUNDS = {"quick": 5, "full": 40}
MOST_CARD, MOST_START = 5.0, 4.0
QUIET_S = 3.0
"""Seconds without a key after which a person counts as not typing, with some to spare."""
UP, APPROVE = b"\x1b[A", b"a"
CARD = b"all shown"
"""Words of the card below the input, which no other screen has."""
READY = b"keys ready"
SCREEN = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}

ASKED_C = r"""
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    static char buffer[65536];
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    while (read(0, buffer, sizeof buffer) > 0) { }
    printf("{\"ok\": true, \"at\": %.9f}\n", t.tv_sec + t.tv_nsec / 1e9);
    return 0;
}
"""

AGENT = """
import sys
import anyio
from flycore.client.client import connect

async def main():
    async with connect(sys.argv[1], start=False) as client:
        await client.status()
        print("connected", flush=True)
        for line in sys.stdin:
            result = await client.call(sys.argv[2], {"path": line.strip()})
            print(result.output["at"] if result.output else result.error, flush=True)

anyio.run(main)
"""


def run(size: str) -> list[Row]:
    """Measure both rows; `size` is `quick` or `full`."""
    with tempfile.TemporaryDirectory(prefix="flytui-bench-") as folder, no_sync():
        base = Path(folder)
        bwrap = anyio.run(bare_bwrap, *echo_root(base / "bare"), CALLS[size])
        places, environ = root(base / "asked", {TOOL: compiled("asked", ASKED_C)}, "ask")
        anyio.run(trust, places, environ)
        argv = [sys.executable, "-m", "flytui", "--root", str(places.app_root)]
        console = Terminal(argv, {**environ, **SCREEN})
        try:
            console.until(b"policy ok")
            with agent(environ, str(places.app_root), TOOL) as caller:
                found = [
                    _round(console, caller, number, bwrap(1).p50 / 1e6) for number in range(ROUNDS[size] + 1)
                ]
        finally:
            console.end()
    cards, starts = zip(*found[1:], strict=True)  # the first one fills caches
    key, bare = "≤ 5 × key to frame", "≤ 4 × bwrap"
    name = "an agent's call until its card is painted"
    return [
        row(name, "ms", list(cards), key, "", most=MOST_CARD, goal="P19"),
        row(
            "the approving key until the program runs",
            "ms",
            list(starts),
            bare,
            "",
            most=MOST_START,
            goal="P19",
        ),
    ]


def _round(
    console: Terminal, caller: subprocess.Popen[bytes], number: int, bare: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The milliseconds until a card, and until its program runs, each with its ratio."""
    assert caller.stdin is not None
    assert caller.stdout is not None
    console.settle()
    console.send(UP if number % 2 else DOWN)
    frame = console.until(CURSOR)
    _wait_idle(console)
    path = f"file{number}.md".encode()
    console.begun = time.perf_counter()
    caller.stdin.write(path + b"\n")
    caller.stdin.flush()
    card = console.until(CARD)
    console.until(READY)
    console.send(APPROVE)
    # Both clocks are CLOCK_MONOTONIC.
    start = float(caller.stdout.readline()) - console.begun
    return (card * 1e3, card / frame), (start * 1e3, start / bare)


def _wait_idle(console: Terminal) -> None:
    """Read what the console draws until a new card opens by itself."""
    until = time.monotonic() + QUIET_S
    while time.monotonic() < until:
        console.settle()
        time.sleep(0.1)


@contextmanager
def agent(environ: dict[str, str], app_root: str, tool: str) -> Iterator[subprocess.Popen[bytes]]:
    """A connected program that calls the tool for each line on its stdin, with that path."""
    command, pipe = [sys.executable, "-c", AGENT, app_root, tool], subprocess.PIPE
    with subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe) as caller:
        assert caller.stdout is not None
        try:
            if not caller.stdout.readline():
                raise RuntimeError("the agent did not connect")
            yield caller
        finally:
            caller.kill()
