"""The export of the audit log to other formats, line by line, with one line in memory at a time.

`jsonl` is the log itself, so that an export can be verified as well. `csv` is a selection of fields for
spreadsheets, written so that no cell is taken for a formula. `text` is one readable line each. Bytes that are
not a line of the log become an UNREADABLE line and are never dropped. All output is safe to print.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from flycore.audit.chain import log_file_of, month_files, read_lines
from flycore.audit.query import UNREADABLE, as_text, parse_line
from flycore.audit.record import ALL_TIME, TimeRange
from flycore.model.json import Json, JsonObject
from flysafe.text import safe_text


class Format(StrEnum):
    """The format of an export."""

    JSONL = "jsonl"
    CSV = "csv"
    TEXT = "text"


COLUMNS = (
    *("seq", "time", "event", "callId", "tool", "caller", "sidecar", "status", "code", "decision"),
    *("decidedBy", "tookMs", "risk", "level", "ended", "durationMs", "waitedMs", "authority", "subject"),
    *("message", "reason", "input", "hash"),
)
"""The columns of `csv`. `ended` is the exit code in words, as a minus sign would start a formula."""
CELL = 4_096
"""Characters of a cell; the JSON lines have the full text."""

_FORMULA = re.compile(r"(^|[;,|\"'])([ \u3000]*)(?=[=+\-@＝＋－＠])")
"""Where a cell would start a formula, also in a program that splits at another character than a comma."""
_DELETE = "\x7f"


def export(folder: Path, form: Format, span: TimeRange = ALL_TIME) -> Iterator[str]:
    """Yield the lines of that time, oldest first, without newline; `csv` has a heading. Raises OSError."""
    if form is Format.CSV:
        yield _row(COLUMNS)
    for raw, line in lines(folder, span):
        if form is Format.CSV:
            yield csv_row(line)
        elif form is Format.TEXT:
            yield as_text(line)
        else:
            yield json_line(raw, line)


def lines(folder: Path, span: TimeRange = ALL_TIME) -> Iterator[tuple[bytes, JsonObject]]:
    """Yield each line of that time as its bytes and as a value. Raises OSError."""
    for path in month_files(folder) if folder.exists() else ():
        log_file = log_file_of(path)
        if log_file is None or not span.reaches(log_file.month):
            continue
        with path.open("rb") as file:
            for raw in read_lines(file):
                line = parse_line(raw)
                if line in span:
                    yield raw, line


def json_line(raw: bytes, line: JsonObject) -> str:
    """Return the line unchanged if it is printable ASCII; else the same value, escaped."""
    text = raw.removesuffix(b"\n").decode("ascii", "replace")
    if line.get("event") != UNREADABLE and text.isascii() and text.isprintable():
        return text
    return json.dumps(line, separators=(",", ":")).replace(_DELETE, "\\u007f")


def csv_row(line: JsonObject) -> str:
    """Return the fields of COLUMNS as one row, every cell in quotes."""
    return _row(tuple(_cell(_field(line, column)) for column in COLUMNS))


def _field(line: JsonObject, column: str) -> Json:
    if column == "ended":
        code = line.get("exitCode")
        if isinstance(code, int) and code < 0:
            return f"signal {-code}"
        return None if code is None else f"exit {json.dumps(code)}"
    return line.get(column)


def _cell(value: Json) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    shown = safe_text(text[:CELL])
    return _FORMULA.sub(r"\1\2'", shown) + (f"… ({len(text)} characters)" if len(text) > CELL else "")


def _row(cells: tuple[str, ...]) -> str:
    into = io.StringIO()
    csv.writer(into, quoting=csv.QUOTE_ALL, lineterminator="").writerow(cells)
    return into.getvalue()
