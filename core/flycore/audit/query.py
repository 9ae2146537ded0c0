"""Queries over the audit log: its last lines, one line, one call, new lines; and a line as readable text.

The file is not trusted: bytes that are not a line of the log become an object with the event UNREADABLE.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from flycore.audit.chain import MOST_LINE_BYTES, LogFile, log_file_of, month_files, read_lines
from flycore.model.json import Json, JsonObject
from flysafe.text import safe_text

UNREADABLE = "UNREADABLE"
MOST_LINES = 10_000
"""The most lines that `tail` and `find` return."""
_BLOCK = 65_536
_MOST_BYTES = 64 * 1024 * 1024
"""The bytes of each file that `tail` reads at most, from its end."""
_SHOWN = 200
"""Characters of one value in a readable line; the JSON line has all of them."""

_BARE = re.compile(r"[A-Za-z_./@][A-Za-z0-9_./:@+-]*")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIGEST_SHOWN = 12
_LITERAL = re.compile(r"true|false|null")
_TIME = re.compile(r"[0-9T:.Z-]{1,40}")
_EVENT = re.compile(r"[A-Z][A-Z_]{0,63}")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")
_FIRST = {"tool": "name", "caller": "caller", "status": "status"}
"""Members that come first in a readable line, with their names there."""
_LEFT_OUT = frozenset(("time", "event", "mono", "boot", "prev", "hash", *_FIRST))


def _refuse(word: str) -> Json:
    raise ValueError(f"{word} is not JSON")  # Python's decoder takes NaN and Infinity by itself


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def tail(folder: Path, count: int) -> tuple[JsonObject, ...]:
    """Return the last `count` lines, oldest first, at most `MOST_LINES`. Raises OSError."""
    most = min(count, MOST_LINES)
    found: list[JsonObject] = []
    for path in reversed(_files(folder)):
        for raw in _backwards(path):
            if len(found) >= most:
                return tuple(reversed(found))
            found.append(parse_line(raw))
    return tuple(reversed(found))


def find(folder: Path, number_or_call_id: int | str) -> tuple[JsonObject, ...]:
    """Return the line with that number, or all lines of the call with that id, in order. Raises OSError."""
    found: list[JsonObject] = []
    needle = (
        b'{"seq":%d,' % number_or_call_id
        if isinstance(number_or_call_id, int)
        else json.dumps(number_or_call_id).encode("ascii")
    )
    for path in _files(folder):
        with path.open("rb") as file:
            for raw in read_lines(file):
                if needle not in raw:  # the bytes first: parsing every line would take many times as long
                    continue
                line = parse_line(raw)
                if line.get("seq" if isinstance(number_or_call_id, int) else "callId") != number_or_call_id:
                    continue
                found.append(line)
                if isinstance(number_or_call_id, int) or len(found) >= MOST_LINES:
                    return tuple(found)
    return tuple(found)


def as_text(line: JsonObject) -> str:
    """Return `[time] TOOL_EXECUTED name=… caller=… status=… …`: one line that is safe to print.

    Text that is more than a plain word is in double quotes, with `"` and `\\` escaped by `\\`, so that no
    value can look like a further field. A long value is cut and followed by `…` and its length, a digest
    after its first digits. The members of the chain are left out.
    """
    moment, event = line.get("time"), line.get("event")
    shown = [
        f"[{moment if isinstance(moment, str) and _TIME.fullmatch(moment) else _value_text(moment)}]",
        event if isinstance(event, str) and _EVENT.fullmatch(event) else _value_text(event),
    ]
    shown += [f"{name}={_value_text(line[key])}" for key, name in _FIRST.items() if key in line]
    rest = {key: value for key, value in line.items() if key not in _LEFT_OUT}
    shown += [
        f"{key if _is_plain_key(key) else _quoted(key)}={_value_text(value)}" for key, value in rest.items()
    ]
    return " ".join(shown)


def _is_plain_key(key: str) -> bool:
    """Whether the key needs no quotes: a word, and not the readable name of another member."""
    return bool(_KEY.fullmatch(key)) and key not in _FIRST.values()


def _files(folder: Path) -> tuple[Path, ...]:
    return month_files(folder) if folder.exists() else ()


def _backwards(path: Path) -> Iterator[bytes]:
    """Yield the file's lines from the last to the first, and stop after one that is too long for the log."""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        stop = max(position - _MOST_BYTES, 0)
        rest = b""
        while position > stop:
            step = min(_BLOCK, position - stop)
            position -= step
            file.seek(position)
            # `rest` is the end of a line whose beginning lies in an earlier block.
            *lines, last = (file.read(step) + rest).split(b"\n")
            if last:
                lines.append(last)
            rest, whole = (lines[0], lines[1:]) if lines else (b"", [])
            yield from reversed(whole)
            if len(rest) > MOST_LINE_BYTES:
                yield rest
                return
        if rest and not position:
            yield rest


