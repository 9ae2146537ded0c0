"""Repetitions that give nothing back, in both spellings, and that no other spelling is used for a group."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flysafe.patterns import atomic, possessive, repeated

ROOT = Path(__file__).resolve().parents[2]
BODIES = {
    "inside a comment": (r"[^*]++|\*(?!/)", "*/ a"),
    "inside a string": (r'\\["\\/bfnrtu][^"\\]*+', '\\"un a'),
    "gap with comments": (r"(?://[^\n]*+|/\*(?:[^*]|\*(?!/))*\*/)[ \n,]*+", "/* \n,a"),
    "a string in three quotes": (r'[^"\\]|\\.|"(?!"")', '"\\a'),
    "with what may be left out": ("ab?c", "abc"),
}
POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d+(?:,\d*)?\})\+")
PATTERN_CALL = re.compile(r"""(?:rf?|fr|rb|br)(["'])""")


@pytest.mark.parametrize("name", BODIES)
@given(data=st.data())
def test_both_spellings_match_the_same(name: str, data: st.DataObject) -> None:
    body, letters = BODIES[name]
    times = data.draw(st.sampled_from(["*", "+", "{1,3}"]))
    # Python's own rule, without the word that has the fault: the longest repetition from the left.
    text = data.draw(st.text(letters, max_size=12))
    found = re.match(atomic(body, times), text)
    if sys.version_info >= (3, 11, 5):
        other = re.match(possessive(body, times), text)
        assert (found and found.span()) == (other and other.span())
    plain = re.match(f"(?:{body}){times}", text)
    assert (found and found.span()) == (plain and plain.span())


@pytest.mark.parametrize("text", ["/* a */ b", "/***/ b", "/* * / **/ b", "/*/ */ b"])
def test_the_spelling_of_this_python_ends_a_comment(text: str) -> None:
    body, _ = BODIES["inside a comment"]
    found = re.match(rf"/\*{repeated(body)}\*/", text)
    assert found is not None
    assert found.end() == len(text) - 2


def test_a_repetition_gives_nothing_back() -> None:
    assert re.match(repeated("a|b") + "b", "aab") is None


def test_no_group_is_repeated_possessively_elsewhere() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("core", "tui", "sidecars")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "patterns.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PATTERN_CALL.search(line) and POSSESSIVE_GROUP.search(line)
    ]
    assert found == []
