"""Where the log stands when a kernel opens it, and whether it may go on.

A line that was half written when the power went is set aside in a file of its own. Anything else that is not
as it was written is `Broken`: nothing is repaired, because that would hide it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from flycore.audit.anchors import UnreadableAnchors, last_anchor
from flycore.audit.chain import GENESIS, ChainLink, LogFile, log_file_of, month_files, read_lines, read_link
from flycore.model.json import JsonObject

_CHECKED_BYTES = 8 * 1024 * 1024
"""So much of the newest file is checked before the first line is written; `verify` checks all of it."""


class LogBroken(Exception):
    """The log is not as it was written; the text says where."""


class LogTail(NamedTuple):
    """The end of the log."""

    part: LogFile | None
    """The newest file; None where there is none."""
    link: ChainLink
    line: bytes
    """The last line; empty in a new log."""
    torn: JsonObject | None
    """What was set aside: fields for the event that notes it."""


class _End(NamedTuple):
    link: ChainLink | None
    line: bytes
    torn: bytes


def recover(folder: Path, anchors: Path) -> LogTail:
    """Find the end of the log, setting a torn last line aside. Raises Broken, OSError."""
    files = month_files(folder)
    part = log_file_of(files[-1]) if files else None
    written = [path for path in files if path.stat().st_size]
    torn = None
    if written:
        end = _check(written)
        if end.torn:
            torn = _save_torn_line(written[-1], end.torn, (end.link or _before(written)).seq + 1)
        link, line = (end.link, end.line) if end.link else (_before(written), b"")
    else:
        link, line = ChainLink(0, "", GENESIS), b""
    _compare(link, anchors)
    return LogTail(part, link, line, torn)


def _check(written: list[Path]) -> _End:
    """Check the end of the newest file that holds anything, and that it follows from the one before."""
    path = written[-1]
    last: ChainLink | None = None
    line = b""
    with path.open("rb") as file:
        start = max(os.fstat(file.fileno()).st_size - _CHECKED_BYTES, 0)
        file.seek(start)
        if start:
            file.readline()
        for raw in read_lines(file):
            if not raw.endswith(b"\n") and not file.read(1):
                return _End(last, line, raw)
            link = read_link(raw[:-1])
            if link is None:
                raise LogBroken(f"{path.name}: the line after number {last.seq if last else '?'} was changed")
            before = last or (ChainLink(link.seq - 1, "", link.prev) if start else _before(written))
            if (link.seq, link.prev) != (before.seq + 1, before.hash):
                raise LogBroken(
                    f"{path.name}: line number {link.seq} does not follow from number {before.seq}"
                )
            last, line = link, raw[:-1]
    return _End(last, line, b"")


def _before(written: list[Path]) -> ChainLink:
    """The last line of the files before the newest one."""
    if len(written) == 1:
        return ChainLink(0, "", GENESIS)
    path = written[-2]
    last = b""
    with path.open("rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - _CHECKED_BYTES, 0))
        for raw in read_lines(file):
            last = raw
    link = read_link(last[:-1]) if last.endswith(b"\n") else None
    if link is None:
        raise LogBroken(f"{path.name}: the last line was changed")
    return link


def _compare(link: ChainLink, anchors: Path) -> None:
    try:
        anchor = last_anchor(anchors)
    except UnreadableAnchors as error:
        raise LogBroken(str(error)) from error
    if anchor is None:
        return
    if anchor.seq > link.seq:
        raise LogBroken(f"cut off after number {link.seq}: the anchors know number {anchor.seq}")
    if anchor.seq == link.seq and anchor.hash != link.hash:
        raise LogBroken(f"line number {link.seq} is not the one the anchors know")


def _save_torn_line(path: Path, torn: bytes, seq: int) -> JsonObject:
    """Move half a line into `<file>.torn-<seq>`: first it is written there, then taken off the log."""
    beside = _write_copy(path, torn, seq)
    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.ftruncate(fd, os.fstat(fd).st_size - len(torn))
        os.fsync(fd)
    finally:
        os.close(fd)
    return {"file": beside.name, "bytes": len(torn), "digest": hashlib.sha256(torn).hexdigest()}


def _write_copy(path: Path, torn: bytes, seq: int) -> Path:
    """Never over an earlier one: a second crash at the same number keeps both."""
    number = 0
    while True:
        beside = path.with_name(f"{path.name}.torn-{seq}" + (f".{number}" if number else ""))
        with contextlib.suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with os.fdopen(os.open(beside, flags, 0o600), "wb") as file:
                file.write(torn)
                file.flush()
                os.fsync(file.fileno())
            return beside
        number += 1
