"""Which ways of looking at a call there are, and which one suits what it gave best. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from flycore.model.call import Activity, Artifact
from flycore.model.json import Json, JsonObject

SHORT_LINES = 16
"""An output of so few lines is read beside everything else about its call."""
MAX_COLUMNS = 24
_MAX_DEPTH = 64
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class CallView(Enum):
    """A way of looking at a call: its key and its title."""

    CALL = ("o", "Call")
    PICTURE = ("p", "Picture")
    TABLE = ("b", "Table")
    TEXT = ("x", "Text")
    TREE = ("t", "Tree")
    INPUT = ("i", "Input")
    STDERR = ("s", "stderr")

    @property
    def key(self) -> str:
        """The key that shows it."""
        return self.value[0]

    @property
    def title(self) -> str:
        """Its name on the line of views."""
        return self.value[1]


def views_of(call: Activity) -> tuple[CallView, ...]:
    """Those that have something to show."""
    result = call.result
    output = result.output if result is not None else None
    has = {
        CallView.CALL: True,
        CallView.PICTURE: bool(images_of(call)),
        CallView.TABLE: bool(table_of(output)),
        CallView.TEXT: next(texts_of(output), None) is not None,
        CallView.TREE: isinstance(output, dict | list),
        CallView.INPUT: bool(call.input_text),
        CallView.STDERR: result is not None and bool(result.stderr_tail),
    }
    return tuple(view for view in CallView if has[view])


def first_view(call: Activity) -> CallView:
    """What a person wants to see first: a picture as a picture, rows as a table, prose as prose."""
    output = call.result.output if call.result is not None else None
    if images_of(call):
        return CallView.PICTURE
    if table_of(output):
        return CallView.TABLE
    if _mostly_text(output):
        return CallView.TEXT
    return CallView.TREE if isinstance(output, dict | list) and _exceeds_lines(output) else CallView.CALL


def images_of(call: Activity) -> tuple[tuple[int, Artifact], ...]:
    """The call's images with their places among its artifacts."""
    artifacts = call.result.artifacts if call.result is not None else ()
    return tuple((at, item) for at, item in enumerate(artifacts) if item.mime_type.lower() in _IMAGES)


def table_of(output: Json) -> list[JsonObject]:
    """The rows of an output that is a list of flat objects, or has exactly one such list besides
    the files it made; else none."""
    if isinstance(output, dict):
        lists = [value for key, value in output.items() if key != "artifacts" and _is_rows(value)]
        output = lists[0] if len(lists) == 1 else None
    return output if isinstance(output, list) and _is_rows(output) else []  # type: ignore[return-value]  # checked item by item


def texts_of(value: Json, where: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every string in the output that is not empty, with the JSON pointer to it."""
    if isinstance(value, str) and value:
        yield where, value
    elif isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, item in value.items():
            yield from texts_of(item, f"{where}/{key}", depth + 1)
    elif isinstance(value, list) and depth < _MAX_DEPTH:
        for at, item in enumerate(value):
            yield from texts_of(item, f"{where}/{at}", depth + 1)


def _is_rows(value: Json) -> bool:
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) and item for item in value):
        return False
    flat = all(
        not isinstance(cell, dict | list)
        for item in value
        if isinstance(item, dict)
        for cell in item.values()
    )
    return flat and len({key for item in value[:50] if isinstance(item, dict) for key in item}) <= MAX_COLUMNS


def _mostly_text(output: Json) -> bool:
    """Whether one string with lines in it is most of what there is."""
    sizes = [(len(text), "\n" in text) for _, text in texts_of(output)]
    longest, lines = max(sizes, default=(0, False))
    return lines and longest * 2 >= sum(size for size, _ in sizes)


def _exceeds_lines(value: Json, budget: int = SHORT_LINES) -> bool:
    """Whether it takes more lines than that when it is spread out; looks no further than needed."""
    count, waiting = 0, [value]
    while waiting and count <= budget:
        item = waiting.pop()
        count += 2 if isinstance(item, dict | list) else 1
        if isinstance(item, dict):
            waiting.extend(list(item.values())[: budget + 1])
        elif isinstance(item, list):
            waiting.extend(item[: budget + 1])
    return count > budget
