"""Addresses with placeholders: no value changes scheme, host, port, or the steps of the path."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flycore.model.url_template import fill_url, literal_host, parse_template
from flysafe.web_urls import InvalidWebUrl
from kits.tables import each_row

HOSTILE = st.text("${}abc;|&\n\r\"'@:[]\\/?#%..<>-= \0ü", max_size=30) | st.text(
    st.characters(codec="utf-8"), max_size=30
)


@given(HOSTILE, HOSTILE)
def test_a_value_stays_in_its_step_or_parameter(step: str, parameter: str) -> None:
    template = parse_template("https://api.example.com:8443/v1/${a}/end?x=${b}&y=1")
    try:
        target = fill_url(template, {"a": step, "b": parameter})
    except InvalidWebUrl:
        assert step in ("", ".", "..") or len(step + parameter) * 9 > 200
        return
    assert (target.scheme, target.host, target.port) == ("https", "api.example.com", 8443)
    parts = urlsplit(target.url)
    assert [unquote(one) for one in parts.path.split("/")] == ["", "v1", step, "end"]
    assert parse_qsl(parts.query, keep_blank_values=True) == [("x", parameter), ("y", "1")]
    assert target.url.isascii()


@given(HOSTILE)
def test_a_value_of_the_host_is_a_name_and_nothing_else(value: str) -> None:
    template = parse_template("https://${a}.example.com/x")
    try:
        target = fill_url(template, {"a": value})
    except InvalidWebUrl:
        return
    assert target.host == f"{value.lower()}.example.com"
    assert (target.port, target.path) == (443, "/x")


@each_row(
    "text",
    [
        "ftp://a/",
        "https://${a}@b/",
        "https://user:pw@b/",
        "https://a:${p}/",
        "https://a/#x",
        "${a}${b}",
        "${a}/path",
        "https://",
        "https:///x",
        "https://a b/",
        "https://a:22/",
        "//a/",
    ],
)
def test_an_address_whose_structure_is_open_is_refused(text: str) -> None:
    with pytest.raises(InvalidWebUrl):
        parse_template(text)


def test_a_host_is_literal_only_where_it_is_written_out() -> None:
    assert literal_host("http://[::1]:80/${a}") == "::1"
    assert literal_host("https://API.example.com/") == "api.example.com"
    assert literal_host("https://${h}/") == ""
    assert literal_host("https://x.${h}/") == ""
    assert literal_host("${u}") == ""


def test_an_address_that_is_one_value_is_read_strictly() -> None:
    template = parse_template("${u}")
    assert fill_url(template, {"u": "https://a.example/x?y"}).url == "https://a.example/x?y"
    for value in ("file:///etc/passwd", "http://a@b/", 3, None):
        with pytest.raises(InvalidWebUrl):
            fill_url(template, {"u": value})
    with pytest.raises(InvalidWebUrl):
        fill_url(template, {})


def test_a_required_part_without_a_value_is_named() -> None:
    with pytest.raises(InvalidWebUrl, match="q has no value"):
        fill_url(parse_template("https://a/?q=${q}"), {})
