"""The filter of Activity and Audit: words, `caller:`, `tool:`, and days such as `today`.

Terms are separated by spaces; a record has to meet all of them. `!` before a term excludes what it finds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

KEYS = ("caller", "tool")
"""The keys of a record that a term can name."""
_DAYS = {"today": 0, "yesterday": 1}
"""Words for a day, with the number of days that it lies back."""


class FilterTerm(msgspec.Struct, frozen=True):
    """One term: a part of a text of the record, or a day."""

    value: str
    """In lower case; empty for a day."""
    key: str = ""
    """The text that is searched: one of KEYS, or empty for all of the record."""
    since: float = 0.0
    until: float = 0.0
    """The seconds of a day in Unix time, the second one excluded; both 0 where the term is no day."""
    excludes: bool = False


class RecordFilter(msgspec.Struct, frozen=True):
    """The terms of a filter. A filter without terms lets everything through."""

    terms: tuple[FilterTerm, ...] = ()

    def matches(self, text_of: Callable[[str], str], at: Callable[[], float]) -> bool:
        """Whether a record meets every term. `text_of` gives its text in lower case, all of it for an empty
        key; `at` gives its Unix time. Both are asked only for what a term needs."""
        return all(_meets(term, text_of, at) is not term.excludes for term in self.terms)


def parse_record_filter(text: str, now: float) -> RecordFilter:
    """Parse what a person typed. `now` is the Unix time from which days count, in the person's time zone. An
    unknown key is a word like any other."""
    terms = (_parse_term(word.casefold(), now) for word in text.split())
    return RecordFilter(tuple(term for term in terms if term is not None))


def _parse_term(word: str, now: float) -> FilterTerm | None:
    excludes, word = word.startswith("!"), word.removeprefix("!")
    if not word:
        return None
    if word in _DAYS:
        since = _day_start(now, _DAYS[word])
        return FilterTerm("", since=since, until=_day_start(now, _DAYS[word] - 1), excludes=excludes)
    key, colon, value = word.partition(":")
    if colon and key in KEYS:
        # While a person still writes the value, the term must not hide everything.
        return FilterTerm(value, key, excludes=excludes) if value else None
    return FilterTerm(word, excludes=excludes)


def _day_start(now: float, days_back: int) -> float:
    """The local midnight that began the day so many days before `now`."""
    today = time.localtime(now)
    # `mktime` puts a day of month outside of the month right, and knows days of 23 and 25 hours.
    return time.mktime((today.tm_year, today.tm_mon, today.tm_mday - days_back, 0, 0, 0, 0, 0, -1))


def _meets(term: FilterTerm, text_of: Callable[[str], str], at: Callable[[], float]) -> bool:
    if term.until:
        return term.since <= at() < term.until
    return term.value in text_of(term.key)
