"""Strict reading: what two readers could understand differently is refused, and nothing takes long."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flycore.model.json import Json, StrictJsonError, read_strict
from kits.tables import each_row

REFUSED = {
    "too many values": b"[" + b"0," * 100_000 + b"0]",
    "too many values, two each": b"{"
    + b",".join(b'"%d":[0]' % n for n in range(40_000))
    + b',"b":['
    + b"0," * 180_000
    + b"0]}",
    "too many objects": b"[" + b"{}," * 20_000 + b"{}]",
    "too many arrays": b"[" + b"[]," * 20_000 + b"[]]",
    "empty": b"",
    "open brace": b"{",
    "nan": b'{"a": NaN}',
    "infinity": b"[Infinity]",
    "minus infinity": b"[-Infinity]",
    "1e999": b"[1e999]",
    "minus 1e999": b"[-1e999]",
    "duplicate keys": b'{"a": 1, "a": 2}',
    "duplicate keys, one escaped": b'{"a": 1, "\\u0061": 2}',
    "duplicate keys deep": b'[{"x": {"a": 1, "b": 2, "a": 3}}]',
    "5,000 digits": b"9" * 5_000,
    "minus 5,000 digits": b"-" + b"9" * 5_000,
    "21 digits": b"1" * 21,
    "100,000 deep arrays": b"[" * 100_000 + b"]" * 100_000,
    "100,000 open arrays": b"[" * 100_000,
    "100,000 open objects": b'{"a":' * 100_000,
    "65 deep": b"[" * 65 + b"]" * 65,
    "65 deep, mixed": b'[{"a":' * 32 + b"[]" + b"}]" * 32,
    "lone high surrogate": b'["\\ud800"]',
    "lone low surrogate": b'["\\udc00x"]',
    "lone surrogate in a key": b'{"\\ud800": 1}',
    "surrogates the wrong way round": b'["\\udc00\\ud800"]',
    "raw NUL": b'["a\0b"]',
    "raw newline in a string": b'["a\nb"]',
    "UTF-16 BOM": '{"ok": true}'.encode("utf-16"),
    "UTF-8 BOM": b'\xef\xbb\xbf{"ok": true}',
    "truncated UTF-8": b'["\xe2\x82"]',
    "overlong UTF-8": b'["\xc0\xaf"]',
    "surrogate in UTF-8": b'["\xed\xa0\x80"]',
    "trailing garbage": b'{"a": 1} x',
    "two documents": b"{}{}",
    "comment": b"[1] // one",
    "trailing comma": b"[1,]",
    "single quotes": b"['a']",
    "leading zero": b"[01]",
    "plus": b"[+1]",
    "hex": b"[0x10]",
    "mismatched": b"[}" * 200,
    "no-break space": "\u00a0[]".encode(),
}

READ = {
    "null": (b"null", None),
    "array": (b"[]", []),
    "string": (b'"x"', "x"),
    "escaped NUL": (b'["\\u0000"]', ["\0"]),
    "surrogate pair": (b'["\\ud83d\\ude00"]', ["\U0001f600"]),
    "escaped backslash before u": (b'["\\\\ud800"]', ["\\ud800"]),
    "20 digits": (b"-" + b"9" * 20, -int("9" * 20)),
    "64 deep": (b"[" * 64 + b"]" * 64, None),
    "brackets in strings": (b'["' + b"[{" * 500 + b'"]', ["[{" * 500]),
    "escaped quotes around brackets": (b'["\\"' + b"[" * 100 + b'"]', ['"' + "[" * 100]),
    "wide and flat": (b"[" + b"[]," * 500 + b"{}]", [*([] for _ in range(500)), {}]),
    "CRLF": (b'{"a":\r\n1}\r\n', {"a": 1}),
    "10 MB string": (b'"' + b"a" * 10_000_000 + b'"', "a" * 10_000_000),
    "key of 1 MB": (b'{"' + b"k" * 1_000_000 + b'": 1}', {"k" * 1_000_000: 1}),
    "tiny number": (b"1e-999", 0.0),
}


@each_row("name", REFUSED)
def test_refused_with_a_reason(name: str) -> None:
    with pytest.raises(StrictJsonError) as caught:
        read_strict(REFUSED[name])
    assert caught.value.reason
    assert len(caught.value.reason) < 200


@each_row("name", READ)
def test_read(name: str) -> None:
    data, value = READ[name]
    if name == "64 deep":
        value = json.loads(data)
    assert read_strict(data) == value


@pytest.mark.parametrize(
    "text",
    [b'["' + b"," * 900_000 + b'"]', b'["' + b"[{" * 400_000 + b'"]', b'["' + b'\\",' * 300_000 + b'"]'],
)
def test_characters_in_strings_are_no_values(text: bytes) -> None:
    assert isinstance(read_strict(text), list)


@pytest.mark.parametrize(
    "text", [b'"' * 400_001, b'["' + b"\\\\" * 400_000 + b"," * 300_000, b"\\" * 1_000_000 + b"," * 300_000]
)
def test_text_without_end_is_counted_in_linear_time(text: bytes) -> None:
    with pytest.raises(StrictJsonError):
        read_strict(text)


def test_number_of_values_is_exact() -> None:
    assert read_strict(b"[1,2,3]", max_values=4) == [1, 2, 3]
    with pytest.raises(StrictJsonError, match="more than 3 values"):
        read_strict(b"[1,2,3]", max_values=3)
    with pytest.raises(StrictJsonError, match="more than 1 objects and arrays"):
        read_strict(b"[[]]", max_containers=1)


def test_limits_are_the_callers() -> None:
    assert read_strict(b"[[1]]", max_depth=64, max_digits=1) == [[1]]
    with pytest.raises(StrictJsonError, match="more than 2 digits"):
        read_strict(b"100", max_digits=2)
    with pytest.raises(StrictJsonError, match="deeper than 1"):
        read_strict(b"[[]]", max_depth=1)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**19), 10**19)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


@given(json_values, st.booleans(), st.sampled_from([None, 2]))
def test_reads_whatever_json_writes(value: Json, ascii_only: bool, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    assert read_strict(data) == value
