"""Tool patterns of rules: case-sensitive, `*` spans anything, everything else is itself."""

from __future__ import annotations

from flycore.model.suggest import nearest

MAX_PATTERN = 256
"""Characters; a longer pattern is refused when the file is loaded."""


def matches(pattern: str, name: str) -> bool:
    """Whether the whole name fits the pattern. Linear in the name, whatever the pattern."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    *middle, last = rest
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def near_miss(pattern: str, names: frozenset[str]) -> str | None:
    """The name that a pattern without `*` misses only by case, or by `_` for `.`."""
    if "*" in pattern or pattern in names:
        return None
    plain = pattern.casefold().replace("_", ".")
    return next((name for name in sorted(names) if name.casefold().replace("_", ".") == plain), None)


def nearest_patterns(pattern: str, names: frozenset[str]) -> tuple[str, ...]:
    """What may have been meant by a pattern that matches none of the names, likeliest first."""
    near = near_miss(pattern, names)
    if near is not None:
        return (near,)
    families = {f"{name.partition('.')[0]}.*" for name in names if "." in name}
    return nearest(pattern, sorted(families if "*" in pattern else names))
