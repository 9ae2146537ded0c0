"""Where the keys of an entry stand, for remedies that name a line: looked for when one is made."""

from __future__ import annotations

from functools import lru_cache

from flycore.model.diagnostics import Position
from flycore.model.json import pointer_join, unescape_key
from flycore.model.sidecar import SidecarEntry
from flycore.registry.jsonc.spans import plain_keys, scan

_ENTRIES_KEPT = 256


def key_position(entry: SidecarEntry, key: str) -> Position:
    """Where that key of the entry stands; where the entry itself does if the key is absent."""
    return key_positions(entry).get(key, entry.position)


def key_positions(entry: SidecarEntry) -> dict[str, Position]:
    """Where each key that is written in the entry stands."""
    isolated = _key_positions(entry.text, entry.id)
    start = entry.position
    return {
        key: Position(
            file=start.file,
            line=start.line + line - 1,
            column=column + (start.column - 1 if line == 1 else 0),
        )
        for key, (line, column) in isolated.items()
    }


@lru_cache(maxsize=_ENTRIES_KEPT)
def _key_positions(text: str, sidecar: str) -> dict[str, tuple[int, int]]:
    """Line and column, both from 1, of each key of the entry within its own text."""
    plain = plain_keys(text)
    if plain is not None:
        return {key: _line_and_column(text, offset) for key, offset in plain.items()}
    index = scan(f"{{{text}}}")
    parent = f"{pointer_join('', sidecar)}/"
    found: dict[str, tuple[int, int]] = {}
    for pointer, span in index.keys.items():
        key = pointer.removeprefix(parent)
        if key != pointer and "/" not in key:
            found[unescape_key(key)] = _without_brace(index.position(span.start))
    return found


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _without_brace(place: tuple[int, int]) -> tuple[int, int]:
    """Without the brace that was put before the text."""
    line, column = place
    return line, column - 1 if line == 1 else column
