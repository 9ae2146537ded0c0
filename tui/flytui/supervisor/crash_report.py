"""Reports of processes that died, in the state folder: what died and where, and nothing of any call."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from types import TracebackType

MAX_REPORT_BYTES = 64 * 1024
MAX_FRAMES = 60
MAX_EXCEPTIONS = 16
CONSOLE_REPORT = "console-crash.txt"
KERNEL_REPORT = "kernel-crash.txt"


def traceback_text(error: BaseException) -> str:
    """Return types and places of an exception, of its causes and of the exceptions that it holds, innermost
    call last.

    The texts of exceptions and the values of variables are left out, because they may quote the input of a
    call.
    """
    lines: list[str] = []
    _describe(error, "", lines, set())
    return "\n".join(lines)


def _describe(error: BaseException, margin: str, lines: list[str], seen: set[int]) -> None:
    if id(error) in seen or len(seen) >= MAX_EXCEPTIONS:
        return
    seen.add(id(error))
    lines.append(f"{margin}{type(error).__module__}.{type(error).__qualname__}, latest call last:")
    lines += [f"{margin}  {frame}" for frame in _frames(error.__traceback__)]
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            lines.append(f"{margin}  it holds")
            _describe(inner, f"{margin}  ", lines, seen)
    cause = error.__cause__ or error.__context__
    if cause is not None:
        lines.append(f"{margin}it was caused by")
        _describe(cause, margin, lines, seen)


def _frames(trace: TracebackType | None) -> list[str]:
    frames: list[str] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename}:{trace.tb_lineno} in {code.co_qualname}")
        trace = trace.tb_next
    return frames[-MAX_FRAMES:]


def report_text(title: str, details: str) -> str:
    """Return a whole report: `title`, when it was, the versions, and `details`."""
    from flycore import __version__

    when = time.strftime("%Y-%m-%d %H:%M:%S %z")
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{title}\n{when} · flytui {__version__} · Python {python}\n\n{details}\n"


def write_report(folder: str, name: str, text: str) -> str:
    """Write a report, readable by this user only, in place of the one before. Return its path; empty where it
    cannot be written."""
    path = f"{folder}/{name}"
    data = text.encode("utf-8", "backslashreplace")[:MAX_REPORT_BYTES]
    with suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # A new file each time, never one that somebody else put there and may read.
        with suppress(FileNotFoundError):
            os.unlink(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
        return path
    return ""
