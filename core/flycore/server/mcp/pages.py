"""Pages of a sorted list. A cursor holds the last key of its page, not a position: it stays valid when
entries come and go."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
_CURSOR = "after:"


class UnknownCursorError(ValueError):
    """The cursor is not one that this server gave out."""


def page_of(
    items: Sequence[Item], cursor: str | None, size: int, key: Callable[[Item], str]
) -> tuple[list[Item], str | None]:
    """Return the page of at most `size` items after `cursor`, and the cursor of the next page. The items are
    sorted by their keys.

    The cursor is None for the first page, and after the last one. Raises UnknownCursorError.
    """
    if cursor is not None and not cursor.startswith(_CURSOR):
        raise UnknownCursorError(cursor[:200])
    keys = [key(item) for item in items]
    start = 0 if cursor is None else bisect_right(keys, cursor.removeprefix(_CURSOR))
    page = list(items[start : start + size])
    return page, f"{_CURSOR}{key(page[-1])}" if start + size < len(items) else None
