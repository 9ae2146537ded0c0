"""P20, the queue: the time from the key for the next card to that card, while 100 requests of 20 agents wait,
against the same console while one more waits.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import anyio
from calls import compiled
from common import Row
from kernels import no_sync, root, trust
from p09_console import Terminal
from p19_approval import ASKED_C, CARD, SCREEN, TOOL

AGENTS, EACH = 20, 5
KEYS = {"quick": 15, "full": 60}
MOST = 1.5
NEXT = b"n"
HEADLINE = b"with path"
"""Words of the line of a card that says what the call does: no two cards have the same line."""

AGENT = """
import sys
import anyio
from flycore.client.client import connect

async def main():
    async with connect(sys.argv[1], start=False) as client, anyio.create_task_group() as group:
        for number in range(int(sys.argv[4])):
            group.start_soon(client.call, sys.argv[2], {"path": f"{sys.argv[3]}-{number}.md"})

anyio.run(main)
"""


def run(size: str) -> list[Row]:
    """Measure the console with two requests, then with a hundred."""
    with tempfile.TemporaryDirectory(prefix="flytui-bench-") as folder, no_sync():
        places, environ = root(Path(folder), {TOOL: compiled("asked", ASKED_C)}, "ask")
        settings = {"approvals": {"queueTotal": AGENTS * EACH, "queuePerCaller": EACH}}
        (places.config_dir / "config.jsonc").write_text(json.dumps(settings))
        anyio.run(trust, places, environ)
        argv = [sys.executable, "-m", "flytui", "--root", str(places.app_root)]
        console = Terminal(argv, {**environ, **SCREEN})
        try:
            console.until(b"policy ok")
            with _waiting(environ, str(places.app_root), 1, 2):
                few = _next_card(console, 2, KEYS[size])
            with _waiting(environ, str(places.app_root), AGENTS, EACH):
                many = _next_card(console, AGENTS * EACH, KEYS[size])
        finally:
            console.end()
    name, ratio = f"key to next card, {AGENTS * EACH} requests of {AGENTS} agents", many / few
    target, note = f"≤ {MOST} × one more waiting", f"one more waiting: {few * 1e3:.1f} ms"
    return [Row("P20", name, many * 1e3, "ms", ratio, target, ratio <= MOST, note)]


def _next_card(console: Terminal, waiting: int, keys: int) -> float:
    """The median time of the key, on the card that has opened by itself, once so many requests wait."""
    console.until(CARD)
    console.until(f"{waiting} waiting".encode())
    taken = []
    for _ in range(keys):
        console.settle()
        console.send(NEXT)
        taken.append(console.until(HEADLINE))
    console.settle()
    console.send(b"\x1b")
    console.settle()
    return median(taken)


@contextmanager
def _waiting(environ: dict[str, str], app_root: str, agents: int, each: int) -> Iterator[None]:
    """Agents whose calls wait; they withdraw them at the end."""
    with ExitStack() as running:
        for number in range(agents):
            words = [sys.executable, "-c", AGENT, app_root, TOOL, f"agent{number}", str(each)]
            process = running.enter_context(subprocess.Popen(words, env=environ))
            running.callback(process.terminate)
        yield
