"""Large JSON in pieces: the same text as in one go, and no call that takes long."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flycore.model import json_pieces
from flycore.model.json_pieces import PIECE_VALUES, encode, weight, without_strings
from kits.loop_shapes import SHAPES, within_limits
from kits.tables import each_row

ENCODERS = {
    "canonical": json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False),
    "sorted": json.JSONEncoder(sort_keys=True, ensure_ascii=False),
    "as it is": json.JSONEncoder(ensure_ascii=False),
}
ResultT = TypeVar("ResultT")


def in_worker(function: Callable[[], ResultT]) -> ResultT:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=40
)


@pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)
@settings(deadline=None)
@given(value=values)
def test_pieces_are_the_text_of_the_encoder(encoder: json.JSONEncoder, value: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_pieces, "PIECE_VALUES", 3)
        assert in_worker(lambda: encode(encoder, value)) == encoder.encode(value)


class Noted(json.JSONEncoder):
    """Notes how much each call writes."""

    calls: list[int]

    def encode(self, o: Any) -> str:
        self.calls.append(weight(o, 10**9, json_pieces.PIECE_CHARACTERS))
        return super().encode(o)


# Python itself refuses numbers of that many digits; nesting that deep is refused before it is read.
@each_row("name", [name for name in SHAPES if name[:4] not in ("deep", "numb")])
def test_no_call_writes_more_than_a_piece(name: str) -> None:
    text = json.loads(within_limits(name))
    value = [text, {"b": [{"c": [0] * 3}] * 10_000}]
    encoder = Noted(sort_keys=True)
    encoder.calls = []
    assert in_worker(lambda: encode(encoder, value)) == json.dumps(value, sort_keys=True)
    single = [size for size in encoder.calls if size > 3 * PIECE_VALUES]
    # One string cannot be written in pieces, and a string is fast.
    assert len(single) <= 1
    assert not single or any(isinstance(part, str) for part in text.values())


def test_the_main_thread_writes_at_once() -> None:
    encoder = Noted()
    encoder.calls = []
    encode(encoder, [0] * 10_000)
    assert len(encoder.calls) == 1


@given(st.lists(st.sampled_from(['"', "\\", "a", ",", "[", '"",', "é"])).map("".join), st.integers(1, 3))
def test_strings_are_removed_as_in_one_go(text: str, times: int) -> None:
    data = text.encode() * times + b'"x",' * (PIECE_VALUES * times) + text.encode()
    whole = re.sub(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', b"", data, flags=re.DOTALL)
    assert without_strings(data) == whole
