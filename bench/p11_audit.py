"""P11: the processor time of appending to the audit log, without fsync; and verifying the log.

The reference for an append is the least work for such a line: it is encoded as JSON, hashed and written by
one `write`, and nothing is counted, checked or kept. The reference for verifying is to read and hash the same
bytes.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from common import Compared, Row, compare, spread

from flycore.audit.log import AuditLog
from flycore.audit.verify import verify
from flycore.model.json import JsonObject

LINES = 1_000
"""In one round: fewer than `append` syncs by itself."""
ROUNDS = {"quick": 5, "full": 41}
MOST_MICROSECONDS = 20.0
LEAST_LINES = 50_000
FIELDS: JsonObject = {
    "callId": "5a1258743ef1-000001",
    "tool": "file.hash",
    "caller": "agent (pid 4242) via socket",
    "callerKey": "socket:/usr/bin/agent:4242:527743",
    "status": "success",
    "durationMs": 12,
    "waitedMs": 0,
    "sidecar": "utility.local",
    "subject": "b" * 64,
    "inputDigest": "a" * 64,
    "level": "none",
    "exitCode": 0,
    "outputDigest": "c" * 64,
    "outputBytes": 212,
}

_encode = json.JSONEncoder(separators=(",", ":")).encode


def run(size: str) -> list[Row]:
    """Measure absolute figures, in which the goals are written, each beside its reference."""
    rounds = ROUNDS[size]
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        log = _open(base / "plain")
        bare = os.open(base / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        appended = _append_row(log, bare, rounds)
        os.close(bare)
        log.close()
        checked = compare(_verify(base / "plain"), _read(base / "plain"), rounds)
        total = verify(base / "plain" / "audit", base / "plain" / "anchors").lines
    return [appended, _verify_row(checked, total)]


def _append_row(log: AuditLog, bare: int, rounds: int) -> Row:
    """Append to both in turn, and sync the log between the rounds, outside of the measured time."""
    values: list[float] = []
    references: list[float] = []
    for _ in range(rounds):
        values.append(_cpu(partial(_append, log)))
        references.append(_cpu(partial(_write, bare)))
        log.flush()
    ratios = [one / other for one, other in zip(values, references, strict=True)]
    each, target = median(values), f"≤ {MOST_MICROSECONDS:g} µs"
    note, met = f"bare line {median(references):.1f} µs", each <= MOST_MICROSECONDS
    return Row("P11", "append, cpu", each, "µs a line", median(ratios), target, met, note, spread(ratios))


def _verify_row(figures: Compared, count: int) -> Row:
    rate = count / figures.value
    note = f"reading and hashing {count / figures.reference:,.0f} lines/s"
    target = f"≥ {LEAST_LINES:,} lines/s"
    met = rate >= LEAST_LINES
    return Row("P11", "verify", rate, "lines/s", figures.ratio, target, met, note, figures.spread)


def _open(base: Path) -> AuditLog:
    log = AuditLog.open(base / "audit", base / "anchors", clock=time.time, monotonic=time.monotonic)
    if log.stopped:
        raise RuntimeError(log.stopped)
    return log


def _append(log: AuditLog) -> None:
    for _ in range(LINES):
        log.append("TOOL_EXECUTED", FIELDS)


def _cpu(work: Callable[[], None]) -> float:
    """The processor time in microseconds a line, without the garbage collector, as in `common.seconds`."""
    gc.collect()
    gc.disable()
    try:
        begun = time.process_time()
        work()
        return (time.process_time() - begun) / LINES * 1e6
    finally:
        gc.enable()


def _write(fd: int) -> None:
    for _ in range(LINES):
        line = _encode(FIELDS).encode("ascii")
        os.write(fd, line + hashlib.sha256(line).hexdigest().encode("ascii") + b"\n")


def _verify(base: Path) -> Callable[[], None]:
    def work() -> None:
        found = verify(base / "audit", base / "anchors")
        if found.exit_code:
            raise RuntimeError(found.message)

    return work


def _read(base: Path) -> Callable[[], None]:
    def work() -> None:
        for path in (base / "audit").iterdir():
            with path.open("rb") as file:
                for line in file:
                    hashlib.sha256(line)

    return work
