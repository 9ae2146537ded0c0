"""S15: how long one caller can hold the kernel's loop, over the inputs of suite S15.

The kernel is a process of its own. One connection sends every shape at every hostile schema, and a small
value at each of many schemas that refer back to themselves; another one pings every 20 ms, also for some
seconds before. What a ping takes then is the noise of the machine, and is noted beside the figures. The
ratios are against the goals: 100 ms for a pause of the loop, 250 ms for a ping, and 100 MiB of memory above
rest.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import anyio
from common import Row

MOST_PAUSE_MS = 100.0
MOST_PING_MS = 250.0
MOST_MIB = 100.0
PING_SECONDS = 0.02
IDLE_SECONDS = 5.0
"""How long the kernel is only pinged, before anything is sent."""


def run(size: str) -> list[Row]:
    """Measure one kernel over all shapes; quick takes one schema for each shape."""
    tests = str(Path(__file__).parent.parent / "tests")
    sys.path.insert(0, tests)
    try:
        with tempfile.TemporaryDirectory() as base:
            return _rows(Path(base), full=size == "full")
    finally:
        sys.path.remove(tests)


def _rows(base: Path, *, full: bool) -> list[Row]:
    from kits.kernel import ECHO, Root, kernel_of, tool
    from kits.loop_shapes import SCHEMAS, SHAPES, shape, within_limits
    from kits.recursive_schemas import recursive_case

    root = Root(base)
    root.policy({"tool": "*", "decision": "allow", "because": "bench"})
    # Without it, most calls of one caller would be refused before they can hold anything.
    settings = base / "config" / "flytui" / "config.jsonc"
    settings.write_text(json.dumps({"quota": {"callsPerMinute": 100_000}}))
    names = [f"hostile.s{number}" for number in range(len(SCHEMAS))]
    schemas = zip(names, SCHEMAS.values(), strict=True)
    root.sidecar("hostile", ECHO, *(tool(name, inputSchema=schema) for name, schema in schemas))
    cases = {f"recursive.s{seed}": recursive_case(seed) for seed in range(600 if full else 60)}
    of_cases = (tool(name, inputSchema=schema) for name, (schema, _) in cases.items())
    root.sidecar("recursive", ECHO, *of_cases)

    async def trust() -> None:
        async with kernel_of(root):
            pass

    anyio.run(trust)
    inputs = [
        (text, name)
        for number, chosen in enumerate(SHAPES)
        for text in (shape(chosen), within_limits(chosen))
        for name in (names if full else [names[number % len(names)]])
    ]
    inputs += [(json.dumps(value), name) for name, (_, value) in cases.items()]
    command = [sys.executable, "-m", "flytui", "serve", "--root", str(root.folder)]
    with subprocess.Popen(command, env=root.environ, stdout=subprocess.PIPE) as kernel:
        try:
            assert kernel.stdout is not None
            while not kernel.stdout.readline().startswith(b"socket"):
                pass
            return _measured(str(root.places.socket), kernel.pid, inputs)
        finally:
            kernel.terminate()


def _measured(socket: str, pid: int, inputs: list[tuple[str, str]]) -> list[Row]:
    from websockets.sync.client import unix_connect

    done, pings = threading.Event(), list[float]()

    def ping() -> None:
        with unix_connect(socket, uri="ws://localhost/ws", compression=None) as connection:
            while not done.is_set():
                begun = time.perf_counter()
                connection.send(_message("ping", "{}", f"p{len(pings)}"))
                _answer(connection, f"p{len(pings)}")
                pings.append((time.perf_counter() - begun) * 1000)
                time.sleep(PING_SECONDS)

    unanswered = 0
    with unix_connect(socket, uri="ws://localhost/ws", compression=None, max_size=None) as connection:
        thread = threading.Thread(target=ping)
        thread.start()
        time.sleep(IDLE_SECONDS)
        rest, idle, noise = _memory(pid, "VmRSS"), _status(connection, "before"), list(pings)
        for number, (text, name) in enumerate(inputs):
            connection.send(_message("tool.call", f'{{"tool": "{name}", "input": {text}}}', f"c{number}"))
            try:
                _answer(connection, f"c{number}")
            except TimeoutError:
                unanswered += 1
        status = _status(connection, "after")
        done.set()
        thread.join()
    growth = _memory(pid, "VmHWM") - rest
    pause, worst = float(status["longestPauseMs"]), max(pings[len(noise) :])
    about = f"{len(pings)} pings, median {median(pings):.1f} ms; at most {max(noise):.0f} ms before"
    pauses = status["loopPauses"] - idle["loopPauses"]
    note = f"{len(inputs)} inputs, {pauses} pauses above 100 ms; {status['latestPause'] if pauses else ''}"
    return [
        _row("longest pause of the loop", pause, MOST_PAUSE_MS, "ms", note),
        _row("slowest ping", worst, MOST_PING_MS, "ms", about),
        _row("memory above rest", growth, MOST_MIB, "MiB", f"rest {rest:.0f} MiB"),
        Row("S15", "unanswered", float(unanswered), "calls", float(unanswered), "0", unanswered == 0),
    ]


def _row(name: str, value: float, goal: float, unit: str, note: str) -> Row:
    return Row("S15", name, value, unit, value / goal, f"≤ {goal:.0f} {unit}", value <= goal, note)


def _status(connection: Any, number: str) -> dict[str, Any]:
    connection.send(_message("gateway.status.get", "{}", number))
    payload: dict[str, Any] = _answer(connection, number)["payload"]
    return payload


def _message(kind: str, payload: str, number: str) -> str:
    return (
        f'{{"protocol": "flyflor.ws.v1", "id": "{number}", "type": "{kind}", "at": 0, "payload": {payload}}}'
    )


def _answer(connection: Any, number: str) -> dict[str, Any]:
    while True:
        answer: dict[str, Any] = json.loads(connection.recv(timeout=120))
        if answer.get("correlationId") == number and answer["type"] != "tool.progress":
            return answer


def _memory(pid: int, field: str) -> float:
    """A figure of `/proc/PID/status`, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024
