"""Headers that may not be sent, and what a redirect keeps of a request."""

from __future__ import annotations

import pytest

from flysafe.web_requests import HttpRequest, InvalidHeader, RedirectRefused, follow_redirect, read_headers
from flysafe.web_urls import parse_url
from kits.tables import each_row


@each_row(
    ("name", "value"),
    [("Host", "a"), ("X", "a\r\nY: b"), ("X", "ä"), ("X Y", "a"), ("Proxy-Auth", "a"), ("X", 1)],
)
def test_a_header_that_could_change_the_message_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidHeader):
        read_headers({name: value})


def test_credentials_do_not_follow_to_another_origin() -> None:
    request = HttpRequest(parse_url("https://a.example/"), headers=(("X-Key", "s"), ("Accept", "*/*")))
    assert follow_redirect(request, 302, "/b").headers == request.headers
    moved = follow_redirect(request, 302, "https://b.example/")
    assert moved.headers == (("Accept", "*/*"),)


def test_a_request_with_an_effect_is_not_sent_elsewhere() -> None:
    request = HttpRequest(parse_url("https://a.example/"), method="POST", body=b"x")
    with pytest.raises(RedirectRefused):
        follow_redirect(request, 307, "https://b.example/")
    with pytest.raises(RedirectRefused):
        follow_redirect(request, 303, "http://a.example/")
    assert follow_redirect(request, 303, "/done").method == "GET"
