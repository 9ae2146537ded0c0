"""P16, the log: what depends on its length. A kernel's start must not; the first page of the Audit screen
only as far as it shows lines; the metrics are rebuilt from all of it.

The lines are those of calls, sealed as the kernel seals them, and written by the benchmark itself. Ten
million of them take some gigabytes; where the disk has no room for them, the benchmark says so.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import anyio
from common import Row
from growth import GOAL, flat, linear
from kernels import no_sync, root
from p11_audit import FIELDS

from flycore.audit.chain import GENESIS, LogFile, seal_line
from flycore.audit.log import MOST_FILE_BYTES
from flycore.audit.projection import metrics
from flycore.audit.verify import verify
from flycore.client.audit_reader import AuditReader
from flycore.kernel.compose import open_kernel
from flycore.kernel.lock import RootLock
from flycore.model.enums import KernelRole
from flycore.registry.paths import RootPaths

SIZES = {"quick": (1_000, 20_000, 100_000), "full": (1_000, 20_000, 1_000_000, 10_000_000)}
BEYOND = 20_000
"""Lines of more than 8 MiB: a start checks so much of the end of the log, and a shorter one as a whole."""
LINE_BYTES = 900
ROUNDS = 3
START, PAGE, METRICS, VERIFY = (
    "a kernel starts, by lines of the log",
    "the first page of the Audit screen, by lines of the log",
    "metrics from the log, by its lines",
    "the log is verified, by its lines",
)


def run(size: str) -> list[Row]:
    """Measure at all sizes for which the disk has room."""
    sizes = [
        lines
        for lines in SIZES[size]
        if shutil.disk_usage(tempfile.gettempdir()).free > 2 * lines * LINE_BYTES
    ]
    if len(sizes) < 3:
        return [
            Row.unmeasured(f"{GOAL} {name}", "the disk is full") for name in (START, PAGE, METRICS, VERIFY)
        ]
    figures: dict[str, dict[int, float]] = {}
    for lines in sizes:
        with tempfile.TemporaryDirectory() as folder, no_sync():
            for name, seconds in _measure(Path(folder), lines).items():
                figures.setdefault(name, {})[lines] = seconds
    return [
        flat(START, figures[START], BEYOND),
        # Up to 128 MiB and 100,000 lines are shown, so that it grows until there.
        linear(PAGE, figures[PAGE]),
        linear(METRICS, figures[METRICS]),
        linear(VERIFY, figures[VERIFY]),
    ]


def _measure(base: Path, lines: int) -> dict[str, float]:
    places, environ = root(base, {})
    write_log(Path(places.audit_dir), lines)
    reads = {
        METRICS: lambda: metrics(places.audit_dir),
        VERIFY: lambda: verify(places.audit_dir, places.anchors_file),
        PAGE: lambda: AuditReader.of(places)._read_new(),
    }
    figures = {name: min(_seconds(work) for _ in range(ROUNDS)) for name, work in reads.items()}
    if metrics(places.audit_dir).lines != lines:
        raise RuntimeError("the log that is measured is not a good one")
    starts = [anyio.run(_start, places, environ) for _ in range(ROUNDS + 1)]
    return {**figures, START: min(starts[1:])}


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


async def _start(places: RootPaths, environ: dict[str, str]) -> float:
    """The seconds until the kernel answers. It reads its history afterwards, while it already serves."""
    begun = time.perf_counter()
    with RootLock.acquire(places, KernelRole.CONSOLE) as holder:
        async with open_kernel(places, holder, environ) as kernel:
            kernel.status()
            return time.perf_counter() - begun


def write_log(folder: Path, lines: int) -> None:
    """Write a log of so many lines: calls of some tools and callers, each with its start and its end."""
    import json

    folder.mkdir(parents=True, mode=0o700)
    called = json.dumps({key: FIELDS[key] for key in ("tool", "caller", "callerKey", "inputDigest")})[1:-1]
    ended = json.dumps({key: value for key, value in FIELDS.items() if key != "callId"})[1:-1]
    prev, part, written = GENESIS, LogFile("2026-01"), 0
    file = os.open(folder / part.name, os.O_WRONLY | os.O_CREAT, 0o600)
    pieces: list[bytes] = []
    for seq in range(1, lines + 1):
        event, fields = ("TOOL_CALLED", called) if seq % 2 else ("TOOL_EXECUTED", ended)
        head = f'{{"seq":{seq},"time":"2026-01-01T00:00:00.000000Z","mono":{seq / 1000!r},"boot":"b"'
        line, prev = seal_line(f'{head},"event":"{event}","callId":"bench-{(seq + 1) // 2}",{fields}', prev)
        if written + len(line) > MOST_FILE_BYTES:
            os.write(file, b"".join(pieces))
            os.close(file)
            part, written, pieces = LogFile(part.month, part.number + 1), 0, []
            file = os.open(folder / part.name, os.O_WRONLY | os.O_CREAT, 0o600)
        pieces.append(line)
        written += len(line)
        if len(pieces) >= 10_000:
            os.write(file, b"".join(pieces))
            pieces = []
    os.write(file, b"".join(pieces))
    os.close(file)
