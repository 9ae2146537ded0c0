"""The tool `web.search`: asks the providers in their order and returns the first answer."""

from __future__ import annotations

import os

from flysidecars.sdk import Call, JsonObject, ToolFailed
from flysidecars.web.body import text_of
from flysidecars.web.fetch import network_of, read_body, times_of
from flysidecars.web.http_client import exchange
from flysidecars.web.probe import no_provider_ready
from flysidecars.web.providers import SearchProvider, read_providers
from flysidecars.web.settings import Settings, read_settings


def web_search(call: Call) -> JsonObject:
    """Search for `query`.

    Raises `InvalidInput`, `Unavailable` if no provider can be used, and `ToolFailed` (`providers-failed`)
    with the error of each provider.
    """
    settings = read_settings(call.config)
    query, count = call.text("query"), call.integer("count", 1, 50, 10)
    providers = read_providers(call.config)
    ready = [provider for provider in providers if not provider.missing_secrets(os.environ)]
    if not ready:
        raise no_provider_ready(providers, os.environ)
    errors: list[JsonObject] = []
    for provider in ready:
        try:
            found = _query(call, provider, settings, query, count)
        except ToolFailed as failure:
            if failure.code == "cancelled":
                raise
            errors.append({"provider": provider.name, "code": failure.code, "error": failure.message})
            continue
        return {"provider": provider.name, "results": found, **({"errors": errors} if errors else {})}
    named = "; ".join(f"{error['provider']}: {error['error']}" for error in errors)
    raise ToolFailed("providers-failed", f"no provider answered: {named}", errors=errors)


def _query(
    call: Call, provider: SearchProvider, settings: Settings, query: str, count: int
) -> list[JsonObject]:
    request = provider.request(query, count, os.environ)
    with exchange(network_of(settings), request, times_of(settings)) as reply:
        if reply.status != 200:
            reasons = {401: "refuses the key", 403: "refuses the request", 429: "wants fewer requests"}
            why = reasons.get(reply.status, "answers with an unexpected status")
            raise ToolFailed("http-status", f"{why} ({reply.status})", status=reply.status)
        data, cut = read_body(call, reply, settings.max_bytes)
    text = "" if cut else text_of(data, reply.content_type)
    try:
        return provider.results(text, count)
    except (ValueError, RecursionError) as broken:
        raise ToolFailed("broken-response", "the answer does not have the configured form") from broken
