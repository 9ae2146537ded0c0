"""`web.search`: the providers are asked in their order, the first answer counts."""

from __future__ import annotations

import os

from flysidecars.sdk import Call, JsonObject, ToolFailed
from flysidecars.web.body import text_of
from flysidecars.web.fetch import network_of, read_body, times_of
from flysidecars.web.http_client import exchange
from flysidecars.web.probe import not_ready
from flysidecars.web.providers import SearchProvider, read_providers
from flysidecars.web.settings import Settings, read_settings


def web_search(call: Call) -> JsonObject:
    """Ask for `query`. Raises `Unavailable` where no provider can be asked, and `ToolFailed`
    (`providers-failed`) that names what each of them did."""
    settings = read_settings(call.config)
    query, count = call.text("query"), call.integer("count", 1, 50, 10)
    providers = read_providers(call.config)
    ready = [provider for provider in providers if not provider.missing(os.environ)]
    if not ready:
        raise not_ready(providers, os.environ)
    errors: list[JsonObject] = []
    for provider in ready:
        try:
            found = _ask(call, provider, settings, query, count)
        except ToolFailed as failure:
            if failure.code == "cancelled":
                raise
            errors.append({"provider": provider.name, "code": failure.code, "error": failure.message})
            continue
        return {"provider": provider.name, "results": found, **({"errors": errors} if errors else {})}
    named = "; ".join(f"{error['provider']}: {error['error']}" for error in errors)
    raise ToolFailed("providers-failed", f"no provider answered: {named}", errors=errors)


def _ask(
    call: Call, provider: SearchProvider, settings: Settings, query: str, count: int
) -> list[JsonObject]:
    order = provider.order(query, count, os.environ)
    with exchange(network_of(settings), order, times_of(settings)) as reply:
        if reply.status != 200:
            said = {401: "refuses the key", 403: "refuses the request", 429: "wants fewer requests"}
            why = said.get(reply.status, "answers otherwise than expected")
            raise ToolFailed("http-status", f"{why} ({reply.status})", status=reply.status)
        data, cut = read_body(call, reply, settings.max_bytes)
    text = "" if cut else text_of(data, reply.content_type)
    try:
        return provider.results(text, count)
    except (ValueError, RecursionError) as broken:
        raise ToolFailed("broken-response", "the answer is not of the shape that was configured") from broken
