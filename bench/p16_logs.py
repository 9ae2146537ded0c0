"""P16: screens and commands that look at the log, with a long log against one of 10,000 lines.

The lines are those of calls, sealed as the kernel seals them, and written by the benchmark itself. Ten
million of them take some gigabytes; if the disk has no room for them, the benchmark says so.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import Row
from kernels import root
from p11_audit import FIELDS

from flycore.audit.chain import GENESIS, LogFile, seal_line
from flycore.audit.log import MOST_FILE_BYTES
from flycore.audit.projection import metrics
from flycore.client.audit_reader import AuditReader

SMALL = 10_000
LARGE = {"quick": 100_000, "full": 10_000_000}
MOST = 1.5
LINE_BYTES = 900
ROUNDS = 3
PAGE, METRICS = "the first page of the Audit screen", "flytui metrics"


def run(size: str) -> list[Row]:
    """Measure with both logs."""
    large = LARGE[size]
    if shutil.disk_usage(tempfile.gettempdir()).free < 2 * large * LINE_BYTES:
        return [Row.unmeasured(f"P16 {name}", "the disk is full") for name in (PAGE, METRICS)]
    few, many = _measure(SMALL), _measure(large)
    return [_row(name, few[name], many[name], large) for name in few]


def _row(name: str, few: float, many: float, lines: int) -> Row:
    ratio, note = many / few, f"{SMALL:,} lines: {few * 1e3:.4g} ms; {lines:,}: {many * 1e3:.4g} ms"
    return Row("P16", name, many * 1e3, "ms", ratio, f"≤ {MOST} × {SMALL:,} lines", ratio <= MOST, note)


def _measure(lines: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        places, _ = root(Path(folder), {})
        write_log(Path(places.audit_dir), lines)
        if metrics(places.audit_dir).lines != lines:
            raise RuntimeError("the log that is measured is not a good one")
        reads = {
            PAGE: lambda: AuditReader.of(places)._read_new(),
            METRICS: lambda: metrics(places.audit_dir),
        }
        return {name: min(_seconds(work) for _ in range(ROUNDS)) for name, work in reads.items()}


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def write_log(folder: Path, lines: int) -> None:
    """Write a log of so many lines: calls of some tools and callers, each with its start and its end."""
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
