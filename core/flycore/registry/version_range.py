"""Ranges of versions as registries have them: PEP 440 specifiers, and the caret and tilde of npm.

`^0.3.0` is `>=0.3.0,<0.4`: the first part that is not zero stays. `~1.2.3` is `>=1.2.3,<1.3`. Parts are
separated by commas or, where there is no comma, by blanks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

_NPM = re.compile(r"([\^~])\s*v?([0-9]{1,9}(?:\.[0-9]{1,9}){0,2})")


@lru_cache(maxsize=256)
def version_range(text: str) -> SpecifierSet | None:
    """Return the range, or None where the text is none."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    parts = text.split(",") if "," in text else re.sub(r"([<>=!~^])\s+", r"\1", text).split()
    try:
        return SpecifierSet(",".join(_specifier(part.strip()) for part in parts))
    except InvalidSpecifier:
        return None


def is_in_range(version: str, text: str) -> bool:
    """Return whether the version lies in the range; False for a text that is not one. Pre-releases count."""
    from packaging.version import InvalidVersion

    found = version_range(text)
    try:
        return found is not None and found.contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _specifier(part: str) -> str:
    match = _NPM.fullmatch(part)
    if match is None:
        return part
    numbers = [int(number) for number in match[2].split(".")]
    kept = _kept_of_caret(numbers) if match[1] == "^" else min(2, len(numbers))
    above = [*numbers[: kept - 1], numbers[kept - 1] + 1]
    return f">={match[2]},<{'.'.join(map(str, above))}"


def _kept_of_caret(numbers: list[int]) -> int:
    """How many parts a caret keeps, the last of which is the one that may not grow."""
    first = next((place for place, number in enumerate(numbers) if number), None)
    return len(numbers) if first is None else first + 1
