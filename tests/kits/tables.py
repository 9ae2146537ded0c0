"""Tables whose rows are one case: thousands of cases of a millisecond each cost more to list than to run."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

MOST_SHOWN = 5
"""How many failed rows are shown whole; the others are named."""
LONGEST_NAME = 200

Test = Callable[..., None]


def each_row(
    names: str | Sequence[str],
    table: Iterable[Any],
    ids: Callable[[Any], object] | Iterable[object] | None = None,
) -> Callable[[Test], Test]:
    """Run the test for each row of the table, in one case which names each row that failed.

    It takes the place of `pytest.mark.parametrize` for a test that leaves nothing behind: its rows share
    their fixtures. Two tables make every combination.
    """
    fields = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = [(row,) if len(fields) == 1 else tuple(row) for row in table]
    assert values, "a table without rows shows nothing"
    called = [*map(_name_of(ids), values)] if ids is None or callable(ids) else [*map(str, ids)]

    def over_rows(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failed = []
            for name, row in zip(called, values, strict=True):
                try:
                    test(**fixtures, **dict(zip(fields, row, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - reported below
                    failed.append((name, error))
            if failed:
                pytest.fail(_report(failed, len(values)), pytrace=False)

        signature = inspect.signature(test)
        rest = [one for one in signature.parameters.values() if one.name not in fields]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return run

    return over_rows


def _name_of(ids: Callable[[Any], object] | None) -> Callable[[tuple[Any, ...]], str]:
    def name(row: tuple[Any, ...]) -> str:
        if ids is None:
            return ascii(row[0] if len(row) == 1 else row)[:LONGEST_NAME]
        return "-".join(str(ids(value)) for value in row)

    return name


def _report(failed: Sequence[tuple[str, BaseException]], count: int) -> str:
    lines = [f"{len(failed)} of {count} rows failed: {', '.join(name for name, _ in failed)}"]
    for name, error in failed[:MOST_SHOWN]:
        lines += [f"\nrow {name}", "".join(traceback.format_exception(error)).rstrip()]
    return "\n".join(lines)
