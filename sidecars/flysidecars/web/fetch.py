"""`web.fetch` and `web.request`: a body as text, or said not to be one."""

from __future__ import annotations

from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed
from flysidecars.web.body import is_text, text_of
from flysidecars.web.http_client import HttpReply, Network, TimeLimits, exchange
from flysidecars.web.http_request import METHODS, HttpRequest, read_headers
from flysidecars.web.settings import Settings, read_settings
from flysidecars.web.urls import parse_url

MOST_BODY = 1024 * 1024
_MOST_SHOWN_HEADERS = 64


def network_of(settings: Settings) -> Network:
    """The network as the entry allows it."""
    return Network(settings.allowed)


def times_of(settings: Settings) -> TimeLimits:
    """Time limits of what is read at once."""
    return TimeLimits(settings.read_timeout_ms / 1000, settings.timeout_ms / 1000)


def web_fetch(call: Call) -> JsonObject:
    """Load an address with GET and give its body as text."""
    settings = read_settings(call.config)
    order = HttpRequest(parse_url(call.text("url")))
    with exchange(network_of(settings), order, times_of(settings)) as reply:
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
    """Send a request and give status, headers and body. An answer that is no text is left out and said to
    be: what the request did is done."""
    settings = read_settings(call.config)
    order = _order(call)
    with exchange(network_of(settings), order, times_of(settings)) as reply:
        data, cut = read_body(call, reply, settings.max_bytes)
    answer = {**reply_facts(reply), "headers": _answer(reply), "bytes": len(data), "truncated": cut}
    if is_text(reply.content_type, data):
        return {**answer, "text": text_of(data, reply.content_type)}
    return {**answer, "binary": True}


def read_body(call: Call, reply: HttpReply, limit: int) -> tuple[bytes, bool]:
    """The first `limit` bytes of the body, and whether there is more."""
    data = bytearray()
    for piece in reply.body(limit):
        call.raise_if_cancelled()
        data += piece
    return bytes(data[:limit]), len(data) > limit


def reply_facts(reply: HttpReply) -> JsonObject:
    """Where it came from and what it is."""
    return {"url": reply.target.url, "status": reply.status, "contentType": reply.content_type}


def not_text(reply: HttpReply) -> ToolFailed:
    """The failure for a body that is not to be read."""
    kind = reply.content_type or "of no said type"
    return ToolFailed(
        "not-text", f"the body is {kind}; web.download saves it as a file", **reply_facts(reply)
    )


def _order(call: Call) -> HttpRequest:
    given = call.input.get("headers") or {}
    if not isinstance(given, dict):
        raise InvalidInput("headers", "an object is needed")
    text = call.optional_text("body")
    body = None if text is None else text.encode("utf-8", "replace")
    if body is not None and len(body) > MOST_BODY:
        raise InvalidInput("body", f"at most {MOST_BODY} bytes are sent")
    method = call.choice("method", METHODS)
    if body and method in ("GET", "HEAD"):
        raise InvalidInput("body", f"{method} has none")
    return HttpRequest(parse_url(call.text("url")), method, read_headers(given), body)


def _answer(reply: HttpReply) -> JsonObject:
    """The answer's headers by their names in lower case; those that came twice are joined."""
    names = list(dict.fromkeys(name.lower() for name in reply.headers))[:_MOST_SHOWN_HEADERS]
    return {name: str(reply.headers[name])[:8192] for name in names}
