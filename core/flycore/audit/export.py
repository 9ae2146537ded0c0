"""The log in other shapes, line by line: never more than one line is held.

`jsonl` is the log itself, so that what was exported can be verified as well; `csv` is for spreadsheets, a
choice of fields, none of which a spreadsheet takes for a formula; `text` is one readable line each. What is
no line of the log comes out as an UNREADABLE one, never silently dropped. All that is given is safe to print.
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
    """How the log is given out."""

    JSONL = "jsonl"
    CSV = "csv"
    TEXT = "text"


COLUMNS = (
    *("seq", "time", "event", "callId", "tool", "caller", "sidecar", "status", "code", "decision"),
    *("decidedBy", "tookMs", "risk", "level", "ended", "durationMs", "waitedMs", "authority", "subject"),
    *("message", "reason", "input", "hash"),
)
"""Of the table. `ended` is the exit code in words: a minus sign would start a formula."""
CELL = 4_096
"""Characters of a cell; the JSON lines have all of it."""

_FORMULA = re.compile(r"(^|[;,|\"'])([ \u3000]*)(?=[=+\-@＝＋－＠])")
"""Where a cell would start a formula, also in a program that splits at another character than ours."""
_DELETE = "\x7f"


def export(folder: Path, form: Format, span: TimeRange = ALL_TIME) -> Iterator[str]:
    """The lines meant, oldest first, without newline, ready to print; for csv a heading first. OSError."""
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
    """Each line meant, as it stands in the log and as a value. OSError."""
    for path in month_files(folder) if folder.exists() else ():
        part = log_file_of(path)
        if part is None or not span.reaches(part.month):
            continue
        with path.open("rb") as file:
            for raw in read_lines(file):
                line = parse_line(raw)
                if line in span:
                    yield raw, line


def json_line(raw: bytes, line: JsonObject) -> str:
    """The line as it stands in the log, where that is ASCII that can be printed; else the same value."""
    text = raw.removesuffix(b"\n").decode("ascii", "replace")
    if line.get("event") != UNREADABLE and text.isascii() and text.isprintable():
        return text
    return json.dumps(line, separators=(",", ":")).replace(_DELETE, "\\u007f")


def csv_row(line: JsonObject) -> str:
    """The fields of COLUMNS as one row, every cell in quotes."""
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
    kept = safe_text(text[:CELL])
    return _FORMULA.sub(r"\1\2'", kept) + (f"… ({len(text)} characters)" if len(text) > CELL else "")


def _row(cells: tuple[str, ...]) -> str:
    into = io.StringIO()
    csv.writer(into, quoting=csv.QUOTE_ALL, lineterminator="").writerow(cells)
    return into.getvalue()
