"""The report of resource limits: one row for each, declared or not, with what enforces it or why nothing
does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from flycore.model.sidecar import (
    DEFAULT_MAX_OUTPUT_BYTES,
    DEFAULT_MEMORY_BYTES,
    DEFAULT_PROCESSES,
    DEFAULT_TIMEOUT_MS,
    Limits,
    SidecarEntry,
)
from flycore.model.stability import PermissionReport

NO_DEFAULT = "not enforced: the entry declares none, and there is no default"
NOT_STARTED = "not enforced: the program was not started here"
_SET = "limit of each process, set before it starts"
_MEMORY = (
    "of what each process writes to (RLIMIT_DATA){space}, set before it starts; not of memory that it shares,"
    " and not of the call's processes together: {why_not}"
)
_TOGETHER = (
    "of all processes of a call together, by a control group (memory.max), in which files that are read or"
    " written count as well; and of what each of them writes to (RLIMIT_DATA){space}"
)
_SPACE = (
    " and of its address space (RLIMIT_AS), but not for node, bun, deno, java and Chromium, which reserve far"
    " more than they use"
)
_COUNTED = "processes of a call are counted four times a second, and one with more is ended"


def limit_rows(entry: SidecarEntry, why_apart: str) -> tuple[PermissionReport, ...]:
    """Return the rows of the entry's limits, in a fixed order.

    `why_apart` says why the memory of each process is limited by itself; empty where a control group limits
    that of all together.
    """
    bytes_and_time = (entry.max_output_bytes, entry.timeout_ms)
    return tuple(_rows(entry.limits, *bytes_and_time, why_apart, elsewhere=bool(entry.url)))


@lru_cache(maxsize=1_024)
def _rows(
    limits: Limits, output_bytes: int, timeout_ms: int, why_apart: str, *, elsewhere: bool
) -> tuple[PermissionReport, ...]:
    of_processes = _of_processes(limits, why_apart)
    if elsewhere:
        of_processes = (_row(row.name, row.declared, NOT_STARTED, enforced=False) for row in of_processes)
    output = f"{_size(output_bytes)}{_default(output_bytes, DEFAULT_MAX_OUTPUT_BYTES)}"
    time = f"{_seconds(timeout_ms)}{_default(timeout_ms, DEFAULT_TIMEOUT_MS)}"
    return (
        *of_processes,
        _row("output", output, "flytui ends the call"),
        _row("time", time, "flytui ends the call"),
    )


def _of_processes(limits: Limits, why_apart: str) -> Iterator[PermissionReport]:
    seconds = None if limits.cpu_seconds is None else f"{limits.cpu_seconds} s"
    yield _optional("cpu", seconds, f"RLIMIT_CPU, {_SET}")
    if limits.memory_bytes is None:
        memory, space = f"{_size(DEFAULT_MEMORY_BYTES)} (the default)", ""
    else:
        memory, space = _size(limits.memory_bytes), _SPACE
    by = _MEMORY.format(space=space, why_not=why_apart) if why_apart else _TOGETHER.format(space=space)
    yield _row("memory", memory, by)
    file = None if limits.file_bytes is None else _size(limits.file_bytes)
    yield _optional("file size", file, f"RLIMIT_FSIZE, {_SET}")
    files = "as flytui was started with (the default)" if not limits.open_files else str(limits.open_files)
    yield _row("open files", files, f"RLIMIT_NOFILE, {_SET}")
    count = f"{DEFAULT_PROCESSES} (the default)" if limits.processes is None else str(limits.processes)
    yield _row("processes", count, _COUNTED)


def _default(value: int, default: int) -> str:
    return " (the default)" if value == default else ""


def _optional(name: str, value: str | None, by: str) -> PermissionReport:
    if value is None:
        return _row(name, "not declared", NO_DEFAULT, enforced=False)
    return _row(name, value, by)


def _size(size: int) -> str:
    """A number of bytes in the largest unit in which it is whole, so that nothing is rounded."""
    for unit, word in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size and size % unit == 0:
            return f"{size // unit} {word}"
    return f"{size} bytes"


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000} s" if milliseconds % 1000 == 0 else f"{milliseconds} ms"


def _row(name: str, declared: str, why: str, *, enforced: bool = True) -> PermissionReport:
    return PermissionReport(name=name, declared=declared, enforced=enforced, why=why)
