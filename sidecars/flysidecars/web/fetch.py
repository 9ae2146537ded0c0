"""The tools `web.fetch` and `web.request`."""

from __future__ import annotations

from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed
from flysidecars.web.body import is_text, text_of
from flysidecars.web.http_client import HttpReply, Network, TimeLimits, exchange
from flysidecars.web.http_request import METHODS, HttpRequest, read_headers
from flysidecars.web.settings import Settings, read_settings
from flysidecars.web.urls import parse_url

MAX_BODY_BYTES = 1024 * 1024
_MAX_HEADERS = 64


def network_of(settings: Settings) -> Network:
    """The network that the settings allow."""
    return Network(settings.allowed)


def times_of(settings: Settings) -> TimeLimits:
    """The time limits of a request whose body is kept in memory."""
    return TimeLimits(settings.read_timeout_ms / 1000, settings.timeout_ms / 1000)


def web_fetch(call: Call) -> JsonObject:
    """Load an address with GET and return its body as text. Raises what `exchange` raises, and `ToolFailed`
    (`not-text`)."""
    settings = read_settings(call.config)
    request = HttpRequest(parse_url(call.text("url")))
    with exchange(network_of(settings), request, times_of(settings)) as reply:
        data, cut = read_body(call, reply, settings.max_bytes)
    if not is_text(reply.content_type, data):
        raise not_text(reply)
    return {
        **reply_facts(reply),
        "text": text_of(data, reply.content_type),
        "bytes": len(data),
        "truncated": cut,
    }


def web_request(call: Call) -> JsonObject:
    """Send a request and return status, headers and body.

    A body that is not text is left out and `binary` is set. That is no failure: the request had its effect.
    """
    settings = read_settings(call.config)
    request = _read_request(call)
    with exchange(network_of(settings), request, times_of(settings)) as reply:
        data, cut = read_body(call, reply, settings.max_bytes)
    answer = {**reply_facts(reply), "headers": _header_fields(reply), "bytes": len(data), "truncated": cut}
    if is_text(reply.content_type, data):
        return {**answer, "text": text_of(data, reply.content_type)}
    return {**answer, "binary": True}


def read_body(call: Call, reply: HttpReply, limit: int) -> tuple[bytes, bool]:
    """The first `limit` bytes of the body, and whether the body is longer."""
    data = bytearray()
    for piece in reply.body(limit):
        call.raise_if_cancelled()
        data += piece
    return bytes(data[:limit]), len(data) > limit


def reply_facts(reply: HttpReply) -> JsonObject:
    """The address after redirects, the status and the content type of an answer."""
    return {"url": reply.target.url, "status": reply.status, "contentType": reply.content_type}


def not_text(reply: HttpReply) -> ToolFailed:
    """The failure for a body that is not text."""
    kind = reply.content_type or "of an unknown type"
    return ToolFailed(
        "not-text", f"the body is {kind}; web.download saves it as a file", **reply_facts(reply)
    )


def _read_request(call: Call) -> HttpRequest:
    given = call.input.get("headers") or {}
    if not isinstance(given, dict):
        raise InvalidInput("headers", "an object is needed")
    text = call.optional_text("body")
    body = None if text is None else text.encode("utf-8", "replace")
    if body is not None and len(body) > MAX_BODY_BYTES:
        raise InvalidInput("body", f"at most {MAX_BODY_BYTES} bytes are sent")
    method = call.choice("method", METHODS)
    if body and method in ("GET", "HEAD"):
        raise InvalidInput("body", f"a {method} request has none")
    return HttpRequest(parse_url(call.text("url")), method, read_headers(given), body)


def _header_fields(reply: HttpReply) -> JsonObject:
    """The answer's headers by name in lower case. The values of a repeated header are joined."""
    names = list(dict.fromkeys(name.lower() for name in reply.headers))[:_MAX_HEADERS]
    return {name: str(reply.headers[name])[:8192] for name in names}
