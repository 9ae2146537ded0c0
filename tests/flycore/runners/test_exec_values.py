"""What is run with a call's values: arguments, requests, and arguments of functions."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flycore.model.tool_exec import HttpExec, PythonExec
from flycore.runners.exec_values import InvalidValue, fill_arguments, fill_function, fill_request

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
HOSTILE = st.text("${}abc;|&\n\r\"'`\\/?#%<>-= ü", max_size=30) | TEXT


@given(HOSTILE, HOSTILE)
def test_each_value_is_one_argument(first: str, second: str) -> None:
    args = ("--", "${a}", "--name=${b}", "${absent}", "end")
    try:
        filled = fill_arguments(args, {"a": first, "b": second})
    except InvalidValue:
        assert "\0" in first + second
        return
    assert filled == ("--", first, f"--name={second}", "end")


@given(HOSTILE)
def test_a_text_is_never_taken_for_an_option(value: str) -> None:
    try:
        filled = fill_arguments(("${a}", "${a}x"), {"a": value})
    except InvalidValue:
        assert value.startswith("-") or "\0" in value
        return
    assert not any(one.startswith("-") for one in filled)


def test_a_number_may_be_negative_and_a_value_cannot_end_the_options() -> None:
    assert fill_arguments(("${n}",), {"n": -3}) == ("-3",)
    with pytest.raises(InvalidValue):
        fill_arguments(("${a}", "${b}"), {"a": "--", "b": "-rf"})
    with pytest.raises(InvalidValue):
        fill_arguments(("x${a}",), {"a": "y" * 200_000})


@given(HOSTILE, TEXT)
def test_no_value_adds_a_header_or_changes_the_body_around_it(header: str, text: str) -> None:
    exec_ = HttpExec(
        method="POST", url="https://a.example/", headers={"X-A": "v=${h}"}, body={"k": "${t}", "fixed": True}
    )
    try:
        request = fill_request(exec_, {"h": header, "t": text}).request
    except InvalidValue:
        assert not header.isascii() or not header.isprintable()
        return
    assert [name for name, _ in request.headers] == ["X-A", "Content-Type"]
    assert all("\r" not in value and "\n" not in value for _, value in request.headers)
    assert json.loads(request.body or b"") == {"k": text, "fixed": True}


@given(TEXT, st.lists(TEXT, max_size=3))
def test_a_form_and_a_query_hold_each_value_in_its_parameter(one: str, many: list[str]) -> None:
    exec_ = HttpExec(
        method="POST",
        url="https://a.example/p",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        query={"one": "${one}", "many": "${many}", "gone": "${gone}"},
        body={"one": "${one}", "many": "${many}", "gone": "${gone}"},
    )
    request = fill_request(exec_, {"one": one, "many": many}).request
    expected = [("one", one), *(("many", item) for item in many)]
    assert parse_qsl(request.target.path.partition("?")[2], keep_blank_values=True) == expected
    assert parse_qsl((request.body or b"").decode(), keep_blank_values=True) == expected


def test_types_are_kept_in_a_body_and_in_arguments_of_a_function() -> None:
    values = {"n": 3, "deep": True, "items": [1, {"a": None}]}
    template = {"n": "${n}", "d": "${deep}", "x": "${no}"}
    exec_ = HttpExec(method="POST", url="https://a.example/", body=template)
    assert json.loads(fill_request(exec_, values).request.body or b"") == {"n": 3, "d": True}
    function = PythonExec(module="m", function="f", args=["${n}", "${items}", "${no}", "n=${n}"])
    assert fill_function(function, values) == [3, [1, {"a": None}], "n=3"]


def test_a_body_that_is_one_value_is_sent_as_it_is() -> None:
    exec_ = HttpExec(method="PUT", url="https://a.example/", body="${b}")
    text = fill_request(exec_, {"b": '{"a": 1}'}).request
    assert (text.body, text.headers) == (b'{"a": 1}', (("Content-Type", "text/plain; charset=utf-8"),))
    assert fill_request(exec_, {"b": [1]}).request.body == b"[1]"
    assert fill_request(exec_, {}).request.body is None
