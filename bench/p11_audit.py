"""P11: appending to the audit log without fsync and, in groups, with it; and verifying the log.

The reference for an append is the least work for such a line: it is encoded as JSON, hashed and written by
one `write`, and nothing is counted, checked or kept. The reference for verifying is to read and hash the same
bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from common import Compared, Row, compare, seconds, spread

from flycore.audit.log import AuditLog
from flycore.audit.projection import metrics
from flycore.audit.verify import verify
from flycore.model.json import JsonObject

LINES = 1_000
"""In one round: fewer than `append` syncs by itself."""
ROUNDS = {"quick": 5, "full": 41}
GROUP = 64
"""Results that share one sync: as many as come within 50 ms under load."""
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
        plain = _appends(log, bare, rounds)
        cpu = _cpu(log)
        synced = compare(partial(_append_groups, log), partial(_bare_groups, bare), rounds)
        os.close(bare)
        log.close()
        checked = compare(_verify(base / "plain"), _read(base / "plain"), rounds)
        projected = compare(_project(base / "plain"), _read(base / "plain"), rounds)
        total = _lines(base / "plain")
    return [
        _append_row("append, no fsync", plain, f", {cpu:.1f} µs of cpu"),
        _append_row(f"append, one fsync for {GROUP} lines", synced),
        _rate_row("verify", checked, total),
        _rate_row("metrics, rebuilt", projected, total),
    ]


def _append_row(name: str, figures: Compared, cpu: str = "") -> Row:
    each = figures.value / LINES * 1e6
    target = f"≤ {MOST_MICROSECONDS:g} µs" if cpu else "group commit"
    note = f"bare line {figures.reference / LINES * 1e6:.1f} µs{cpu}"
    met = each <= MOST_MICROSECONDS if cpu else True
    return Row("P11", name, each, "µs a line", figures.ratio, target, met, note, figures.spread)


def _rate_row(name: str, figures: Compared, count: int) -> Row:
    rate = count / figures.value
    note = f"reading and hashing {count / figures.reference:,.0f} lines/s"
    target = f"≥ {LEAST_LINES:,} lines/s"
    return Row("P11", name, rate, "lines/s", figures.ratio, target, rate >= LEAST_LINES, note, figures.spread)


def _open(base: Path) -> AuditLog:
    log = AuditLog.open(base / "audit", base / "anchors", clock=time.time, monotonic=time.monotonic)
    if log.stopped:
        raise RuntimeError(log.stopped)
    return log


def _append(log: AuditLog) -> None:
    for _ in range(LINES):
        log.append("TOOL_EXECUTED", FIELDS)


def _appends(log: AuditLog, bare: int, rounds: int) -> Compared:
    """Compare as `compare` does, but sync the log between the rounds, outside of the measured time."""
    values: list[float] = []
    references: list[float] = []
    for _ in range(rounds):
        values.append(seconds(partial(_append, log)))
        references.append(seconds(partial(_write, bare, LINES)))
        log.flush()
    ratios = [one / other for one, other in zip(values, references, strict=True)]
    return Compared(median(values), median(references), median(ratios), spread(ratios))


def _cpu(log: AuditLog) -> float:
    """The processor time in microseconds a line, which depends less on what else the machine does."""
    begun = time.process_time()
    _append(log)
    used = time.process_time() - begun
    log.flush()
    return used / LINES * 1e6


def _append_groups(log: AuditLog) -> None:
    for number in range(LINES):
        log.append("TOOL_EXECUTED", FIELDS)
        if number % GROUP == GROUP - 1:
            log.flush()


def _bare_groups(fd: int) -> None:
    for _ in range(LINES // GROUP):
        _write(fd, GROUP)
        os.fsync(fd)
    _write(fd, LINES % GROUP)


def _write(fd: int, count: int) -> None:
    for _ in range(count):
        line = _encode(FIELDS).encode("ascii")
        os.write(fd, line + hashlib.sha256(line).hexdigest().encode("ascii") + b"\n")


def _verify(base: Path) -> Callable[[], None]:
    def work() -> None:
        found = verify(base / "audit", base / "anchors")
        if found.exit_code:
            raise RuntimeError(found.message)

    return work


def _project(base: Path) -> Callable[[], object]:
    return partial(metrics, base / "audit")


def _read(base: Path) -> Callable[[], None]:
    def work() -> None:
        for path in (base / "audit").iterdir():
            with path.open("rb") as file:
                for line in file:
                    hashlib.sha256(line)

    return work


def _lines(base: Path) -> int:
    return verify(base / "audit", base / "anchors").lines
