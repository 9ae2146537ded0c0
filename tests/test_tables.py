"""Tables of rows: every row runs, and the ones that fail are named."""

from __future__ import annotations

import inspect

import pytest

from kits.tables import each_row


def test_every_row_runs_and_each_that_fails_is_named_with_its_error() -> None:
    seen = []

    @each_row(("left", "right"), [(1, 1), (1, 2), (3, 3), (3, 4)])
    def equal(base: int, left: int, right: int) -> None:
        seen.append((base, left, right))
        assert left == right, f"{left} is not {right}"

    assert list(inspect.signature(equal).parameters) == ["base"]
    with pytest.raises(pytest.fail.Exception) as failed:
        equal(base=7)
    assert seen == [(7, 1, 1), (7, 1, 2), (7, 3, 3), (7, 3, 4)]
    message = str(failed.value)
    assert message.startswith("2 of 4 rows failed: (1, 2), (3, 4)")
    assert "1 is not 2" in message
    assert "3 is not 4" in message


def test_two_tables_make_every_combination_and_the_names_are_the_given_ones() -> None:
    seen = []

    @each_row("letter", "ab", ids=str.upper)
    @each_row("number", range(3), ids=["none", "one", "two"])
    def pairs(letter: str, number: int) -> None:
        seen.append(letter + str(number))
        assert (letter, number) != ("b", 2)

    with pytest.raises(pytest.fail.Exception) as failed:
        pairs()
    assert seen == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert "1 of 2 rows failed: B" in str(failed.value)
    assert "1 of 3 rows failed: two" in str(failed.value)


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(AssertionError):
        each_row("none", [])
