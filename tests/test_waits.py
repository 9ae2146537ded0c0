"""The kit that waits for what comes about by itself."""

from __future__ import annotations

from itertools import islice

import pytest

from kits.waits import pauses, until


def test_pauses_grow_with_the_wait_up_to_the_longest() -> None:
    now = [0.0]
    found = pauses(0.05, 0.25, lambda: now[0])
    taken = []
    for pause in islice(found, 60):
        taken.append(pause)
        now[0] += pause
    assert taken[0] == taken[4] == 0.05
    assert taken == sorted(taken)
    assert taken[-1] == 0.25
    assert all(pause <= max(0.05, 0.2 * sum(taken[:at])) + 1e-9 for at, pause in enumerate(taken))


def test_what_comes_at_last_is_returned_and_what_never_comes_is_named() -> None:
    looks = iter([None, "", 0, "there"])
    assert until("it", lambda: next(looks)) == "there"
    with pytest.raises(pytest.fail.Exception, match="never came: a miracle"):
        until("a miracle", lambda: False, patience=0.01)


def test_it_is_looked_at_once_more_after_the_time_is_over() -> None:
    looks = iter([False, True])
    assert until("it", lambda: next(looks), patience=0.03)
