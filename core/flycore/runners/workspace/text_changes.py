"""Changes of a text: exact replacements, and the difference between two texts as lines for a person.

They are pure functions. The kernel's own tools change files with them, and the card of a call shows by them
what it would change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from flycore.model.json import Json, JsonObject

AROUND = 3
"""How many unchanged lines are shown before and after a change."""
MOST_PAIRS = 20_000
"""Up to how many pairs of equal lines two texts are compared line by line."""
MOST_FILE_BYTES = 4 * 1024 * 1024
"""The largest file that is changed."""
MOST_SEARCHED = 256 * 1024 * 1024
"""Characters that all edits of one change may search together."""


class ChangeDoesNotFit(Exception):
    """The change does not fit the text; the message says why."""


def apply_change(before: str, change: JsonObject) -> str:
    """The text after the change's `edits`, or its `content`. Raises ChangeDoesNotFit."""
    content, edits = change.get("content"), change.get("edits")
    if isinstance(content, str):
        return content
    text = before
    wanted = edits if isinstance(edits, list) else []
    # Each edit searches the whole text.
    if len(wanted) * len(before) > MOST_SEARCHED:
        raise ChangeDoesNotFit(f"{len(wanted):,} edits are too many for a file of {len(before):,} characters")
    for number, edit in enumerate(wanted, 1):
        if len(text) > MOST_FILE_BYTES:
            raise ChangeDoesNotFit(
                f"after {number - 1} edits the text is longer than {MOST_FILE_BYTES:,} characters"
            )
        text = _edited(text, edit, number)
    return text


def _edited(text: str, edit: Json, number: int) -> str:
    if not isinstance(edit, dict):
        raise ChangeDoesNotFit(f"edit {number} is not an object")
    old, new = str(edit.get("old", "")), str(edit.get("new", ""))
    if not old:
        if text:
            raise ChangeDoesNotFit(f"edit {number} replaces nothing, and the file is not empty")
        return new
    found = text.count(old)
    if not found:
        raise ChangeDoesNotFit(f"the text that edit {number} replaces is not in the file")
    if found > 1 and edit.get("all") is not True:
        raise ChangeDoesNotFit(f"the text that edit {number} replaces is in the file {found} times")
    # Checked before it is made: a short text that occurs often, replaced by a long one, fills the memory.
    if len(text) + found * (len(new) - len(old)) > MOST_FILE_BYTES:
        raise ChangeDoesNotFit(f"edit {number} makes the file longer than {MOST_FILE_BYTES:,} characters")
    return text.replace(old, new)


def diff_lines(before: str, after: str) -> tuple[str, ...]:
    """The difference: `@@ line N`, then lines that begin with a space, `-` or `+`; empty where nothing
    changes. A text that does not end with a newline differs from one that does."""
    old, new = _lines(before), _lines(after)
    return tuple(_hunks(old, new, _changes(old, new)))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1]:
        return [*lines[:-1], f"{lines[-1]} (no newline at the end)"]
    return lines[:-1]


LineRange = tuple[int, int, int, int]
"""Lines `[0]` to `[1]` of the old text become lines `[2]` to `[3]` of the new one."""


def _changes(old: Sequence[str], new: Sequence[str]) -> list[LineRange]:
    least = min(len(old), len(new))
    head = next((at for at in range(least) if old[at] != new[at]), least)
    rest = least - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    if not left and not right:
        return []
    spans = [(0, len(left), 0, len(right))]
    # SequenceMatcher takes time in proportion to the pairs of equal lines: a file of thousands of equal
    # lines would hold up the kernel. Above the bound the changed part is shown whole, once as removed and
    # once as added.
    counts = Counter(right)
    if sum(counts[line] for line in left) <= MOST_PAIRS:
        codes = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
        spans = [(a, b, c, d) for tag, a, b, c, d in codes if tag != "equal"]
    return [(a + head, b + head, c + head, d + head) for a, b, c, d in spans]


def _hunks(old: Sequence[str], new: Sequence[str], spans: list[LineRange]) -> Iterator[str]:
    shown = 0
    for index, (a, b, c, d) in enumerate(spans):
        begin = max(shown, a - AROUND)
        if begin > shown or index == 0:
            yield f"@@ line {begin + 1}"
        yield from (f" {line}" for line in old[begin:a])
        yield from (f"-{line}" for line in old[a:b])
        yield from (f"+{line}" for line in new[c:d])
        following = spans[index + 1][0] if index + 1 < len(spans) else len(old)
        shown = min(b + AROUND, following, len(old))
        yield from (f" {line}" for line in old[b:shown])
