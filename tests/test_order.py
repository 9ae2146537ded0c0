"""The kit that orders the cases of a test run."""

from __future__ import annotations

import random

import pytest

from kits.order import spread


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_each_part_begins_with_its_share_of_long_cases_and_no_case_is_lost(parts: int) -> None:
    drawn = random.Random(parts)
    for count in (0, 1, 7, 100, 101):
        long = [drawn.random() < 0.1 for _ in range(count)]
        order = spread(long, parts)
        assert sorted(order) == list(range(count))
        assert not count or long[order[0]] == any(long)


def test_long_cases_begin_the_parts_in_turn() -> None:
    long = [number in (3, 8, 9) for number in range(10)]
    assert spread(long, 2) == [3, 9, 0, 1, 2, 8, 4, 5, 6, 7]
    assert spread([True] * 5, 3) == [0, 3, 1, 4, 2]
