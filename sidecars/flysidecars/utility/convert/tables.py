"""Reader and writer of csv: rows of texts under a header."""

from __future__ import annotations

import csv
from io import StringIO

from flysidecars.utility.convert.values import LossLog, Unreadable, Unrepresentable, below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FIELD_BYTES = 1 << 20


def read_csv(text: str, _: LossLog) -> object:
    """Parse rows into a list of objects of texts. The first row holds the names."""
    return list(rows_of(StringIO(text, newline="")))


def rows_of(lines: Iterable[str]) -> Iterator[dict[str, object]]:
    """Yield the rows one by one. Raises `Unreadable` for a row that is longer or shorter than the header."""
    csv.field_size_limit(FIELD_BYTES)
    reader = csv.reader(lines, strict=True)
    try:
        header = next(reader, None)
        if header is None:
            return
        if len(set(header)) != len(header):
            raise Unreadable("csv", "two columns of the same name", 1)
        for row in reader:
            if not row and len(header) != 1:
                continue
            if len(row) != len(header) and not (not row and len(header) == 1):
                raise Unreadable("csv", f"{len(row)} fields under {len(header)} names", reader.line_num)
            yield dict(zip(header, row or [""], strict=True))
    except csv.Error as error:
        raise Unreadable("csv", str(error), reader.line_num) from error


def write_csv(value: object, lost: LossLog) -> str:
    """Write a list of flat objects, with the columns in order of their first use."""
    if not isinstance(value, list):
        raise Unrepresentable("", "csv holds a list of objects")
    columns = columns_of(enumerate(value))
    buffer = StringIO(newline="")
    write_header(buffer, columns)
    for at, row in enumerate(value):
        write_row(buffer, columns, at, row, lost)
    return buffer.getvalue()


def columns_of(rows: Iterable[tuple[int, object]]) -> tuple[str, ...]:
    """The names of all columns; `rows` are objects with their number, from 0."""
    columns: dict[str, None] = {}
    for at, row in rows:
        if not isinstance(row, dict):
            raise Unrepresentable(below("", at), "csv holds a list of objects")
        columns.update(dict.fromkeys(row))
    return tuple(columns)


def write_header(held: StringIO, columns: tuple[str, ...]) -> None:
    """The header row; empty without names."""
    if columns:
        csv.writer(held, strict=True).writerow(columns)


def write_row(held: StringIO, columns: tuple[str, ...], at: int, row: object, lost: LossLog) -> None:
    """One row, the object number `at`, with the line end of RFC 4180."""
    if columns and isinstance(row, dict):
        fields = [_field(row, name, at, lost) for name in columns]
        csv.writer(held, strict=True).writerow(fields)


def _field(row: dict[str, object], name: str, at: int, lost: LossLog) -> str:
    if name not in row:
        lost.note("members that are not there become empty fields")
        return ""
    value = row[name]
    if isinstance(value, str):
        return value
    if value is None:
        lost.note("null becomes an empty field")
        return ""
    if isinstance(value, bool):
        lost.note("true and false become text")
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        lost.note("numbers become text")
        return repr(value)
    raise Unrepresentable(below(below("", at), name), "csv holds no lists and no objects in a field")
