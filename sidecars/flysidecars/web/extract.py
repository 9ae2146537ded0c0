"""The tool `web.extract`: returns the title and the main text of a page."""

from __future__ import annotations

import re

from flysidecars.sdk import Call, JsonObject, ToolFailed
from flysidecars.web.body import is_text, text_of
from flysidecars.web.fetch import network_of, not_text, read_body, reply_facts, times_of
from flysidecars.web.http_client import exchange
from flysidecars.web.http_request import HttpRequest
from flysidecars.web.reader import ReadablePage
from flysidecars.web.settings import read_settings
from flysidecars.web.urls import parse_url

_PAGE = re.compile(r"text/html|application/xhtml\+xml")
_MARKUP = re.compile(r"\s*(?:<!doctype html|<html|<head|<body)", re.IGNORECASE)


def web_extract(call: Call) -> JsonObject:
    """Load a page with GET and return its main text.

    `extractor` is `trafilatura`, `builtin`, or `none` for text that is not a page and is returned as it is.
    Raises what `exchange` raises, and `ToolFailed`: `http-status`, `not-text`.
    """
    settings = read_settings(call.config)
    with exchange(
        network_of(settings), HttpRequest(parse_url(call.text("url"))), times_of(settings)
    ) as reply:
        if not 200 <= reply.status < 300:
            raise ToolFailed(
                "http-status", f"{reply.target.host} answers {reply.status}", **reply_facts(reply)
            )
        data, cut = read_body(call, reply, settings.max_bytes)
    if not is_text(reply.content_type, data):
        raise not_text(reply)
    title, text, extractor = _extracted(text_of(data, reply.content_type), reply.content_type)
    return {**reply_facts(reply), "title": title, "text": text, "extractor": extractor, "truncated": cut}


def _extracted(text: str, content_type: str) -> tuple[str, str, str]:
    kind = content_type.partition(";")[0].strip().lower()
    if not (_PAGE.fullmatch(kind) or (not kind and _MARKUP.match(text))):
        return "", text, "none"
    page = ReadablePage()
    page.feed(text)
    page.close()
    found = _by_trafilatura(text)
    return (page.title, found, "trafilatura") if found else (page.title, page.text, "builtin")


def _by_trafilatura(text: str) -> str:
    """The main text by trafilatura (the extra `extract`); empty if it is not installed or finds nothing."""
    try:
        import trafilatura
    except ImportError:
        return ""
    return trafilatura.extract(text, include_comments=False, include_tables=True) or ""