def parse_line(raw: bytes) -> JsonObject:
    """Parse a line; bytes that are not a JSON object become an object with the event UNREADABLE."""
    # `json`, not msgspec: a file name that is not UTF-8 is logged with surrogates, which msgspec refuses.
    try:
        line = _decode(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        line = None
    if isinstance(line, dict):
        return line
    return {"event": UNREADABLE, "bytes": len(raw), "start": raw[:_SHOWN].decode("latin-1")}


def _value_text(value: Json) -> str:
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return f"{value[:_DIGEST_SHOWN]}…"
    if isinstance(value, str):
        plain = len(value) <= _SHOWN and _BARE.fullmatch(value) and not _LITERAL.fullmatch(value)
        return value if plain else _quoted(value)
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    return _quoted(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def _quoted(text: str) -> str:
    start = safe_text(text[:_SHOWN]).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{start}"' if len(text) <= _SHOWN else f'"{start}…"({len(text)})'


# Following the log while it grows.


_CHUNK = 1 << 20
"""Bytes read at a time."""


class Follower:
    """A reader that yields each line of one folder's log once. Used from one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._current_file: LogFile | None = None
        self._bytes_read = 0
        """The bytes of the current file that were read."""
        self._files: dict[LogFile, tuple[int, int]] = {}
        """The device and inode of every file read so far."""
        self._last_line = b""
        """The last line that was read, with its newline."""

    def start_near_end(self, most_bytes: int) -> bool:
        """Leave out what lies more than so many bytes before the end, and return whether anything does.

        For a reader that has read nothing yet. Raises OSError.
        """
        for path in reversed(month_files(self._folder) if self._folder.exists() else ()):
            part, size = log_file_of(path), path.stat().st_size
            if size > most_bytes:
                with path.open("rb") as file:
                    file.seek(size - most_bytes)
                    # The place lies within a line, or at the start of one; the line of the byte before ends.
                    file.seek(-1, os.SEEK_CUR)
                    file.readline(MOST_LINE_BYTES)
                    self._current_file, self._bytes_read = part, file.tell()
                return True
            most_bytes -= size
        return False

    def replaced(self) -> bool:
        """Whether another log is there now, so that a caller must start again. Raises OSError."""
        # Another inode or a shorter file is the plain case. A file that was cut and then grew beyond its old
        # size shows only in the last line that was read, which is compared as well.
        for part, known in self._files.items():
            try:
                facts = os.stat(self._folder / part.name)
            except FileNotFoundError:
                return True
            if (facts.st_dev, facts.st_ino) != known or (
                part == self._current_file and facts.st_size < self._bytes_read
            ):
                return True
        if self._current_file is None or not self._last_line:
            return False
        with (self._folder / self._current_file.name).open("rb") as file:
            file.seek(self._bytes_read - len(self._last_line))
            return file.read(len(self._last_line)) != self._last_line

    def lines(self) -> Iterator[bytes]:
        """Yield the new whole lines without newline; a half-written one waits. Raises OSError."""
        for path in month_files(self._folder) if self._folder.exists() else ():
            part = log_file_of(path)
            if part is None or (self._current_file is not None and part < self._current_file):
                continue
            if part != self._current_file:
                self._current_file, self._bytes_read, self._last_line = part, 0, b""
            yield from self._new_lines(path, part)

    def _new_lines(self, path: Path, part: LogFile) -> Iterator[bytes]:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            self._files[part] = facts.st_dev, facts.st_ino
            file.seek(self._bytes_read)
            rest = b""
            while chunk := file.read(_CHUNK):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    self._bytes_read += len(line) + 1
                    self._last_line = line + b"\n"
                    yield line
                if len(rest) > MOST_LINE_BYTES:
                    self._bytes_read += len(rest)
                    self._last_line = b""
                    yield rest
                    rest = b""
