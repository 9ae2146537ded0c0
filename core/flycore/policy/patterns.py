"""The name patterns of rules. They are case-sensitive; `*` stands for any characters, the rest for itself."""

from __future__ import annotations

from flycore.model.suggest import nearest

MAX_PATTERN = 256
"""Characters of a pattern; a longer one is a fault of its rule."""


def matches(pattern: str, name: str) -> bool:
    """Return whether the whole name matches the pattern."""
    # No regular expression: each piece between two stars is searched once, from left to right, so a pattern
    # from a cloned file cannot make the match slow.
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
    """Return the name that a pattern without `*` misses only by its case, or by `_` in place of `.`."""
    if "*" in pattern or pattern in names:
        return None
    plain = pattern.casefold().replace("_", ".")
    return next((name for name in sorted(names) if name.casefold().replace("_", ".") == plain), None)


def nearest_patterns(pattern: str, names: frozenset[str]) -> tuple[str, ...]:
    """Return what a pattern that matches none of the names may have meant, likeliest first."""
    near = near_miss(pattern, names)
    if near is not None:
        return (near,)
    families = {f"{name.partition('.')[0]}.*" for name in names if "." in name}
    return nearest(pattern, sorted(families if "*" in pattern else names))
