"""Equal values, equal texts; what is no JSON, or has no UTF-8, has no canonical form."""

from __future__ import annotations

import hashlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flycore.model.json import canonical_json, digest, indented_json
from kits.tables import each_row

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_it_reads_back_and_is_ascii(value: object) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert text.isascii()


@given(VALUES)
def test_indented_text_is_that_of_the_standard_library(value: object) -> None:
    assert indented_json(value) == json.dumps(value, indent=2)


def test_order_and_spaces_do_not_count() -> None:
    assert canonical_json({"b": [1, 2], "a": "ü"}) == '{"a":"\\u00fc","b":[1,2]}'
    assert digest({"b": 1, "a": 2}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()


@pytest.mark.parametrize("text", ["😀", "\\ud800", "\\\\ud83d\\ude00"])
def test_what_only_looks_like_half_a_pair_is_text(text: str) -> None:
    assert json.loads(canonical_json({text: [text]})) == {text: [text]}


@each_row("value", ["\ud800", "a\udc00", {"\udfff": 1}, [["\udc00\ud800"]], "😀\ud83d"])
def test_half_a_pair_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        canonical_json(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, {"deep": [-math.inf]}])
def test_numbers_that_json_has_not_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(value)
