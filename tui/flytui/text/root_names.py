"""Short names of the roots of one console, and the tone of each.

A path is text from outside: its name is made safe to draw, and has at most `MAX_NAME_CELLS` cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from flysafe.text import strict_text
from flytui.text.lines import Tone
from flytui.text.wrap import cell_width, cut_line

MAX_NAME_CELLS = 24
_TONES = (Tone.FIRST_ROOT, Tone.SECOND_ROOT, Tone.THIRD_ROOT, Tone.FOURTH_ROOT)


def short_names(paths: Sequence[str]) -> tuple[str, ...]:
    """A name for each of the paths: the shortest end of it that no other path has. Where two names would be
    drawn alike, because a part of them is cut, their places in the list are a part of them."""
    parts = [PurePath(path).parts or (path,) for path in paths]
    names = []
    for at, own in enumerate(parts):
        others = [other for index, other in enumerate(parts) if index != at]
        depths = range(1, len(own) + 1)
        unique = (depth for depth in depths if all(other[-depth:] != own[-depth:] for other in others))
        names.append(_drawn("/".join(own[-next(unique, len(own)) :])))
    counts = Counter(names)
    return tuple(name if counts[name] == 1 else _numbered(name, at) for at, name in enumerate(names, 1))


def root_tone(place: int) -> Tone:
    """The tone of the root at that place in the list, from 0. The name tells roots apart without it, too."""
    return _TONES[place % len(_TONES)]


def _drawn(end: str) -> str:
    """The end of a path as safe text. A long one is cut at its beginning, because its end tells projects
    apart."""
    name = strict_text(end.replace("//", "/"))
    if cell_width(name) <= MAX_NAME_CELLS:
        return name
    while cell_width(name) >= MAX_NAME_CELLS:
        # A visible token such as ⟦U+202E⟧ goes as a whole.
        name = name[name.index("⟧") + 1 :] if name.startswith("⟦") and "⟧" in name else name[1:]
    return f"…{name}"


def _numbered(name: str, number: int) -> str:
    end = f" ({number})"
    return f"{cut_line(name, MAX_NAME_CELLS - len(end))}{end}"
