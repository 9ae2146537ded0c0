"""Web addresses of the tools: those of `flysafe.web_urls`, and international host names (IDNA 2008)."""

from __future__ import annotations

from flysafe import web_urls
from flysafe.lookalikes import mark_lookalikes
from flysafe.web_urls import InvalidWebUrl, UrlTarget
from flysidecars.sdk import ToolFailed


class InvalidUrl(ToolFailed):
    """An address that is refused, and why."""

    def __init__(self, why: str) -> None:
        super().__init__("invalid-url", f"url: {why}", field="url")


def parse_url(text: str) -> UrlTarget:
    """The target of an http or https address; its fragment is dropped. Raises `InvalidUrl`."""
    try:
        return web_urls.parse_url(text, international_host)
    except InvalidWebUrl as refused:
        raise InvalidUrl(str(refused)) from refused


def international_host(text: str) -> str:
    """A host name with other letters as ASCII. Raises `InvalidWebUrl`."""
    from idna import IDNAError, encode

    if mark_lookalikes(text) != text:
        raise InvalidWebUrl("the host has letters that look like others")
    try:
        return encode(text).decode("ascii")
    except IDNAError as broken:
        raise InvalidWebUrl("the host is not a valid international name (IDNA 2008)") from broken
