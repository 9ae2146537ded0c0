"""The kernels that commands of a test have started, which would serve for ten minutes more."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROGRAM = b"flycore.client.kernel_program"
ENDS_WITHIN_S = 20.0
MOST_FOLDERS = 2_000


def end_kernels(folder: Path) -> None:
    """End the kernels on demand whose locks lie in the folder, and wait until they have ended."""
    ending = [pidfd for pid in _kernels(folder) for pidfd in _end(pid)]
    for pidfd in ending:
        select.select([pidfd], [], [], ENDS_WITHIN_S)
        os.close(pidfd)


def kernel_of(state: Path) -> int | None:
    """The process of the kernel on demand whose lock lies below the folder; None if there is none."""
    return next(_kernels(state), None)


def _kernels(folder: Path) -> Iterator[int]:
    for number, (base, _, files) in enumerate(os.walk(folder)):
        if number >= MOST_FOLDERS:
            return
        if "kernel.lock" in files:
            with suppress(OSError, ValueError, KeyError, TypeError):
                pid = int(json.loads((Path(base) / "kernel.lock").read_bytes())["pid"])
                if PROGRAM in Path(f"/proc/{pid}/cmdline").read_bytes():
                    yield pid


def _end(pid: int) -> Iterator[int]:
    with suppress(OSError):
        pidfd = os.pidfd_open(pid)
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        yield pidfd
