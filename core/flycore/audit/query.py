"""Reading the log for people: its end, one line, one call; and a line as readable text.

Nothing here trusts the file: what is no line of the log comes back as an object with the event UNREADABLE.
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
"""`tail` and `find` hand out no more."""
_BLOCK = 65_536
_MOST_BYTES = 64 * 1024 * 1024
"""`tail` looks back no further."""
_SHOWN = 200
"""Characters of one value in a readable line; the JSON has all of it."""

_BARE = re.compile(r"[A-Za-z_./@][A-Za-z0-9_./:@+-]*")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIGEST_SHOWN = 12
_LITERAL = re.compile(r"true|false|null")
_TIME = re.compile(r"[0-9T:.Z-]{1,40}")
_EVENT = re.compile(r"[A-Z][A-Z_]{0,63}")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")
_FIRST = {"tool": "name", "caller": "caller", "status": "status"}
"""Members that come first, and as what."""
_LEFT_OUT = frozenset(("time", "event", "mono", "boot", "prev", "hash", *_FIRST))


def _refuse(word: str) -> Json:
    raise ValueError(f"{word} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def tail(folder: Path, count: int) -> tuple[JsonObject, ...]:
    """The last lines, oldest first; read backwards, so that a long log costs no more. OSError."""
    wanted = min(count, MOST_LINES)
    found: list[JsonObject] = []
    for path in reversed(_files(folder)):
        for raw in _backwards(path):
            if len(found) >= wanted:
                return tuple(reversed(found))
            found.append(parse_line(raw))
    return tuple(reversed(found))


def find(folder: Path, wanted: int | str) -> tuple[JsonObject, ...]:
    """The line of that number, or all lines of the call with that id, in order. OSError."""
    found: list[JsonObject] = []
    needle = b'{"seq":%d,' % wanted if isinstance(wanted, int) else json.dumps(wanted).encode("ascii")
    for path in _files(folder):
        with path.open("rb") as file:
            for raw in read_lines(file):
                if needle not in raw:
                    continue
                line = parse_line(raw)
                if line.get("seq" if isinstance(wanted, int) else "callId") != wanted:
                    continue
                found.append(line)
                if isinstance(wanted, int) or len(found) >= MOST_LINES:
                    return tuple(found)
    return tuple(found)


def as_text(line: JsonObject) -> str:
    """`[time] TOOL_EXECUTED name=… caller=… status=… …`: one line, safe to draw.

    Text that is more than a plain word stands in double quotes, `"` and `\\` in it escaped by `\\`: no field
    can look like another. Long values end in `…` and their length, digests after their first digits; the
    chain's members are left out.
    """
    moment, event = line.get("time"), line.get("event")
    shown = [
        f"[{moment if isinstance(moment, str) and _TIME.fullmatch(moment) else _shown(moment)}]",
        event if isinstance(event, str) and _EVENT.fullmatch(event) else _shown(event),
    ]
    shown += [f"{name}={_shown(line[key])}" for key, name in _FIRST.items() if key in line]
    rest = {key: value for key, value in line.items() if key not in _LEFT_OUT}
    shown += [f"{key if _plain(key) else _quoted(key)}={_shown(value)}" for key, value in rest.items()]
    return " ".join(shown)


def _plain(key: str) -> bool:
    """Whether the key is a word, and none that stands for another member."""
    return bool(_KEY.fullmatch(key)) and key not in _FIRST.values()


def _files(folder: Path) -> tuple[Path, ...]:
    return month_files(folder) if folder.exists() else ()


def _backwards(path: Path) -> Iterator[bytes]:
    """Lines of the file from the last to the first; one too long for the log ends it."""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        stop = max(position - _MOST_BYTES, 0)
        rest = b""
        while position > stop:
            step = min(_BLOCK, position - stop)
            position -= step
            file.seek(position)
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
    """A line as a value; what is none comes back as an object with the event UNREADABLE.

    `json` rather than msgspec: a name that is no UTF-8 is logged with the surrogates standing for it.
    """
    try:
        line = _decode(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        line = None
    if isinstance(line, dict):
        return line
    return {"event": UNREADABLE, "bytes": len(raw), "start": raw[:_SHOWN].decode("latin-1")}


def _shown(value: Json) -> str:
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


# Reading the log as it grows: each line once, and whether what was read before is still what is there.


_CHUNK = 1 << 20


class Follower:
    """A place in the log of one folder. Used from one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._at: LogFile | None = None
        self._read = 0
        """Bytes of that file that were read."""
        self._files: dict[LogFile, tuple[int, int]] = {}
        """Device and inode of every file read so far."""
        self._end = b""
        """The last line that was read."""

    def replaced(self) -> bool:
        """Whether the log is no longer the one that was read, so that one has to start anew. OSError."""
        for part, known in self._files.items():
            try:
                facts = os.stat(self._folder / part.name)
            except FileNotFoundError:
                return True
            if (facts.st_dev, facts.st_ino) != known or (part == self._at and facts.st_size < self._read):
                return True
        if self._at is None or not self._end:
            return False
        with (self._folder / self._at.name).open("rb") as file:
            file.seek(self._read - len(self._end))
            return file.read(len(self._end)) != self._end

    def lines(self) -> Iterator[bytes]:
        """Whole lines that have come since, without newline; half a line waits for its end. OSError."""
        for path in month_files(self._folder) if self._folder.exists() else ():
            part = log_file_of(path)
            if part is None or (self._at is not None and part < self._at):
                continue
            if part != self._at:
                self._at, self._read, self._end = part, 0, b""
            yield from self._more(path, part)

    def _more(self, path: Path, part: LogFile) -> Iterator[bytes]:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            self._files[part] = facts.st_dev, facts.st_ino
            file.seek(self._read)
            rest = b""
            while chunk := file.read(_CHUNK):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    self._read += len(line) + 1
                    self._end = line + b"\n"
                    yield line
                if len(rest) > MOST_LINE_BYTES:
                    self._read += len(rest)
                    self._end = b""
                    yield rest
                    rest = b""
