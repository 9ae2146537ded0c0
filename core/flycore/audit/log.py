"""The audit log's only writer, and the recovery that runs when the log is opened.

Each line is written by one `write()`. A line that must be on disk before an effect is synced at once; other
lines are synced by `flush`, which the kernel calls 50 ms after the first of them. When a line cannot be
written, `append` raises AuditUnwritable and the caller must not go on.

When the log is opened, a last line that was only half written (power loss, a killed process) is moved to a
file of its own. Every other difference from what was written raises LogBroken, and the log stays as it is:
a repair would hide the change.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from flycore.audit.chain import (
    GENESIS,
    MOST_LINE_BYTES,
    RESERVED,
    Anchor,
    AnchorFile,
    ChainLink,
    LogFile,
    UnreadableAnchors,
    last_anchor,
    log_file_of,
    month_files,
    read_lines,
    read_link,
    seal_line,
)
from flycore.audit.events import APPROVAL_DECIDED, TAIL_TORN
from flycore.model.errors import AuditUnwritable
from flycore.model.json import JsonObject
from flysafe.atomic import private_folder

ANCHOR_EVERY = 64
"""Lines after which the next sync writes an anchor."""
MOST_UNSYNCED = 1024
"""Lines after which `append` syncs on its own, so that a caller that never flushes loses no more."""
MOST_FILE_BYTES = 256 * 1024 * 1024
"""A month whose file would grow beyond this continues in a further file. No file is ever deleted."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
"""A full disk and a used-up quota: the only errors of a write that may be gone at the next line."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

OnLine = Callable[[int, bytes], None]
"""A callback for each written line: its number and its bytes without newline. It must not raise."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class AuditLog:
    """An open log, made by `AuditLog.open` and used from one thread."""

    def __init__(
        self,
        folder: Path,
        anchors: Path,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        on_line: OnLine | None,
    ) -> None:
        self._folder, self._anchors_path = folder, anchors
        self._anchors = AnchorFile(anchors)
        self._clock, self._monotonic = clock, monotonic
        self._folder_fd = self._fd = -1
        self._path = folder
        self._log_file: LogFile | None = None
        self._size = 0
        self._last = ChainLink(0, "", GENESIS)
        self._mono, self._boot = 0.0, _boot_id()
        self._unsynced = self._anchored = 0
        self._stopped = self._anchor_problem = ""
        self._on_line = on_line

    @classmethod
    def open(
        cls,
        folder: Path,
        anchors: Path,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        on_line: OnLine | None = None,
    ) -> AuditLog:
        """Open the log in `folder` and create the folder if it is missing.

        `anchors` is the anchor file, outside the folder. `clock` gives Unix time, `monotonic` monotonic time,
        both in seconds. `on_line` serves a reader in the same process; a command that only writes a line of
        its own passes None.

        Raises AuditUnwritable if another process has the log open. Every other problem is kept in `stopped`
        and raised by `append`, so that the kernel can start and show it.
        """
        log = cls(folder, anchors, clock=clock, monotonic=monotonic, on_line=on_line)
        try:
            log._lock()  # before recovery: a torn line may only be moved by the one writer
            tail = recover(folder, anchors)
            log._resume(tail)
            if tail.torn is not None:
                log.append(TAIL_TORN, tail.torn, sync=True)
        except BlockingIOError:
            log._release()
            raise AuditUnwritable(str(folder), "another process is writing to it") from None
        except LogBroken as error:
            log._stopped = f"{error}; nothing was repaired. For a new log, move {folder} and {anchors} away"
        except OSError as error:
            log._stopped = _error_text(error)
        except AuditUnwritable as error:
            log._stopped = f"the torn last line could not be recorded: {error.cause}"
        return log

    @property
    def dirty(self) -> bool:
        """Whether some lines may not be on disk yet."""
        return self._unsynced > 0

    @property
    def stopped(self) -> str:
        """The reason why the log takes no more lines; empty while it does."""
        return self._stopped

    @property
    def anchor_problem(self) -> str:
        """The reason why the last anchor could not be written, or empty. Each sync tries again."""
        return self._anchor_problem

    @property
    def seq(self) -> int:
        """The number of the last line; 0 in a new log."""
        return self._last.seq

    def append(self, event: str, fields: JsonObject, *, sync: bool = False) -> int:
        """Write one line and return its number. With `sync` the line is on disk when this returns.

        Raises AuditUnwritable; the caller must then treat the event as not recorded. Raises ValueError if
        `fields` has a name that the log itself writes.
        """
        if self._stopped:
            raise self._unwritable(self._stopped)
        if not RESERVED.isdisjoint(fields):
            raise ValueError(f"reserved for the log itself: {sorted(RESERVED & fields.keys())}")
        moment = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="microseconds")
        line, link = self._line(f"{moment[:-6]}Z", event, fields)
        self._switch_file(moment[:7], len(line))
        self._write(line)
        self._last = link
        self._unsynced += 1
        if self._on_line is not None:
            self._on_line(link.seq, line[:-1])
        if sync or self._unsynced >= MOST_UNSYNCED:
            self._sync(anchor=event == APPROVAL_DECIDED)
        return link.seq

    def flush(self) -> None:
        """Sync every line to disk. Raises AuditUnwritable."""
        if self._stopped:
            raise self._unwritable(self._stopped)
        if self.dirty:
            self._sync(anchor=False)

    def close(self) -> None:
        """Sync every line and a last anchor to disk, and unlock the folder. Raises AuditUnwritable."""
        try:
            if not self._stopped and self._fd >= 0:
                self._sync(anchor=True)
        finally:
            self._stopped = self._stopped or "closed"
            self._release()

    def _lock(self) -> None:
        private_folder(self._folder)
        self._folder_fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # The lock is on the folder, not on a file: the writer changes files at the end of a month. The
        # operating system releases it when the process dies.
        fcntl.flock(self._folder_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _resume(self, tail: LogTail) -> None:
        self._last = tail.link
        self._anchored = tail.link.seq
        if tail.line:
            written = json.loads(tail.line)
            # Monotonic time starts again with each boot, so a value of another boot says nothing about now.
            if written["boot"] == self._boot:
                self._mono = float(written["mono"])
        if tail.log_file is not None:
            self._open_file(tail.log_file)

    def _line(self, moment: str, event: str, fields: JsonObject) -> tuple[bytes, ChainLink]:
        self._mono = max(self._mono, self._monotonic())
        seq, prev = self._last.seq + 1, self._last.hash
        try:
            named = _encode(event)
            more = _encode(fields)[1:-1]
        except (TypeError, ValueError, RecursionError) as error:
            raise self._unwritable(f"{event} holds what JSON cannot: {error}") from error
        mono = round(self._mono, 6)
        body = f'{{"seq":{seq},"time":"{moment}","mono":{mono!r},"boot":"{self._boot}","event":{named}' + (
            "," + more if more else ""
        )
        line, own = seal_line(body, prev)
        if len(line) > MOST_LINE_BYTES:
            raise self._unwritable(f"{event} would be a line of {len(line)} bytes")
        return line, ChainLink(seq, prev, own)

    def _switch_file(self, month: str, more: int) -> None:
        """Open the file for this month if it is another, or a further one if `more` bytes do not fit."""
        part = self._log_file or LogFile(month)
        if month > part.month:  # never back: when the clock was set back, the newest file goes on
            part = LogFile(month)
        elif self._size and self._size + more > MOST_FILE_BYTES:
            part = LogFile(part.month, part.number + 1)
        if part == self._log_file:
            return
        # Later syncs reach only the new file, so the lines of the old one must be on disk first.
        if self.dirty:
            self._sync(anchor=False)
        try:
            self._open_file(part)
        except OSError as error:
            raise self._failed(error) from error

    def _open_file(self, part: LogFile) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        path = self._folder / part.name
        fd = os.open(path, flags, 0o600)
        # A new file survives a power loss only when its folder's entry is on disk, too.
        os.fsync(self._folder_fd)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._path, self._log_file = fd, path, part
        self._size = os.fstat(fd).st_size

    def _write(self, line: bytes) -> None:
        # A size other than the one after our last write, or no name left, means that another program wrote,
        # cut or removed the file. A further line would hide where that happened.
        facts = os.fstat(self._fd)
        if facts.st_size != self._size or not facts.st_nlink:
            self._stopped = "another program changed or removed the file"
            raise self._unwritable(self._stopped)
        written = 0
        try:
            while written < len(line):  # more than once only if the disk fills up: the next write fails
                written += os.write(self._fd, line[written:])
        except OSError as error:
            self._truncate(written)
            raise self._failed(error) from error
        self._size += written

    def _truncate(self, written: int) -> None:
        """Cut off the half line that a failed write left; stop the log if that fails, too."""
        if not written:
            return
        try:
            os.ftruncate(self._fd, self._size)
        except OSError as error:
            self._stopped = f"half a line could not be removed: {_error_text(error)}"

    def _sync(self, *, anchor: bool) -> None:
        try:
            os.fsync(self._fd)
        except OSError as error:
            # Linux may drop the dirty pages and report success next time, so a failed fsync is final.
            self._stopped = f"lines could not be synced to disk: {_error_text(error)}"
            raise self._unwritable(self._stopped) from error
        self._unsynced = 0
        # Only now: an anchor of a line that is not on disk would look like a cut log after a power loss.
        unanchored = self._last.seq - self._anchored
        if unanchored >= ANCHOR_EVERY or (unanchored and (anchor or self._anchor_problem)):
            self._anchor()

    def _anchor(self) -> None:
        try:
            self._anchors.write(Anchor(self._last.seq, self._last.hash))
        except OSError as error:
            self._anchor_problem = f"no anchor can be written to {self._anchors_path}: {_error_text(error)}"
        else:
            self._anchored, self._anchor_problem = self._last.seq, ""

    def _failed(self, error: OSError) -> AuditUnwritable:
        """The error to raise. Any error but a full disk also stops the log."""
        if error.errno not in _FULL:
            self._stopped = self._stopped or _error_text(error)
        return self._unwritable(_error_text(error))

    def _unwritable(self, cause: str) -> AuditUnwritable:
        return AuditUnwritable(str(self._path), cause)

    def _release(self) -> None:
        self._anchors.close()
        for fd in (self._fd, self._folder_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._folder_fd = -1


def _boot_id() -> str:
    """The id of the running system's boot, from /proc; empty where /proc has none."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text("ascii").strip()
    return ""


def _error_text(error: OSError) -> str:
    return error.strerror or str(error)


# Recovery: finding the end of the log when a kernel opens it.


_CHECKED_BYTES = 8 * 1024 * 1024
"""The bytes at the end of the newest file that are checked at each start; `verify` checks all of them."""


class LogBroken(Exception):
    """The log differs from what was written; the text says where."""


class LogTail(NamedTuple):
    """The end of the log."""

    log_file: LogFile | None
    """The newest file; None if there is none."""
    link: ChainLink
    line: bytes
    """The last line without its newline; empty in a new log."""
    torn: JsonObject | None
    """Fields of the event that records a torn line; None if there was none."""


class _FileEnd(NamedTuple):
    link: ChainLink | None
    line: bytes
    torn: bytes


def recover(folder: Path, anchors: Path) -> LogTail:
    """Find the end of the log and move a torn last line away. Raises LogBroken, OSError."""
    files = month_files(folder)
    part = log_file_of(files[-1]) if files else None
    written = [path for path in files if path.stat().st_size]
    torn = None
    if written:
        end = _check_newest_file(written)
        if end.torn:
            torn = _save_torn_line(written[-1], end.torn, (end.link or _link_before(written)).seq + 1)
        link, line = (end.link, end.line) if end.link else (_link_before(written), b"")
    else:
        link, line = ChainLink(0, "", GENESIS), b""
    _check_anchor(link, anchors)
    return LogTail(part, link, line, torn)


def _check_newest_file(written: list[Path]) -> _FileEnd:
    """Check the end of the newest file with content, and that it follows the file before it."""
    path = written[-1]
    last: ChainLink | None = None
    line = b""
    with path.open("rb") as file:
        start = max(os.fstat(file.fileno()).st_size - _CHECKED_BYTES, 0)
        file.seek(start)
        if start:
            file.readline()  # `start` lies inside a line: the first whole line begins after it
        for raw in read_lines(file):
            # Only at the end of the file is a line without newline torn. Elsewhere it is a line longer than
            # the log ever writes, which arrives in pieces and fails the check below.
            if not raw.endswith(b"\n") and not file.read(1):
                return _FileEnd(last, line, raw)
            link = read_link(raw[:-1])
            if link is None:
                raise LogBroken(f"{path.name}: the line after number {last.seq if last else '?'} was changed")
            before = last or (ChainLink(link.seq - 1, "", link.prev) if start else _link_before(written))
            if (link.seq, link.prev) != (before.seq + 1, before.hash):
                raise LogBroken(
                    f"{path.name}: line number {link.seq} does not follow from number {before.seq}"
                )
            last, line = link, raw[:-1]
    return _FileEnd(last, line, b"")


def _link_before(written: list[Path]) -> ChainLink:
    """The last link of the files before the newest one; the chain's start if there are none."""
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


def _check_anchor(link: ChainLink, anchors: Path) -> None:
    try:
        anchor = last_anchor(anchors)
    except UnreadableAnchors as error:
        raise LogBroken(str(error)) from error
    if anchor is None:
        return
    if anchor.seq > link.seq:
        raise LogBroken(f"cut off after number {link.seq}: an anchor has number {anchor.seq}")
    if anchor.seq == link.seq and anchor.hash != link.hash:
        raise LogBroken(f"line number {link.seq} differs from its anchor")


def _save_torn_line(path: Path, torn: bytes, seq: int) -> JsonObject:
    """Move half a line to `<file>.torn-<seq>`. Return the file, its size and its digest."""
    # The copy is on disk before the log is cut: a crash in between leaves the line twice, never not at all.
    copy = _write_copy(path, torn, seq)
    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.ftruncate(fd, os.fstat(fd).st_size - len(torn))
        os.fsync(fd)
    finally:
        os.close(fd)
    return {"file": copy.name, "bytes": len(torn), "digest": hashlib.sha256(torn).hexdigest()}


def _write_copy(path: Path, torn: bytes, seq: int) -> Path:
    """Write the torn line to a new file; a second crash at the same number gets a file of its own."""
    number = 0
    while True:
        copy = path.with_name(f"{path.name}.torn-{seq}" + (f".{number}" if number else ""))
        with contextlib.suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with os.fdopen(os.open(copy, flags, 0o600), "wb") as file:
                file.write(torn)
                file.flush()
                os.fsync(file.fileno())
            return copy
        number += 1
