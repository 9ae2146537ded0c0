"""HTTP requests of the tools: those of `flysafe.web_requests`, with their faults as failures of a tool."""

from __future__ import annotations

from collections.abc import Mapping

from flysafe import web_requests
from flysafe.web_requests import (
    MAX_REDIRECTS,
    METHODS,
    REDIRECTS,
    Headers,
    HttpRequest,
    InvalidHeader,
    RedirectRefused,
)
from flysidecars.sdk import InvalidInput, ToolFailed
from flysidecars.web.urls import international_host

__all__ = [
    "MAX_REDIRECTS",
    "METHODS",
    "REDIRECTS",
    "Headers",
    "HttpRequest",
    "follow_redirect",
    "read_headers",
]


def read_headers(given: Mapping[str, object]) -> Headers:
    """The caller's headers. Raises `InvalidInput` for one that may not be sent."""
    try:
        return web_requests.read_headers(given)
    except InvalidHeader as refused:
        raise InvalidInput("headers", str(refused)) from refused


def follow_redirect(request: HttpRequest, status: int, location: str) -> HttpRequest:
    """The request that follows a redirect. Raises `ToolFailed` (`redirect-refused`) where it is not
    followed."""
    try:
        return web_requests.follow_redirect(request, status, location, international_host)
    except RedirectRefused as refused:
        host = request.target.host
        raise ToolFailed("redirect-refused", str(refused), host=host) from refused
