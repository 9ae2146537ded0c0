"""JSON values, pointers into them, errors, and notes on what a conversion loses."""

from __future__ import annotations

import base64
import datetime

from flysidecars.sdk import ToolFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 64
_MOST_NOTES = 20


class Unrepresentable(ToolFailed):
    """The value cannot be written in the other format. `place` is a JSON pointer."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__("unrepresentable", f"{place or 'the top'}: {message}", place=place)


class Unreadable(ToolFailed):
    """The input is not valid in its format. `line` counts from 1 if it is known."""

    def __init__(self, kind: str, message: str, line: int | None = None) -> None:
        where = f" in line {line}" if line else ""
        super().__init__("unreadable", f"not {kind}{where}: {message}", **({"line": line} if line else {}))


class LossLog:
    """Notes, each once, on what would be missing if the result were converted back."""

    __slots__ = ("_more", "_notes")

    def __init__(self) -> None:
        self._notes: dict[str, None] = {}
        self._more = 0

    def note(self, words: str, place: str | None = None) -> None:
        """Add a note on a loss and the first place of it."""
        said = words if place is None else f"{words} at {place or 'the top'}"
        if said not in self._notes and len(self._notes) >= _MOST_NOTES:
            self._more += 1
        else:
            self._notes[said] = None

    def words(self) -> list[str]:
        """The notes; of very many the first ones and the number of the others."""
        return [*self._notes, *([f"and {self._more} more"] if self._more else [])]


def below(place: str, key: str | int) -> str:
    """The pointer to a member."""
    return f"{place}/{str(key).replace('~', '~0').replace('/', '~1')}"


def as_json(value: object, lost: LossLog, place: str = "", depth: int = 0) -> object:
    """The JSON value of a reader's result. Times become text, keys strings and bytes base64, each noted."""
    if depth > MAX_DEPTH:
        raise Unrepresentable(place, f"more than {MAX_DEPTH} levels deep")
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise Unrepresentable(place, "no finite number")
        return value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        lost.note("a time becomes text", place)
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        lost.note("bytes become base64", place)
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return dict(_members(value, lost, place, depth))
    if isinstance(value, (list, tuple)):
        return [as_json(item, lost, below(place, at), depth + 1) for at, item in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        lost.note("a set becomes a list", place)
        return [as_json(item, lost, place, depth + 1) for item in sorted(value, key=repr)]
    raise Unrepresentable(place, f"a {type(value).__name__} is no JSON")


def _members(
    value: dict[object, object], lost: LossLog, place: str, depth: int
) -> Iterator[tuple[str, object]]:
    seen: set[str] = set()
    for key, item in value.items():
        text = _key(key, place)
        if not isinstance(key, str):
            lost.note("a key that is no text becomes text", below(place, text))
        if text in seen:
            raise Unrepresentable(place, f"two keys that are both {text!r} as text")
        seen.add(text)
        yield text, as_json(item, lost, below(place, text), depth + 1)


def _key(key: object, place: str) -> str:
    if isinstance(key, str):
        return key
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, (int, float, datetime.date)):
        return str(key)
    raise Unrepresentable(place, "a key that is a list or an object")
