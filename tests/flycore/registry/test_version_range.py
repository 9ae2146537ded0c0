"""Ranges of versions: those of PEP 440, and the caret and tilde of npm."""

from __future__ import annotations

from flycore.registry.version_range import is_in_range, version_range
from kits.tables import each_row

CASES = (
    ("^0.3.0", ("0.3.0", "0.3.9"), ("0.2.9", "0.4.0", "1.0")),
    ("^1.2.3", ("1.2.3", "1.9"), ("1.2.2", "2.0")),
    ("^0.0.3", ("0.0.3",), ("0.0.4", "0.0.2")),
    ("^0", ("0.0.1", "0.9"), ("1.0",)),
    ("^0.0", ("0.0.7",), ("0.1",)),
    ("~1.2.3", ("1.2.3", "1.2.9"), ("1.3", "1.2.2")),
    ("~1", ("1.0", "1.9"), ("2.0",)),
    (">=0.1,<1", ("0.1", "0.9"), ("1.0",)),
    (">=0.1 <1", ("0.5",), ("1.0",)),
    (">= 0.1", ("0.5",), ("0.0.1",)),
    ("~=1.2", ("1.9",), ("2.0", "1.1")),
    ("^0.1, !=0.1.5", ("0.1.4",), ("0.1.5",)),
)


@each_row(("text", "inside", "outside"), CASES)
def test_a_range_holds_what_it_says(text: str, inside: tuple[str, ...], outside: tuple[str, ...]) -> None:
    assert all(is_in_range(version, text) for version in inside)
    assert not any(is_in_range(version, text) for version in outside)


@each_row("text", ["latest", "^", "^1.2.3.4", "^1.x", "~", ">=a", "^1 || ^2"])
def test_other_texts_are_no_range(text: str) -> None:
    assert version_range(text) is None
    assert not is_in_range("1.0", text)


def test_a_release_candidate_of_the_next_version_is_not_inside() -> None:
    assert is_in_range("0.3.1rc1", "^0.3.0")
    assert not is_in_range("0.4.0rc1", "^0.3.0")
