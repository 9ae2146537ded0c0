"""Where the log stands when a kernel opens it, and whether it may go on.

A line that was half written when the power went is set aside in a file of its own. Anything else that is not
as it was written is `Broken`: nothing is repaired, because that would hide it.
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


# The one writer of the log.
#
# A line is one `write()`; what must be known before an effect is synced at once, the rest by `flush`, which
# the kernel calls within 50 ms while `dirty`. What cannot be written raises AuditUnwritable, and whoever
# asked does not go on. A full disk is the one failure after which the next line may succeed; after any
# other the log stays stopped and says why. Used from one thread.


ANCHOR_EVERY = 64
"""Lines after which the next sync leaves an anchor."""
MOST_UNSYNCED = 1024
"""Lines after which `append` syncs by itself, should nobody flush."""
MOST_FILE_BYTES = 256 * 1024 * 1024
"""A month that would outgrow this goes on in a further file. No file is ever deleted."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

OnLine = Callable[[int, bytes], None]
"""Receives number and bytes, without newline, of every line once it is in the file. Does not raise."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class AuditLog:
    """An open log. Made by `open`."""

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
        self._part: LogFile | None = None
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
        """Open the log in `folder`, made if missing; `anchors` is a file elsewhere. `clock` gives Unix time.
        `on_line` is for a reader in the same process; commands that write a line of their own have none.

        Raises AuditUnwritable where another process writes it. Whatever else is wrong is found in `stopped`
        and raised by `append`, so that the kernel can run and show it.
        """
        log = cls(folder, anchors, clock=clock, monotonic=monotonic, on_line=on_line)
        try:
            log._lock()
            standing = recover(folder, anchors)
            log._resume(standing)
            if standing.torn is not None:
                log.append(TAIL_TORN, standing.torn, sync=True)
        except BlockingIOError:
            log._release()
            raise AuditUnwritable(str(folder), "another process writes it") from None
        except LogBroken as error:
            log._stopped = f"{error}; it is kept as it is. Move {folder} and {anchors} aside to start anew"
        except OSError as error:
            log._stopped = _error_text(error)
        except AuditUnwritable as error:
            log._stopped = f"the torn line could not be noted: {error.cause}"
        return log

    @property
    def dirty(self) -> bool:
        """Whether there are lines that are not known to be on disk."""
        return self._unsynced > 0

    @property
    def stopped(self) -> str:
        """Why nothing is written any more; empty while all is well."""
        return self._stopped

    @property
    def anchor_problem(self) -> str:
        """Why the last anchor could not be left; empty while all is well. It is tried again at each sync."""
        return self._anchor_problem

    @property
    def seq(self) -> int:
        """Number of the last line, 0 in a new log."""
        return self._last.seq

    def append(self, event: str, fields: JsonObject, *, sync: bool = False) -> int:
        """Write one line and return its number; with `sync` it is on disk by then.

        Raises AuditUnwritable, and then the event must be taken as not recorded. ValueError for a field that
        is the log's own.
        """
        if self._stopped:
            raise self._unwritable(self._stopped)
        if not RESERVED.isdisjoint(fields):
            raise ValueError(f"the log's own members: {sorted(RESERVED & fields.keys())}")
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
        """Put every line on disk. Raises AuditUnwritable."""
        if self._stopped:
            raise self._unwritable(self._stopped)
        if self.dirty:
            self._sync(anchor=False)

    def close(self) -> None:
        """Put every line and a last anchor on disk and let go of the folder. Raises AuditUnwritable."""
        try:
            if not self._stopped and self._fd >= 0:
                self._sync(anchor=True)
        finally:
            self._stopped = self._stopped or "closed"
            self._release()

    def _lock(self) -> None:
        private_folder(self._folder)
        self._folder_fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._folder_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _resume(self, standing: LogTail) -> None:
        self._last = standing.link
        self._anchored = standing.link.seq
        if standing.line:
            written = json.loads(standing.line)
            if written["boot"] == self._boot:
                self._mono = float(written["mono"])
        if standing.part is not None:
            self._open_file(standing.part)

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
        """Go on in the file that has room for `more` bytes of that month, never in an earlier one.

        What the last one holds is on disk before that.
        """
        part = self._part or LogFile(month)
        if month > part.month:
            part = LogFile(month)
        elif self._size and self._size + more > MOST_FILE_BYTES:
            part = LogFile(part.month, part.number + 1)
        if part == self._part:
            return
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
        os.fsync(self._folder_fd)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._path, self._part = fd, path, part
        self._size = os.fstat(fd).st_size

    def _write(self, line: bytes) -> None:
        facts = os.fstat(self._fd)
        if facts.st_size != self._size or not facts.st_nlink:
            self._stopped = "the file was changed by someone else"
            raise self._unwritable(self._stopped)
        written = 0
        try:
            while written < len(line):  # once, unless the disk is full: then the rest says why
                written += os.write(self._fd, line[written:])
        except OSError as error:
            self._truncate(written)
            raise self._failed(error) from error
        self._size += written

    def _truncate(self, written: int) -> None:
        """Remove the part of a line that was written; a log that cannot do that is stopped."""
        if not written:
            return
        try:
            os.ftruncate(self._fd, self._size)
        except OSError as error:
            self._stopped = f"half a line stayed: {_error_text(error)}"

    def _sync(self, *, anchor: bool) -> None:
        try:
            os.fsync(self._fd)
        except OSError as error:
            self._stopped = f"not on disk: {_error_text(error)}"
            raise self._unwritable(self._stopped) from error
        self._unsynced = 0
        due = self._last.seq - self._anchored
        if due >= ANCHOR_EVERY or (due and (anchor or self._anchor_problem)):
            self._anchor()

    def _anchor(self) -> None:
        try:
            self._anchors.write(Anchor(self._last.seq, self._last.hash))
        except OSError as error:
            self._anchor_problem = f"no anchor in {self._anchors_path}: {_error_text(error)}"
        else:
            self._anchored, self._anchor_problem = self._last.seq, ""

    def _failed(self, error: OSError) -> AuditUnwritable:
        """What to raise; unless the disk was merely full, nothing more is written."""
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
    """The running system's boot, so that monotonic times are only compared within one."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text("ascii").strip()
    return ""


def _error_text(error: OSError) -> str:
    return error.strerror or str(error)
