"""The filter of Activity and Audit: terms, days in the person's time zone, and what is not a term."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from flytui.text.record_filter import parse_record_filter
from kits.tables import each_row

TEXTS = {"": "claude via mcp asked web.fetch", "caller": "claude via mcp", "tool": "web.fetch"}


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def matches(words: str, *, at: float = 0.0, now: float = 0.0) -> bool:
    return parse_record_filter(words, now).matches(lambda key: TEXTS[key], lambda: at)


@each_row(
    ("words", "found"),
    [
        ("", True),
        ("  ", True),
        ("!", True),
        ("Fetch", True),
        ("fetch nothing", False),
        ("!nothing", True),
        ("!fetch", False),
        ("caller:claude", True),
        ("CALLER:Claude tool:WEB", True),
        ("caller:web", False),
        ("!caller:web", True),
        ("caller:", True),
        ("who:claude", False),
    ],
)
def test_terms(words: str, found: bool) -> None:
    assert matches(words) is found


def test_a_day_begins_at_midnight_of_the_person(berlin: None) -> None:
    noon = time.mktime((2026, 3, 30, 12, 0, 0, 0, 0, -1))  # the day after a day of 23 hours
    midnight = time.mktime((2026, 3, 30, 0, 0, 0, 0, 0, -1))
    before = time.mktime((2026, 3, 29, 0, 0, 0, 0, 0, -1))
    assert midnight - before == 23 * 3600
    for at, today, yesterday in (
        (noon, True, False),
        (midnight, True, False),
        (midnight - 1, False, True),
        (before, False, True),
        (before - 1, False, False),
    ):
        assert matches("today", at=at, now=noon) is today
        assert matches("yesterday", at=at, now=noon) is yesterday
        assert matches("!today", at=at, now=noon) is not today
