"""Addresses as the kernel reads them: without international names, and joined with a redirect's location."""

from __future__ import annotations

import pytest

from flysafe.web_urls import InvalidWebUrl, join_url, parse_url
from kits.tables import each_row


def test_a_host_beyond_ascii_is_refused_without_a_converter() -> None:
    with pytest.raises(InvalidWebUrl, match="xn--"):
        parse_url("https://bücher.example/")
    assert parse_url("https://bücher.example/", lambda host: "xn--bcher-kva.example").host.startswith("xn--")


@each_row(
    "text",
    [
        "http://a@b/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://a b/",
        "http://a:22/",
        "ftp://a/",
        "http://[::1",
    ],
)
def test_an_address_that_programs_read_differently_is_refused(text: str) -> None:
    with pytest.raises(InvalidWebUrl):
        parse_url(text)


def test_a_location_is_joined_and_checked_like_an_address() -> None:
    base = parse_url("https://a.example/one/two?x=1")
    assert join_url(base, "../three").url == "https://a.example/three"
    assert join_url(base, "//b.example:8443/c d").url == "https://b.example:8443/c%20d"
    with pytest.raises(InvalidWebUrl):
        join_url(base, "http://user@b.example/")
